#!/usr/bin/env python3
"""Tests allocation faults: a small training run in which the allocation with a chosen number fails, alone or with all
later ones (faults.c). Needs only Python's standard library.

The run resumes from a checkpoint of step 1 and ends at step 2. For each fault it must end with a documented exit code
and the JSON line of an error, or with code 0 and the model of an undisturbed run, bit for bit. It must leave no
temporary file, and the checkpoint of step 1 must resume.

  tests/allocations/test.py --binary build/onnx-amp-finetune --faults build/tests/liballocation_faults.so
  ... --all                every allocation instead of a sample
  ... --at 1234 --onward   one fault, with the program's output
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 60
CODES = (2, 3, 4, 5, 6, 7, 9, 11)  # documented exit codes that a fault may cause; 1 is a bug of the program
# GNU's OpenMP ends the process itself, with code 1, if it cannot allocate a team of threads (three of the allocations
# of this run with two threads). It offers no way to report the error, and destructors do not run.
ALLOWED = (re.compile(r"libgomp: Out of memory allocating \d+ bytes"),)


class Trials:
    def __init__(self, binary, faults, threads):
        self.binary, self.faults, self.threads = binary, faults, threads
        self.base = Path(tempfile.mkdtemp(prefix="allocations-"))
        self.start = self.base / "start"
        self.kinds = {}
        self.last_resort = 0  # runs that std::terminate ended, with exit code 9 (tools/cli/error_line.cc)
        self.run(self.start, 1)
        self.calls = self.count()
        self.model = (self.base / "run/model.onnx").read_bytes()

    def run(self, folder, steps, at=0, onward=False, log=None):
        zoo = ROOT / "tests/data/zoo/lenet_relu_dyn18"
        words = [self.binary, zoo / "model.onnx", "--train", zoo / "batch.safetensors", "--loss", "cross_entropy"]
        words += ["--max_steps", str(steps), "--resume", "auto", "--device", "cpu", "--output_dir", folder]
        words += ["--threads", str(self.threads), "--lr_scheduler", "constant"]
        # If OpenMP's spinning time is not set, the program sets it and starts itself again. This is
        # avoided.
        env = dict(os.environ, GOMP_SPINCOUNT="1000", LD_PRELOAD=str(self.faults))
        env.update(ALLOCATION_FAULT_AT=str(at), ALLOCATION_FAULT_ONWARD=str(int(onward)))
        if log:
            env["ALLOCATION_FAULT_LOG"] = str(log)
        try:
            done = subprocess.run(words, env=env, capture_output=True, text=True, errors="replace", timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return None, ""
        return done.returncode, done.stderr

    def fresh(self):
        folder = self.base / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.start, folder)
        return folder

    def count(self):
        log = self.base / "count"
        code, err = self.run(self.fresh(), 2, log=log)
        if code != 0:
            sys.exit(f"the undisturbed run: exit {code}\n{err}")
        return int(log.read_text())

    def fault(self, at, onward, log=None):
        """Returns what is wrong with the outcome; empty: nothing."""
        folder = self.fresh()
        code, err = self.run(folder, 2, at, onward, log)
        self.kinds[code] = self.kinds.get(code, 0) + 1
        self.last_resort += "in a function that must not fail" in err
        if any(p.search(err) for p in ALLOWED):
            return [w for w in self.left(folder, code) if not w.startswith("left ")], err
        return self.outcome(code, err) + self.left(folder, code), err

    def outcome(self, code, err):
        if code is None:
            return [f"did not end within {LIMIT_S} s"]
        if code == 0:
            return []
        if code not in CODES:
            return [f"exit {code}"]
        try:
            line = json.loads(err.strip().splitlines()[-1])
            return [] if line["exit"] == code and line["id"] else ["the JSON line has another exit code"]
        except (ValueError, IndexError, KeyError):
            return ["no JSON line"]

    def left(self, folder, code):
        wrong = [f"left {p.name}" for p in folder.rglob("*") if ".tmp" in p.name or p.name in (".new-run", ".finish")]
        if not code == 0:
            code, err = self.run(folder, 2)
            if code != 0:
                wrong.append(f"cannot be resumed: exit {code}: {err.strip().splitlines()[-1:]}")
        if (folder / "model.onnx").read_bytes() != self.model:
            wrong.append("another model")
        return wrong


def sample(calls, count, seed):
    """Returns a sample of the calls: half uniformly distributed, half with a logarithmic distribution."""
    random = Random(seed)
    chosen = {random.randint(1, calls) for _ in range(count // 2)}
    while len(chosen) < min(count, calls):
        chosen.add(min(calls, int(calls ** random.random())))
    return sorted(chosen)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--faults", required=True)
    parser.add_argument("--count", type=int, default=50, help="faults of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--at", type=int)
    parser.add_argument("--onward", action="store_true")
    args = parser.parse_args()
    tried = failed = 0
    for threads in args.threads or (1, 2):
        trials = Trials(args.binary, args.faults, threads)
        try:
            if args.at:
                log = trials.base / "stack"
                wrong, err = trials.fault(args.at, args.onward, log)
                print(err, log.read_text() if log.exists() else "", wrong, sep="\n")
                return 1 if wrong else 0
            chosen = range(1, trials.calls + 1) if args.all else sample(trials.calls, args.count, args.seed)
            for onward in (False, True):
                for at in chosen:
                    wrong, _ = trials.fault(at, onward)
                    tried += 1
                    if wrong:
                        failed += 1
                        how = " --onward" if onward else ""
                        print(f"--threads {threads} --at {at}{how}: {'; '.join(wrong)}", flush=True)
            kinds = ", ".join(f"exit {c}: {n}" for c, n in sorted(trials.kinds.items(), key=str))
            ends = f"{kinds}; {trials.last_resort} by std::terminate"
            print(f"{threads} threads, {trials.calls} allocations: {ends}", flush=True)
        finally:
            shutil.rmtree(trials.base)
    print(f"{tried} faults, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
