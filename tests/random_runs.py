#!/usr/bin/env python3
"""Runs random combinations of verb, precision, model, data and flags, and reports runs that do not end as they should.

  tests/random_runs.py --binary build/onnx-amp-finetune [--models FOLDER ...] [--count 200] [--minutes 60]
                       [--verbs train,eval] [--precisions fp32,fp16,bf16] [--seed 1] [--python PYTHON]

FOLDER holds ONNX files; batch.safetensors (inputs by name, and label) and ref.json (loss_kind) beside one are used.
The recipes of models/ with small models of `create` are drawn too. --python names an interpreter with onnx and
onnxruntime, which then opens each exported file. --repeat SEED runs one draw again and keeps its folder.

A run passes if it ends with 0, and its losses and outputs are finite or W_NOT_FINITE names them. It is refused if it
ends with 2 to 6 or 9 before the first step, with a hint. All else is a failure: a signal, a time-out, an internal error, an
exit after the first step, an exported file that does not open. Refused draws do not count towards --count."""

import argparse
import collections
import json
import math
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from random_cases import Tensors, read_npz, read_safetensors, recipes
from random_flags import FLAGS

VERBS = ["train", "resume", "eval", "predict", "grad", "export", "generate", "plan", "check", "bench", "dry_run", "sweep"]
PRECISIONS = ["fp32", "fp16", "bf16"]
# Verbs that are drawn as flags of train.
AS_TRAIN = {"train", "resume", "dry_run"}
CHECKER = """
import json, sys, onnx, numpy, onnxruntime
from safetensors.numpy import load_file
onnxruntime.set_default_logger_severity(4)
for line in sys.stdin:
    path, batch = json.loads(line)
    try:
        onnx.checker.check_model(path)
        # Above ORT_ENABLE_EXTENDED onnxruntime 1.31 crashes on some float16 files, also on those of other converters.
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        session = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
        said = ''
        have = load_file(batch) if batch else {}
        fits = lambda i: i.name in have and (not i.shape or not isinstance(i.shape[0], int) or i.shape[0] == len(have[i.name]))
        if batch and all(map(fits, session.get_inputs())):
            feed = {i.name: have[i.name] for i in session.get_inputs()}
            for i in session.get_inputs():
                if i.type == 'tensor(float16)': feed[i.name] = feed[i.name].astype(numpy.float16)
            for o, v in zip(session.get_outputs(), session.run(None, feed)):
                floats = isinstance(v, numpy.ndarray) and v.dtype.kind == 'f'
                if floats and not numpy.isfinite(v).all(): said = 'output ' + o.name + ' is not finite'
    except Exception as e:
        said = str(e).replace(chr(10), ' ')[:300]
    print(json.dumps(said), flush=True)
"""


def finite(value):
    """False for a NaN or an infinity anywhere in JSON, or a loss of null."""
    if isinstance(value, dict):
        return all(finite(v) and not (k == "loss" and v is None) for k, v in value.items())
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


class Runner:
    def __init__(self, args):
        self.args, self.work = args, pathlib.Path(args.work or tempfile.mkdtemp(prefix="random_runs_"))
        self.work.mkdir(parents=True, exist_ok=True)
        self.environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.flags_of = {}
        (self.work / "models").mkdir(exist_ok=True)
        self.sources = [Tensors(p) for folder in args.models for p in sorted(pathlib.Path(folder).rglob("*.onnx"))]
        if not args.no_recipes:
            self.sources += recipes(self.create)
        if args.only:
            self.sources = [s for s in self.sources if s.name in args.only.split(",")]
        self.checker = None

    def create(self, name, architecture, configuration, head):
        path = self.work / "models" / (name + ".onnx")
        if not path.exists():
            words = ["create", architecture, "--out", path, "--model_config", json.dumps(configuration)]
            words = [self.args.binary] + [str(w) for w in words] + (["--model_head", head] if head else [])
            made = subprocess.run(words, capture_output=True, text=True)
            if made.returncode:
                sys.exit(shlex.join(map(str, words)) + "\n" + made.stderr)
        return path

    def run(self, words, folder, stop=None):
        """Returns (exit status, standard output, standard error). stop: (signal, seconds)."""
        command = [str(self.args.binary)] + [str(w) for w in words]
        with open(folder / "commands", "a", encoding="utf-8") as log:
            print(shlex.join(command), f"# {stop}" if stop else "", file=log)
        process = subprocess.Popen(command, cwd=folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace")
        try:
            if stop:
                try:
                    process.wait(stop[1])
                except subprocess.TimeoutExpired:
                    process.send_signal(stop[0])
            out, err = process.communicate(timeout=self.args.seconds * (4 if words[0] == "sweep" else 1))
        except subprocess.TimeoutExpired:
            process.kill()
            return "time", *process.communicate()
        return process.returncode, out, err

    def opened(self, path, batch):
        """Returns errors of onnx's checker and of onnxruntime for a file, and faults of its outputs. One process opens
        all files."""
        if not self.checker or self.checker.poll() is not None:
            self.checker = subprocess.Popen([self.args.python, "-c", CHECKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            text=True)
        print(json.dumps([str(path), str(batch) if batch else None]), file=self.checker.stdin, flush=True)
        line = self.checker.stdout.readline()
        return json.loads(line) if line else f"onnxruntime ends with {self.checker.wait()}"

    def predicted(self, model, batch):
        status, _, err = self.run(["predict", model, "--inputs", batch, "--out", "drawn.npz"], batch.parent)
        if status:
            raise ValueError(err.strip().splitlines()[-1] if err.strip() else f"predict: {status}")
        return read_npz(batch.parent / "drawn.npz")

    def help(self, verb):
        if verb not in self.flags_of:
            text = subprocess.run([self.args.binary, verb, "--help_all"], capture_output=True, text=True, check=True).stdout
            self.flags_of[verb] = set(re.findall(r"^  --(\w+)", text, re.M))
        return self.flags_of[verb]

    def draw_flags(self, rng, verb, kinds, most):
        """Returns up to `most` groups of flags; a later value of a flag replaces an earlier one."""
        groups = [g for kind in ("any", *kinds) for g in FLAGS[kind] if g.split()[0] in self.help(verb)]
        drawn = {}
        for group in rng.sample(groups, min(len(groups), rng.randint(0, most))):
            parts = group.split()
            for name, values in zip(parts[::2], parts[1::2]):
                if name in self.help(verb):
                    drawn["--" + name] = rng.choice(values.split("|"))
        return [word for pair in drawn.items() for word in pair]

    def precision(self, rng, verb, kind):
        if verb == "export":
            return {"fp32": rng.choice([[], ["--export_precision", "fp32"]]), "bf16": ["--export_precision", "mixed", "--use_bf16"],
                    "fp16": rng.choice([["--export_precision", "fp16"], ["--export_precision", "mixed", "--use_fp16"]])}[kind]
        if kind == "fp32":
            return rng.choice([[], [], ["--use_fp16", "--amp_level", "O0"]])
        if "dtype" in self.help(verb) and rng.random() < 0.2:
            return ["--dtype", kind]
        level = rng.choice(["O1", "O1", "O2", "O3", "pytorch", "tensorflow", "paddle", "apex", "auto" if verb in AS_TRAIN else "O2"])
        return ["--use_" + kind, "--amp_level", level]

    def one(self, seed, verb, kind):
        """Returns ('passed' | 'refused' | 'failed' | 'skipped', description) of one draw."""
        rng = random.Random(f"{seed} {verb} {kind}")
        folder = self.work / f"{verb}_{kind}_{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        sources = [s for s in self.sources if verb != "generate" or "language" in s.kinds]
        sources = [s for s in sources if verb != "grad" or isinstance(s, Tensors)]
        source = rng.choice(sources)
        try:
            if isinstance(source, Tensors):
                source.prepare(folder, self.predicted)
        except (ValueError, IndexError, KeyError) as e:
            shutil.rmtree(folder)
            return "skipped", f"{source.name}: {e}"
        made = source.make(rng, folder)
        result = Verdict(self, source, made, folder, verb, kind, rng).judge()
        if result[0] != "failed" and not self.args.keep:
            shutil.rmtree(folder)
        return result


class Verdict:
    """One draw: its commands and their results."""

    def __init__(self, runner, source, made, folder, verb, kind, rng):
        self.runner, self.source, self.made, self.folder = runner, source, made, folder
        self.verb, self.kind, self.rng = verb, kind, rng

    def train_words(self, out, verb="train"):
        masks = [str(w) for pair in self.made.get("masks", {}).items() for w in pair]
        kinds = self.source.kinds
        words = [self.source.model, "--train", self.made["train"]] + self.made["base"] + masks
        if self.rng.random() < 0.8:
            words += ["--val", self.made["val"]]
            kinds = (*kinds, "validated")
        else:
            words = [w for w in words if w not in masks[2:]] + self.rng.choice([[], ["--val_split", "0.3"]])
        words += ["--threads", "1", "--max_steps", str(self.rng.randint(2, 6))] + self.runner.precision(self.rng, verb, self.kind)
        return words + self.runner.draw_flags(self.rng, "train", kinds, 7) + ["--output_dir", out]

    def ask(self, model, file, verb):
        """Returns the command line of a verb that reads a model and rows, with the flags of the source that the verb
        has."""
        flags = self.runner.help(verb)
        base, words = self.made["base"] + [str(w) for p in self.made.get("masks", {}).items() for w in p], []
        for name, value in zip(base[::2], base[1::2]):
            if name.lstrip("-") in flags and name != "--config":
                words += [name, value]
            elif name == "--config":  # passes only the keys that the verb has
                for key, v in json.loads(pathlib.Path(value).read_text()).items():
                    if key in flags:
                        words += ["--" + key, ",".join(v) if isinstance(v, list) else str(v)]
        return [verb, model] + file + words + self.runner.precision(self.rng, verb, self.kind) + self.runner.draw_flags(self.rng, verb, self.source.kinds, 4)

    def trained(self):
        """Returns the run folder of a short run, or None. Half of the files that other verbs read are trained
        models."""
        if self.rng.random() < 0.5 or self.verb in ("grad", "plan", "check", "bench"):
            return None
        words = self.train_words("run")
        status, _, _ = self.runner.run(words, self.folder)
        return self.folder / "run" if status == 0 and (self.folder / "run/model.onnx").exists() else None

    def commands(self):
        rng, runner, made = self.rng, self.runner, self.made
        if self.verb == "dry_run":
            return self.train_words("run") + [rng.choice(["--dry_run"] + ["--check_data"] * (not isinstance(self.source, Tensors)))]
        if self.verb == "resume":
            return self.resumed()
        if self.verb == "train":
            return self.train_words("run")
        if self.verb == "bench":
            return ["bench"] + self.train_words("run") + ["--timed_steps", "1"]
        if self.verb == "sweep":
            settings = rng.sample(["lr=1e-4,1e-3", "batch_size=1,3", "seed=1,2", "weight_decay=0,0.1", "optimizer=sgd,adamw"], 2)
            words = ["sweep"] + self.train_words("run") + ["--sweep", ";".join(settings)]
            return words + rng.choice([[], ["--sweep_trials", "2"], ["--sweep_prune", "median"], ["--sweep_jobs", "2"]])
        run = self.trained()
        model = run or self.source.model
        if self.verb == "eval":
            return self.ask(model, ["--val", made["val"], "--out", "eval.json"], "eval")
        if self.verb == "predict":
            suffix = ".npz" if isinstance(self.source, Tensors) else rng.choice([".csv", ".jsonl"])
            return self.ask(model, ["--inputs", made["rows"], "--out", "out" + suffix], "predict")
        if self.verb == "grad":
            return self.ask(model, ["--inputs", made["grad"], "--out", "g.safetensors"], "grad")
        if self.verb == "export":
            return ["export", model, "--out", "out.onnx"] + runner.precision(rng, "export", self.kind) + runner.draw_flags(rng, "export", self.source.kinds, 3)
        if self.verb == "generate":
            return self.ask(model, ["--prompt", "The city", "--max_new_tokens", "5"], "generate")
        return self.ask(model, rng.choice([[], ["--out", "plan.html"]]) if self.verb == "plan" else [], self.verb)

    def resumed(self):
        """Returns the command line of the second part of a run that was stopped, killed, or given more steps."""
        rng = self.rng
        words = self.train_words("run")
        how = rng.choice(["longer", "minutes", signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP])
        first = words + (["--max_minutes", "0.00005"] if how == "minutes" else ["--save_steps", "1"] if how != "longer" else [])
        stop = (how, rng.uniform(0.02, 0.6)) if isinstance(how, signal.Signals) else None
        self.first = self.runner.run(first, self.folder, stop)
        if how == "longer":
            at = words.index("--max_steps") + 1
            words[at] = str(int(words[at]) + 3)
            words += ["--resume_schedule", rng.choice(["stretch", "restart", "hold"])]
        elif how != "minutes":
            words = first
        return words + ["--resume", "auto"]

    def stepped(self):
        return any(p.stat().st_size for p in self.folder.rglob("metrics.jsonl"))

    def judge(self):
        self.first = None
        words = self.commands()
        before = self.stepped()
        stops = (128 + signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGHUP)
        # Before the first step the run has nothing to save, and at first it has no signal handler.
        before = before and "--lr_range_test" not in words  # it has nothing to save, either
        good = (0, 75, -signal.SIGKILL) + (() if before else stops + (-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP))
        if self.first and (text := self.fault_of(self.first, good)):
            return text
        status, out, err = result = self.runner.run(words, self.folder)
        (self.folder / "stderr").write_text(err)
        if text := self.fault_of(result, (0,), before):
            return text
        if status == 0 and "W_NOT_FINITE" not in err and (what := self.not_finite(out)):
            return "failed", f"{self.source.name}: exit 0 without a warning, {what}"
        for path in self.folder.glob("run/model.onnx" if self.verb in AS_TRAIN else "out.onnx"):
            if self.runner.args.python and (what := self.opens(path, err)):
                return "failed", f"{self.source.name}: the exported file: {what}"
        return "passed", ""

    def fault_of(self, result, good, before=False):
        status, _, err = result
        if status in good:
            return None
        lines = [line for line in err.splitlines() if line.strip()]
        told = next((json.loads(line) for line in reversed(lines) if line.startswith('{"id"')), {})
        text = f"{self.source.name}: exit {status} {told.get('id', '')}: {told.get('error', lines[-1] if lines else '')}"[:400]
        if status in (2, 3, 4, 5, 6, 9) and told.get("hint") and (before or not self.stepped()):
            return "refused", text
        if self.verb == "check" and status == 4 and re.search('trains: no|"trains": false', result[1]):
            return "refused", f"{self.source.name}: trains: no"
        if self.verb == "grad" and told.get("id") == "E_GRADIENT_NONFINITE":
            return "refused", text  # random inputs may be so large that a gradient overflows
        if status == 5 and '"first_problems"' in result[1]:
            return "refused", f"{self.source.name}: --check_data lists problems"
        return "failed", text + ("" if told.get("hint") else " (no hint)") + (" (after a step)" if self.stepped() else "")

    def not_finite(self, out):
        for path in (p for name in ("run/metrics.jsonl", "run/eval.jsonl", "eval.json") for p in self.folder.glob(name)):
            for line in path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
                row = json.loads(line)
                if row.get("skipped"):
                    row.pop("grad_norm", None)  # may be infinite or NaN in a skipped step
                if not finite(row):
                    return path.name
        for path in self.folder.glob("out.npz"):
            for name, (_, values) in read_npz(path).items():
                if not all(map(math.isfinite, values)):
                    return f"prediction '{name}'"
        for path in self.folder.glob("g.safetensors"):
            for name, (kind, _, values) in read_safetensors(path).items():
                if kind[0] == "F" and not all(map(math.isfinite, values)):
                    return f"gradient '{name}'"
        return None

    def opens(self, path, err):
        if self.kind == "bf16" or "bfloat16" in err:
            return ""  # onnxruntime's CPU provider has few kernels for bfloat16
        batch = self.made["val"] if str(self.made["val"]).endswith(".safetensors") else None
        batch = batch if self.verb == "train" else None
        said = self.runner.opened(path, batch)
        # A file that onnxruntime could not run before training is not a fault of the trainer.
        file = self.source.model / "model.onnx" if self.source.model.is_dir() else self.source.model
        return "" if said and self.runner.opened(file, batch)[:40] == said[:40] else said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=pathlib.Path("build/onnx-amp-finetune"))
    parser.add_argument("--models", action="append", default=[], help="a folder of ONNX files (repeatable)")
    parser.add_argument("--no_recipes", action="store_true", help="only the models of --models")
    parser.add_argument("--only", help="only the sources of these names")
    parser.add_argument("--count", type=int, default=200, help="completed runs of each verb and precision")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=60, help="limit of one run")
    parser.add_argument("--verbs", default=",".join(VERBS))
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", help="an interpreter that has onnx, onnxruntime and safetensors")
    parser.add_argument("--work", help="folder for the runs; those that fail stay there")
    parser.add_argument("--repeat", action="store_true", help="run only the draw of --seed, and keep its folder")
    args = parser.parse_args()
    args.keep, args.binary = args.repeat, args.binary.resolve()
    runner, end = Runner(args), time.time() + 60 * args.minutes
    cells = {(v, p): collections.Counter() for v in args.verbs.split(",") for p in args.precisions.split(",")}
    number, refused = args.seed, collections.Counter()
    while time.time() < end and any(c["passed"] + c["failed"] < args.count for c in cells.values()):
        for (verb, kind), cell in cells.items():
            if cell["passed"] + cell["failed"] >= args.count or time.time() > end:
                continue
            what, text = runner.one(number, verb, kind)
            cell[what] += 1
            if what != "passed":
                refused[text.split(": ", 1)[-1][:90]] += what == "refused"
                print(f"{what} --repeat --seed {number} --verbs {verb} --precisions {kind}: {text}", flush=True)
        if args.repeat:
            break
        number += 1
    print(f"\n{'verb':10}{'precision':10}{'runs':>7}{'passed':>8}{'refused':>9}{'failed':>8}")
    for (verb, kind), c in cells.items():
        print(f"{verb:10}{kind:10}{c['passed'] + c['failed']:7}{c['passed']:8}{c['refused']:9}{c['failed']:8}")
    print(f"next seed {number}; failed runs are kept in {runner.work}")
    return 1 if any(c["failed"] for c in cells.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
