"""Lets one system call of the program fail, or kills the process at it, for each call in turn (strace -e inject).

This is done in a new run, a resumed run, a run that replaces another, and the verb export. Afterwards the exit code must
be a documented one, no checkpoint may be half written, no temporary file may be left, the model must be the old or the
new one, and a resumed run must end with the bytes of the uninterrupted one.
"""
import json
import shutil

import faults
from compare import TEMPORARY, contents, digest, temporary, wrong_result
from job import OTHER_RATE, OVERWRITE, RESUME, STOP_EARLY, error_of, job, write_materials, wrong_end

CHANGING = ["openat", "write", "pwrite64", "fsync", "rename", "renameat2", "mkdir", "unlink", "unlinkat", "rmdir",
            "ftruncate", "fallocate"]
OTHER = ["close", "flock", "mmap", "fstat", "newfstatat", "getdents64", "read", "pread64", "lseek"]
REMOVING = {"unlink", "unlinkat", "rmdir"}
STORAGE = 7
ERRORS = ["EIO", "ENOSPC", "EDQUOT", "EACCES", "EINTR"]
UNINTERRUPTED = {"rename", "renameat2", "mkdir", "unlink", "unlinkat", "rmdir", "fstat", "newfstatat", "mmap", "lseek"}
SETTINGS = {"steps": 4, "save": 2, "evaluate": 2}
MORE = ["--verify_export", "true"]


def run(campaign):
    """Tries every call of every phase with every error, in random order; calls that change files come first."""
    faults.require_strace()
    write_materials(campaign.folder)
    tries = []
    for kind in PHASES:
        phase = kind(campaign)
        phase.prepare()
        tries += [(phase, *point) for point in points_of(phase)]
    campaign.measured["possible tries"] = len(tries)
    campaign.random.shuffle(tries)
    tries.sort(key=lambda t: t[1] not in CHANGING)
    campaign.measured["possible tries of calls that change files"] = sum(t[1] in CHANGING for t in tries)
    for phase, call, number, how, text in tries:
        if not campaign.more():
            break
        attempt(campaign, phase, call, number, how, text)


def points_of(phase):
    """Yields (call, number, how, text) of everything that can be tried in a phase."""
    first = phase.begin()
    traced = faults.points(phase.program, first, phase.folder, CHANGING + OTHER, phase.first_file)
    for call, number, text in traced:
        yield from ((call, number, how, text) for how in ["KILL"] * (call in CHANGING) + ERRORS
                    if not (how == "EINTR" and call in UNINTERRUPTED))


def attempt(campaign, phase, call, number, how, text):
    """Makes one try and checks what it leaves."""
    words = phase.begin()
    log = phase.folder / "injected"
    process = phase.program.run(words, phase.folder, prefix=faults.injection(call, how, number, log))
    problems = [] if how == "KILL" else wrong_end(process, silent=faults.lost_text(log))
    problems += phase.problems(process.returncode, may_leave(call, how, text, process.returncode))
    campaign.tried(f"{phase.name} {call} {how}")
    said = error_of(process).get("error", "")
    campaign.fault(f"{phase.name}: {how} at {call} {number} ({text[:160]}): exit {process.returncode} {said}", *problems)


def may_leave(call, how, text, code):
    """Returns parts of names of temporary files that may stay until the next start."""
    opened_for_removal = call == "openat" and how != "EINTR" and "O_DIRECTORY" in text and any(
        part in text for part in TEMPORARY)
    if how == "KILL" or call in REMOVING or opened_for_removal:
        return TEMPORARY
    return (".finish",) if code == STORAGE else ()  # complete results that could not be moved: the next start moves them


def half_written(folder):
    """Returns names of visible checkpoints that lack a file or have one of another size."""
    found = []
    for checkpoint in (folder / "checkpoints").glob("checkpoint-*"):
        try:
            files = json.loads((checkpoint / "manifest.json").read_text())["files"]
            whole = all((checkpoint / f["name"]).stat().st_size == f["bytes"] for f in files)
        except (OSError, ValueError, KeyError):
            whole = False
        if not whole and ".tmp-" not in checkpoint.name:
            found.append(checkpoint.name)
    return found


class Run:
    """A new run."""
    name, first_file, how_started = "run", "bert.onnx", []

    def __init__(self, campaign):
        self.program, self.folder = campaign.program, campaign.folder
        self.out = self.folder / "run"

    def command(self, out="run", *more, **settings):
        """Returns the words of the job."""
        return job(out, *MORE, *more, **{**SETTINGS, **settings})

    def prepare(self):
        """Makes the uninterrupted run."""
        if not (self.folder / "whole").exists():
            self.program.succeed(self.command("whole"), self.folder)
        self.wanted = contents(self.folder / "whole")

    def before(self):
        """Returns the folder that the run finds, or None."""
        return None

    def begin(self):
        """Restores the folder and returns the words of the command."""
        shutil.rmtree(self.out, ignore_errors=True)
        if self.before():
            shutil.copytree(self.before(), self.out)
        return self.command("run", *self.how_started)

    def problems(self, code, allowed):
        """Returns problems of the files that the process left (`allowed` may stay), and of the run that continues from
        them."""
        found = [f"half written: {c}" for c in half_written(self.out)]
        left = [name for name in temporary(self.out) if not any(part in name for part in allowed)]
        found += [f"left {left}"] * bool(left)
        again = self.program.run(self.command("run", *RESUME), self.folder)
        again = self.begun_again(again)
        if again.returncode:
            return found + [f"resumed: exit {again.returncode}: {again.stderr[-300:]}"]
        return found + [f"resumed: {p}" for p in wrong_result(self.wanted, self.out)]

    def begun_again(self, resumed):
        """Returns the process of the run that is compared with the uninterrupted one."""
        return resumed


class Resumed(Run):
    """A run that continues from the checkpoint of another process."""
    name, how_started = "resume", RESUME

    def prepare(self):
        super().prepare()
        self.program.run(self.command("half", *STOP_EARLY), self.folder)

    def before(self):
        return self.folder / "half"


class Replace(Run):
    """A run that replaces an older one."""
    name, how_started = "replace", OVERWRITE

    def prepare(self):
        super().prepare()
        self.program.succeed(self.command("old", *OTHER_RATE, steps=2), self.folder)
        self.old = digest(self.before() / "model.onnx")

    def before(self):
        return self.folder / "old"

    def problems(self, code, allowed):
        model = digest(self.out / "model.onnx")
        found = super().problems(code, allowed)
        return found if model in (self.old, self.wanted["model.onnx"]) else ["model.onnx is neither", *found]

    def begun_again(self, resumed):
        """Starts the run again if the replacement had not begun."""
        if resumed.returncode == 6 and digest(self.out / "model.onnx") == self.old:
            return self.program.run(self.command("run", *OVERWRITE), self.folder)
        return resumed


class Export:
    """The verb export over an older file."""
    name, first_file = "export", "half"

    def __init__(self, campaign):
        self.program, self.folder = campaign.program, campaign.folder
        self.file = self.folder / "exported.onnx"

    def prepare(self):
        """Makes the run that is exported, and the wanted file."""
        self.program.run(job("half_for_export", *MORE, *STOP_EARLY, **SETTINGS), self.folder)
        self.program.succeed(["export", "half_for_export", "--out", "wanted.onnx"], self.folder)
        self.wanted = digest(self.folder / "wanted.onnx")

    def begin(self):
        """Restores the older file and returns the words of the command."""
        for path in self.folder.glob("exported.onnx*"):
            path.unlink()
        self.file.write_bytes(b"old")
        self.old = digest(self.file)
        return ["export", "half_for_export", "--out", self.file]

    def problems(self, code, allowed):
        """Returns problems of the exported file."""
        got = digest(self.file)
        found = [] if got in (self.old, self.wanted) else ["the file is neither the old nor the new one"]
        if code == 0 and got != self.wanted:
            found.append("exit 0 without the new file")
        left = [p.name for p in self.folder.glob("exported.onnx.tmp*")]
        return found + [f"left {left}"] * bool(left and not allowed)


PHASES = [Run, Resumed, Replace, Export]
