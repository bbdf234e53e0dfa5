"""Power cuts. The file operations of a run are recorded; then states that a cut may leave (disk.py) are built, and the
run is resumed from each of them.

The resumed run must end in the bytes of the uninterrupted one and continue from a checkpoint at least as new as the
last one whose save had returned. A cut after the end must leave model.onnx, run.json and the metrics. Three kinds of
runs take turns: a new one, one that replaces another, and a resumed one.
"""
import re
import shutil

import faults
from compare import contents, differences, digest, wrong_result
from disk import STATES, Disk, write_tree
from job import OTHER_RATE, OVERWRITE, RESUME, STOP_EARLY, job, write_materials
from operations import recorded

SETTINGS = {"steps": 8, "save": 2, "evaluate": 3}
AT_END = ("model.onnx", "run.json", "metrics.jsonl", "eval.jsonl")


def run(campaign):
    """Cuts the power at random operations of all kinds of runs, and every fifth time after the last one."""
    faults.require_strace()
    write_materials(campaign.folder)
    recordings = [kind(campaign) for kind in KINDS]
    for recording in recordings:
        recording.record()
    campaign.measured["operations"] = {r.name: len(r.operations) for r in recordings}
    number = 0
    while campaign.more():
        turn, which = divmod(number, len(recordings))
        length = len(recordings[which].operations)
        at_end = turn % 5 == 0
        recordings[which].cut(length if at_end else campaign.random.randint(1, length), STATES[turn % len(STATES)])
        number += 1


class NewRun:
    """A recording of a new run."""
    name, how_started = "run", []

    def __init__(self, campaign):
        self.campaign, self.program, self.folder = campaign, campaign.program, campaign.folder
        self.out, self.earlier = self.folder / "run", self.folder / f"before_{self.name}"

    def record(self):
        """Makes the uninterrupted run, and records one like it."""
        if not (self.folder / "whole").exists():
            self.program.succeed(job("whole", **SETTINGS), self.folder)
        self.wanted = contents(self.folder / "whole")
        self.make_earlier()
        self.restore()
        self.operations = recorded(self.program, job("run", *self.how_started, **SETTINGS), self.folder, self.out)
        self.campaign.fault(f"the recorded {self.name}", *wrong_result(self.wanted, self.out))

    def make_earlier(self):
        """Makes the folder that the run finds, if any."""

    def restore(self):
        """Restores the folder that the run finds."""
        shutil.rmtree(self.out, ignore_errors=True)
        if self.earlier.exists():
            shutil.copytree(self.earlier, self.out)

    def cut(self, length, state):
        """Cuts the power after the first `length` operations and resumes the run."""
        disk = Disk(self.folder)
        if self.earlier.exists():
            disk.load(self.earlier, "run")
        for operation in self.operations[:length]:
            disk.apply(operation)
        shutil.rmtree(self.out, ignore_errors=True)
        write_tree(disk.after_cut(state, self.campaign.random), self.folder)
        problems = self.problems_before(length, state)
        problems += self.problems_of_resumed(durable_steps(disk, self.part(disk)))
        self.campaign.tried(f"{self.name} {state}")
        last = self.operations[length - 1]
        self.campaign.fault(f"{self.name}: {state} after operation {length} ({last[0]} {last[1]})", *problems)

    def part(self, disk):
        """Returns the path of the folder that the run writes to."""
        return self.out

    def problems_before(self, length, state):
        """Returns problems of the files that the cut leaves. After the end of the run no file may be missing."""
        if length < len(self.operations) or state != "lost":
            return []
        got = contents(self.out)
        return [f"lost after the end: {d}" for k in AT_END for d in differences(self.wanted[k], got[k], k)]

    def problems_of_resumed(self, durable):
        """Resumes the run; `durable` are the steps of the durable checkpoints."""
        done = self.resumed()
        if done.returncode:
            return [f"resumed: exit {done.returncode}: {done.stderr[-300:]}"]
        problems = wrong_result(self.wanted, self.out)
        begun = re.search(r"resuming from \S*checkpoint-(\d+)", done.stderr)
        if begun and durable and int(begun[1]) < max(durable):
            problems.append(f"resumed from step {begun[1]}, durable were {durable}")
        return problems

    def resumed(self):
        """Resumes the run."""
        return self.program.run(job("run", *RESUME, **SETTINGS), self.folder)


class Resumed(NewRun):
    """A recording of a run that continues another."""
    name, how_started = "resume", RESUME

    def make_earlier(self):
        self.program.run(job(self.earlier, *STOP_EARLY, **SETTINGS), self.folder)


class Replace(NewRun):
    """A recording of a run that replaces another."""
    name, how_started = "replace", OVERWRITE

    def make_earlier(self):
        self.program.succeed(job(self.earlier, *OTHER_RATE, **{**SETTINGS, "steps": 4}), self.folder)
        self.old = digest(self.earlier / "model.onnx")

    def part(self, disk):
        return self.out / ".new-run" if ".new-run" in disk.find(self.out).now else self.out

    def problems_before(self, length, state):
        found = super().problems_before(length, state)
        if digest(self.out / "model.onnx") not in (self.old, self.wanted["model.onnx"]):
            found.append("model.onnx is neither the old nor the new one")
        return found

    def resumed(self):
        """Resumes the run, or starts it again if the replacement had not begun."""
        done = super().resumed()
        if done.returncode == 6 and digest(self.out / "model.onnx") == self.old:
            self.campaign.counts["(of these: the replacement had not begun)"] += 1
            return self.program.run(job("run", *OVERWRITE, **SETTINGS), self.folder)
        return done


def durable_steps(disk, folder):
    """Returns the steps of the checkpoints whose entry is durable."""
    try:
        entries = disk.find(f"{folder}/checkpoints").durable
    except KeyError:
        return []
    return [int(name.split("-")[1]) for name in entries if re.fullmatch(r"checkpoint-\d+", name)]


KINDS = [NewRun, Replace, Resumed]
