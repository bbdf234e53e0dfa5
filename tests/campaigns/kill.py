"""Kills runs at random moments (SIGKILL). A run is resumed and killed again until it ends. It must then have the same bytes
as the uninterrupted run.

A chain of kills is in one mode. The modes take turns:
  train      a new run
  replace    --overwrite over an older run, whose model must stay until the new one replaces it
  exchange   a new run on a file system without RENAME_EXCHANGE that keeps one checkpoint. SIGTERM takes turns with
             kills: it stops evaluations, whose step is then saved twice, which needs the exchange. Half of the
             processes are killed between the renames that replace the exchange.
  short      a new run whose epochs have one step, with a checkpoint after each epoch: at most 2 steps may be lost
  automatic  the same with automatic checkpoints
  export     the verb export over an older file
"""
import shutil
import signal
import subprocess

import faults
from compare import contents, differences, digest, lines, temporary, wrong_result
from job import CREATE_LARGER, LARGER, OTHER_RATE, OVERWRITE, RESUME, STOP_EARLY, finish, job, timed, write_materials

STEPS = 40
LONGEST = 12  # largest number of kills in a chain


def run(campaign):
    """Kills chains of runs, in all modes in turn, until enough kills have struck. Every second chain is of the mode
    Exchange, in which most signals strike at other moments than those that matter."""
    write_materials(campaign.folder)
    exchange = Exchange(campaign)
    others = [kind(campaign) for kind in (Train, Export, Replace, ShortEpochs, AutomaticSaves)]
    for mode in (others[0], exchange, *others[1:]):
        mode.prepare()
    modes = [mode for other in others for mode in (other, exchange)]
    chain, most = 0, max(1, min(LONGEST, campaign.count // len(modes)))
    while campaign.more():
        mode = modes[chain % len(modes)]
        mode.begin()
        campaign.fault(*chain_of(campaign, mode, most))
        chain += 1
    campaign.measured["chains"] = chain


def chain_of(campaign, mode, most):
    """Kills a command up to `most` times and repeats it until it ends; returns what was done and the problems."""
    history = []
    while True:
        process, killed = mode.start(), False
        if campaign.more() and len(history) < most:
            number, delay = mode.next_signal(), moment(campaign.random, mode.length)
            killed = struck(process, number, delay) and number == signal.SIGKILL
            history.append(f"{signal.Signals(number).name} after {delay:.3f} s")
        finish(process)
        if process.returncode == -signal.SIGKILL:
            history += [] if killed else ["killed between renames"]
            campaign.tried(mode.name if killed else f"{mode.name}, between renames")
        what = f"{mode.name}: {', '.join(history)}"
        problems = mode.problems_between()
        if problems:
            return what, *problems
        if process.returncode == 0:
            return what, *mode.problems_at_end()
        if process.returncode not in mode.expected:
            return what, f"exit {process.returncode}: {process.stderr[-300:]}"


def struck(process, number, delay):
    """Sends a signal after `delay` seconds; returns whether the process was still running."""
    try:
        process.wait(timeout=delay)
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        return True


def moment(random, length):
    """Returns a random moment to kill a process. Most kills may happen at any time, some at the start (reading,
    resuming), some at the end (publishing)."""
    kind = random.random()
    if kind < 0.6:
        return random.uniform(0, length)
    return random.uniform(0, 0.15 * length) if kind < 0.8 else random.uniform(0.75 * length, 1.1 * length)


class Train:
    """Kills of a new run."""
    name, out, environment, expected = "train", "run", None, {-signal.SIGKILL}
    settings = {"steps": STEPS}

    def __init__(self, campaign):
        self.campaign, self.folder, self.program = campaign, campaign.folder, campaign.program

    def prepare(self):
        """Runs the job without a kill."""
        whole = self.folder / f"whole_{self.name}"
        self.length = timed(lambda: self.program.succeed(job(whole, **self.settings), self.folder))
        self.wanted = contents(whole)

    def begin(self):
        """Begins a chain with an empty folder."""
        shutil.rmtree(self.folder / self.out, ignore_errors=True)
        self.begun = False

    def start(self):
        """Starts the command, which resumes the run in the folder."""
        more = RESUME if self.begun else []
        self.begun = True
        return self.program.start(job(self.out, *more, **self.settings), self.folder, env=self.environment)

    def next_signal(self):
        """Returns the signal to send next."""
        return signal.SIGKILL

    def problems_between(self):
        """Returns problems after each kill."""
        return []

    def problems_at_end(self):
        """Returns problems of the run that ended."""
        return wrong_result(self.wanted, self.folder / self.out)


class ShortEpochs(Train):
    """Kills of a run with epochs of one step and a checkpoint after each, written in the background."""
    name, strategy = "epochs of a step", "epoch"
    settings = {"steps": 150, "save": 0, "evaluate": 0, "train": "few.csv", "val": "few.csv"}

    def prepare(self):
        header, *rows = (self.folder / "t.csv").read_text().splitlines()
        (self.folder / "few.csv").write_text("\n".join([header, *rows[:8]]) + "\n")
        whole = self.folder / f"whole_{self.strategy}"
        self.length = timed(lambda: self.program.succeed(self.command(whole), self.folder))
        self.wanted = contents(whole)

    def command(self, out, *more):
        """Returns the command line of the job."""
        return job(out, "--save_strategy", self.strategy, *more, **self.settings)

    def start(self):
        more = RESUME if self.begun else []
        self.begun = True
        return self.program.start(self.command(self.out, *more), self.folder)

    def problems_between(self):
        """Counts the steps that the next process repeats. Two may be lost: one whose checkpoint is being written, and
        one after it."""
        out = self.folder / self.out
        made = [int(c.name.split("-")[1]) for c in (out / "checkpoints").glob("checkpoint-*") if ".tmp" not in c.name]
        lost = len(lines(out / "metrics.jsonl") or []) - max(made, default=0)
        name = f"most steps repeated, {self.strategy}"
        self.campaign.measured[name] = max(lost, self.campaign.measured.get(name, 0))
        return [f"{lost} steps are lost"] * (lost > 2) if self.strategy == "epoch" else []


class AutomaticSaves(ShortEpochs):
    """As ShortEpochs, with automatic saves, whose steps depend on time: checkpoints that both runs have are compared."""
    name, strategy = "automatic saves", "auto"

    def problems_at_end(self):
        wanted, got = dict(self.wanted), contents(self.folder / self.out)
        both = wanted["checkpoints"].keys() & got["checkpoints"].keys()
        for value in (wanted, got):
            value["checkpoints"] = {name: value["checkpoints"][name] for name in both}
        last = f"checkpoint-{self.settings['steps']}"
        left = temporary(self.folder / self.out)
        return ([] if last in both else [f"there is no {last}"]) + [
            f"differs: {d}" for d in differences(wanted, got)[:5]] + [f"left {left}"] * bool(left)


class Exchange(Train):
    """Kills and stops where two folders cannot exchange their names."""
    name, expected = "train without RENAME_EXCHANGE", {-signal.SIGKILL, -signal.SIGTERM, 75, 128 + signal.SIGTERM}
    settings = {"steps": 12, "save": 2, "evaluate": 2, "keep": 1, "val": "many.csv"}

    def prepare(self):
        header, *rows = (self.folder / "t.csv").read_text().splitlines()
        (self.folder / "many.csv").write_text("\n".join([header, *rows * 10]) + "\n")
        self.refusals = faults.without_exchange(self.folder)
        super().prepare()

    def start(self):
        random = self.campaign.random
        between = {"FAULTY_IO_KILL": str(random.randrange(3))} if random.random() < 0.5 else {}
        self.environment = {**self.refusals, **between}
        return super().start()

    def next_signal(self):
        return self.campaign.random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGTERM])

    def problems_at_end(self):
        refused = self.folder / "refused"
        self.campaign.measured["exchanges refused"] = refused.stat().st_size if refused.exists() else 0
        return super().problems_at_end()


class Replace(Train):
    """Kills of a run that replaces an older one."""
    name = "replace"

    def prepare(self):
        super().prepare()
        self.campaign.fault("two uninterrupted runs", *wrong_result(self.wanted, self.folder / "whole_train"))
        self.program.succeed(job("old", *OTHER_RATE, steps=6), self.folder)
        self.old = digest(self.folder / "old/model.onnx")

    def begin(self):
        super().begin()
        shutil.copytree(self.folder / "old", self.folder / self.out)

    def start(self):
        begun = (self.folder / self.out / ".new-run/.run-files.json").exists() or self.model() != self.old
        return self.program.start(job(self.out, *(RESUME if begun else OVERWRITE), **self.settings), self.folder)

    def model(self):
        """Returns the digest of the model in the folder."""
        return digest(self.folder / self.out / "model.onnx")

    def problems_between(self):
        if self.model() in (self.old, self.wanted["model.onnx"]):
            return []
        return ["model.onnx is neither the old nor the new one"]


class Export(Train):
    """Kills of the verb export, which writes over an older file."""
    name = "export"

    def prepare(self):
        self.program.succeed(CREATE_LARGER, self.folder)
        self.program.run(job("half", *STOP_EARLY, model=LARGER), self.folder)
        self.length = timed(lambda: self.program.succeed(["export", "half", "--out", "wanted.onnx"], self.folder))
        self.wanted = digest(self.folder / "wanted.onnx")

    def begin(self):
        self.file().write_bytes(b"old")
        self.old = digest(self.file())

    def file(self):
        """Returns the file that the export overwrites."""
        return self.folder / "exported.onnx"

    def start(self):
        return self.program.start(["export", "half", "--out", self.file()], self.folder)

    def problems_between(self):
        if digest(self.file()) in (self.old, self.wanted):
            return []
        return ["the exported file is neither the old nor the new one"]

    def problems_at_end(self):
        return [] if digest(self.file()) == self.wanted else ["exit 0 without the new file"]
