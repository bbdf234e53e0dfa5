"""Unusual environments: names of folders, links, permission masks (umask), closed or full outputs, locales, time zones.
The run must end with the same bytes or a documented exit code, and must not write through links.
"""
import os
import shutil

from compare import contents, differences, wrong_result
from job import OVERWRITE, RESUME, job, write_materials, wrong_end

SETTINGS = {"steps": 10, "save": 2, "evaluate": 4}
NAMES = ["a\nb", "a b  c ", "ünï-日本-\U0001f600", "-dash", "quote'\"`$(touch pwned)", "\x1b]0;owned\x07\x1b[31mred",
         "a\tb", "x" * 255, "deep/" * 900 + "x", "%s%n%d", "a\\b", os.fsdecode(b"b\xffad"), "\u202egnp.exe"]
WRITTEN = ["metrics.jsonl", "eval.jsonl", "run.json", "report.html", "precision_plan.json", "model.onnx",
           ".run-files.json", ".lock", "samples.json", "export.safetensors"]
FOLDERS = [".finish", ".new-run"]  # "checkpoints" may be a link, to a larger disk
LANGUAGES = ["tr_TR.UTF-8", "de_DE.UTF-8", "ar_SA.UTF-8", "C", "none"]
ZONES = ["Pacific/Kiritimati", "America/St_Johns", ":/dev/zero", "A" * 5000]
MASKS = [0o077, 0o000]


def run(campaign):
    """Tries all places in random order."""
    write_materials(campaign.folder)
    campaign.program.succeed(job("whole", **SETTINGS), campaign.folder)
    wanted = contents(campaign.folder / "whole")
    places = [(named, n) for n in NAMES] + [(linked, n) for n in WRITTEN + FOLDERS] + [(spoken, n) for n in LANGUAGES]
    places += [(zoned, n) for n in ZONES] + [(masked, n) for n in MASKS] + [(closed, n) for n in (0, 1, 2, 3)]
    places += [(full, n) for n in ("stdout", "stderr")] + [(behind_link, "run"), (dangling, "run")]
    campaign.random.shuffle(places)
    for kind, value in places:
        if not campaign.more():
            break
        remove(campaign.folder / "run")
        problems = kind(campaign, value, wanted)
        campaign.tried(kind.__name__)
        campaign.fault(f"{kind.__name__} {value!r:.60}", *problems)


def remove(path):
    """Removes a folder, or a link."""
    if path.is_symlink():
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)


def same(campaign, process, wanted, out="run"):
    """Returns problems; none if the run ended with exit code 0 and the wanted bytes."""
    if process.returncode:
        return [f"exit {process.returncode}: {process.stderr[-300:]}"]
    return wrong_result(wanted, campaign.folder / out)


def ordinary(campaign, wanted, **more):
    """Runs the usual job in the environment that `more` describes. Returns the problems."""
    return same(campaign, campaign.program.run(job("run", **SETTINGS), campaign.folder, **more), wanted)


def named(campaign, name, wanted):
    """Tries an output folder with an odd name: the run, its export and a resumed run must succeed, or the name is
    refused."""
    out = "./" + name
    process = campaign.program.run(job(out, **SETTINGS), campaign.folder)
    problems = ["a raw control character in a message"] * ("\x1b" in process.stderr)
    problems += ["the name was executed"] * (campaign.folder / "pwned").exists()
    if process.returncode:
        return problems + wrong_end(process)
    problems += same(campaign, process, wanted, name)
    for words in (["export", out, "--out", "x.onnx"], job(out, *RESUME, **SETTINGS)):
        again = campaign.program.run(words, campaign.folder)
        problems += [f"{words[0]}: exit {again.returncode}: {again.stderr[-300:]}"] * bool(again.returncode)
    return problems


def linked(campaign, name, wanted):
    """Tries a run in whose folder a file is a link to another file, or a folder is a link to another folder."""
    (campaign.folder / "run").mkdir()
    victim, other = campaign.folder / "victim", campaign.folder / "other"
    victim.write_text("precious")
    shutil.rmtree(other, ignore_errors=True)
    other.mkdir()
    (campaign.folder / "run" / name).symlink_to(other if name in FOLDERS else victim)
    process = campaign.program.run(job("run", **SETTINGS), campaign.folder)
    problems = wrong_end(process)
    problems += ["the target of the link was overwritten"] * (victim.read_text() != "precious")
    return problems + [f"written into the target: {os.listdir(other)}"] * bool(os.listdir(other))


def behind_link(campaign, name, wanted):
    """Tries an output folder that is a link. It must remain a link, also when the run is replaced."""
    remove(campaign.folder / "real")
    (campaign.folder / "real").mkdir()
    (campaign.folder / name).symlink_to("real")
    problems = ordinary(campaign, wanted)
    problems += same(campaign, campaign.program.run(job(name, *OVERWRITE, **SETTINGS), campaign.folder), wanted)
    return problems + ["the link was replaced"] * (not (campaign.folder / name).is_symlink())


def dangling(campaign, name, wanted):
    """Tries an output folder that is a link to a missing folder."""
    (campaign.folder / name).symlink_to("nowhere")
    return wrong_end(campaign.program.run(job(name, **SETTINGS), campaign.folder))


def masked(campaign, mask, wanted):
    """Tries another umask."""
    return ordinary(campaign, wanted, umask=mask)


def spoken(campaign, language, wanted):
    """Tries a locale with another language and another format of numbers."""
    return ordinary(campaign, wanted, env={"LC_ALL": language, "LANG": language})


def zoned(campaign, zone, wanted):
    """Tries another time zone."""
    return ordinary(campaign, wanted, env={"TZ": zone})


def closed(campaign, descriptor, wanted):
    """Closes descriptor 0, 1 or 2, or all of them (3). No message may be written to a file that gets one of these
    descriptors."""
    numbers = range(3) if descriptor == 3 else [descriptor]
    problems = ordinary(campaign, wanted, preexec_fn=lambda: [os.close(n) for n in numbers])
    for path in (campaign.folder / "run").glob("*.jsonl"):
        problems += [f"a message in {path.name}"] * (b"warning" in path.read_bytes())
    return problems


def full(campaign, stream, wanted):
    """Connects an output to a full device."""
    with open("/dev/full", "wb") as device:
        process = campaign.program.start(job("run", **SETTINGS), campaign.folder, **{stream: device})
        process.wait()
    problems = [f"exit {process.returncode}"] * bool(process.returncode)
    return problems + differences(wanted, contents(campaign.folder / "run"))[:3]
