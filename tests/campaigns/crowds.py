"""Many processes in one folder: one runs, the others end with exit code 11 or resume later, and the result must be right.
Readers must not find a half-written checkpoint. In some tries the folder disappears during the run.

A try starts several processes. Their kinds take turns: new runs in a new folder; --resume auto of a stopped run;
--overwrite of a finished run; `export` while checkpoints are written; a run whose folder, or folder of checkpoints, is
removed or renamed.
"""
import shutil
import time

from compare import contents, wrong_result
from job import OTHER_RATE, OVERWRITE, RESUME, STOP_EARLY, error_of, finish, job, write_materials

SETTINGS = {"steps": 10, "save": 2, "evaluate": 4}
CROWD = 20
LOCKED, STORAGE, NOT_EMPTY = 11, 7, 2


def run(campaign):
    """Tries all crowds in turn."""
    write_materials(campaign.folder)
    campaign.program.succeed(job("whole", **SETTINGS), campaign.folder)
    wanted = contents(campaign.folder / "whole")
    while campaign.more():
        kind = KINDS[campaign.tries % len(KINDS)]
        shutil.rmtree(campaign.folder / "run", ignore_errors=True)
        problems = kind(campaign, wanted)
        campaign.tried(kind.__name__)
        campaign.fault(kind.__doc__.strip().rstrip("."), *problems)


def crowd(campaign, words, wanted, also=()):
    """Starts many processes at once; at least one must do the work, and the others find the folder locked."""
    processes = [campaign.program.start(words, campaign.folder) for _ in range(CROWD)]
    for process in processes:
        finish(process)
    codes = [p.returncode for p in processes]
    problems = wrong_result(wanted, campaign.folder / "run")
    problems += [f"exit {p.returncode} {error_of(p)}" for p in processes if p.returncode not in (0, LOCKED, *also)]
    return problems + ["no process did the work"] * (0 not in codes)


def new_runs(campaign, wanted):
    """Starts runs in a new folder at the same time."""
    return crowd(campaign, job("run", **SETTINGS), wanted, {NOT_EMPTY})


def resumed_runs(campaign, wanted):
    """Resumes a stopped run several times at the same time."""
    campaign.program.run(job("run", *STOP_EARLY, **SETTINGS), campaign.folder)
    return crowd(campaign, job("run", *RESUME, **SETTINGS), wanted)


def replacing_runs(campaign, wanted):
    """Replaces a finished run several times at the same time."""
    campaign.program.succeed(job("run", *OTHER_RATE, **SETTINGS), campaign.folder)
    return crowd(campaign, job("run", *OVERWRITE, **SETTINGS), wanted)


def readers(campaign, wanted):
    """Exports a run that saves after each step."""
    writer = campaign.program.start(job("run", steps=400, save=1, evaluate=1000), campaign.folder)
    problems, read = [], 0
    while writer.poll() is None and read < CROWD:
        done = campaign.program.run(["export", "run", "--out", "read.onnx"], campaign.folder)
        begun = (campaign.folder / "run/checkpoints/checkpoint-1").exists() or done.returncode == 0 or read
        if done.returncode and begun:
            problems.append(f"export: exit {done.returncode} {error_of(done)}")
        read += done.returncode == 0
    writer.kill()
    finish(writer)
    return problems


def vanished(campaign, take_away):
    """Takes something away under a run that saves often; the run must end with exit code 7 at the next save."""
    process = campaign.program.start(job("run", steps=20_000, save=5, evaluate=1000), campaign.folder)
    metrics = campaign.folder / "run/metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size > 3000):
        time.sleep(0.002)
    take_away(campaign.folder / "run")
    finish(process)
    return [] if process.returncode == STORAGE else [f"exit {process.returncode}: {process.stderr[-300:]}"]


def removed(campaign, wanted):
    """Removes the folder of the run."""
    return vanished(campaign, lambda path: shutil.rmtree(path, ignore_errors=True))


def renamed(campaign, wanted):
    """Renames the folder of the run."""
    shutil.rmtree(campaign.folder / "moved", ignore_errors=True)
    return vanished(campaign, lambda path: path.rename(campaign.folder / "moved"))


KINDS = [new_runs, removed, resumed_runs, renamed, replacing_runs, readers]
