#!/usr/bin/env python3
"""Tests the verb `sweep`: results equal those of single runs, also if the sweep is killed and continued; pruned runs
equal those that this script computes from runs without pruning by the rules of run/sweep/pruning.h; single runs may
crash; wrong requests are refused.

  tests/sweep/test.py --binary PROGRAM"""

import argparse
import csv
import itertools
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TWEETS = ROOT / "models/tweet_sentiment"
CONFIG = {"vocab_size": 30522, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
          "intermediate_size": 32, "num_labels": 3}  # fmt: skip
SPACE = "lr=1e-3,1e-4,3e-2;batch_size=8,16"
NAMES = [f"lr={lr},batch_size={b}" for lr, b in itertools.product(["1e-3", "1e-4", "3e-2"], ["8", "16"])]
STEPS, EVERY = 12, 3


def children_of(process):
    out = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # the process ended meanwhile
            continue
        if int(fields[1]) == process:
            out.append(int(stat.parent.name))
    return out


class Sweeps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.dir = pathlib.Path(cls.temporary.name)
        for name, rows in (("train", 160), ("dev", 80)):
            lines = (TWEETS / f"{name}.csv").read_text().split("\n")[: rows + 1]
            (cls.dir / f"{name}.csv").write_text("\n".join(lines) + "\n")
        cls.model = cls.dir / "model.onnx"
        cls.must("create", "bert", "--out", cls.model, "--model_config", json.dumps(CONFIG), "--model_head",
                 "sequence_classification")  # fmt: skip
        cls.base = [cls.model, "--train", cls.dir / "train.csv", "--val", cls.dir / "dev.csv", "--vocab",
                    TWEETS / "vocab.txt", "--text_columns", "text", "--label_column", "sentiment", "--max_seq_len", "16",
                    "--max_steps", STEPS, "--eval_steps", EVERY]  # fmt: skip
        cls.whole = cls.dir / "whole"
        cls.whole_run = cls.must(*cls.command(cls.whole))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @staticmethod
    def run_program(*words, **more):
        return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=600, **more)

    @classmethod
    def must(cls, *words, **more):
        r = cls.run_program(*words, **more)
        if r.returncode != 0:
            raise AssertionError(f"{words}: exit {r.returncode}\n{r.stdout}\n{r.stderr}")
        return r

    @classmethod
    def command(cls, out, *more, space=SPACE):
        return ["sweep", *cls.base, "--sweep", space, "--output_dir", out, *more]

    def refused(self, error, *words, code=2):
        r = self.run_program(*words)
        self.assertEqual((r.returncode, json.loads(r.stderr.strip().split("\n")[-1])["id"]), (code, error), r.stderr)
        return r.stderr

    @staticmethod
    def table(folder):
        with open(folder / "sweep.csv", newline="") as f:
            return list(csv.DictReader(f))

    def curves(self):
        """Returns a dict step -> accuracy for each run without pruning."""
        out = []
        for name in NAMES:
            lines = [json.loads(x) for x in (self.whole / name / "eval.jsonl").read_text().splitlines()]
            out.append({x["step"]: x["accuracy"] for x in lines})
        return out

    def test_results_are_those_of_single_runs(self):
        rows = self.table(self.whole)
        self.assertEqual([r["run"] for r in rows], NAMES)
        self.assertEqual({r["state"] for r in rows}, {"finished"})
        for row in rows:
            end = json.loads((self.whole / row["run"] / "run.json").read_text())["final_metrics"]
            self.assertEqual((float(row["accuracy"]), row["steps"]), (end["accuracy"], str(STEPS)))
        best = max(rows, key=lambda r: float(r["accuracy"]))
        self.assertEqual([r["best"] for r in rows], ["1" if r is best else "0" for r in rows])
        self.assertIn(f"best: {best['run']}, accuracy", self.whole_run.stdout)
        starred = [x for x in self.whole_run.stdout.split("\n") if x.startswith("*")]
        self.assertEqual(len(starred), 1)
        self.assertIn(best["run"], starred[0])
        # The printed command gives the same model again.
        words = next(x for x in self.whole_run.stdout.split("\n") if x.startswith("command: ")).split()[2:]
        single = self.dir / "single"
        self.must(*[w.replace("NEW_FOLDER", str(single)) for w in words])
        final = [json.loads((f / "run.json").read_text())["final_metrics"] for f in (single, self.whole / best["run"])]
        self.assertEqual(final[0], final[1])
        page = (self.whole / "report.html").read_text()
        self.assertTrue(all(name in page for name in NAMES))

    def stop_after(self, out, ended, how, *more):
        """Starts a sweep and sends it a signal when `ended` runs have ended. Returns exit code and messages."""
        with subprocess.Popen([BINARY, *map(str, self.command(out, *more))], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:  # fmt: skip
            record = out / "sweep.json"
            deadline = time.monotonic() + 300
            while time.monotonic() < deadline and process.poll() is None:
                runs = json.loads(record.read_text())["runs"] if record.exists() else []
                if sum(r["state"] in ("finished", "pruned") for r in runs) >= ended:
                    break
                time.sleep(0.02)
            process.send_signal(how)
            _, said = process.communicate()
            return process.returncode, said

    def test_a_stopped_or_killed_sweep_continues(self):
        for how, more in ((signal.SIGTERM, []), (signal.SIGKILL, []), (signal.SIGINT, ["--sweep_prune", "halving"])):
            out = self.dir / f"cut{how}"
            whole = self.whole
            if more:
                whole = self.dir / "halving_whole"
                self.must(*self.command(whole, *more))
            code, said = self.stop_after(out, 2, how, *more)
            self.assertEqual(code, -9 if how == signal.SIGKILL else 75, said)
            if how != signal.SIGKILL:
                self.assertIn("--resume auto", said)
                self.assertEqual(json.loads(said.strip().split("\n")[-1])["id"], "E_STOPPED")
            again = self.must(*self.command(out, "--resume", "auto", *more))
            self.assertIn("before", again.stderr)
            self.assertEqual((out / "sweep.csv").read_bytes(), (whole / "sweep.csv").read_bytes())

    def expected(self, rule):
        """Returns a dict: name -> step at which the rule prunes the run, in a sequential sweep."""
        curves, out = self.curves(), {}
        for i, (name, curve) in enumerate(zip(NAMES, curves)):
            before = [{s: v for s, v in curves[k].items() if s <= out.get(NAMES[k], STEPS)} for k in range(i)]
            for n, step in enumerate(sorted(curve), 1):
                if step == STEPS:
                    break
                others = [c[step] for c in before if step in c]
                if rule == "median":
                    best = max(v for s, v in curve.items() if s <= step)
                    bad = len(others) >= 3 and best < statistics.median(others)
                else:
                    bad = n in (1, 2, 4, 8) and sum(v > curve[step] for v in others) >= -(-(len(others) + 1) // 2)
                if bad:
                    out[name] = step
                    break
        return out

    def test_pruning_follows_its_rule(self):
        pruned = 0
        for rule in ("median", "halving"):
            out = self.dir / rule
            said = self.must(*self.command(out, "--sweep_prune", rule)).stdout
            expected = self.expected(rule)
            pruned += len(expected)
            whole = {r["run"]: r for r in self.table(self.whole)}
            for row in self.table(out):
                step = expected.get(row["run"])
                self.assertEqual(row["state"], f"pruned at step {step}" if step else "finished", rule)
                wanted = self.curves()[NAMES.index(row["run"])][step] if step else float(whole[row["run"]]["accuracy"])
                self.assertEqual(float(row["accuracy"]), wanted)
                self.assertIn(row["state"], said)
            if rule == "halving":  # continued without pruning, all runs reach their ends
                self.must(*self.command(out, "--sweep_prune", "none", "--resume", "auto"))
                self.assertEqual((out / "sweep.csv").read_bytes(), (self.whole / "sweep.csv").read_bytes())
        self.assertGreater(pruned, 0)

    def test_a_crash_ends_one_run_only(self):
        out = self.dir / "crash"
        with subprocess.Popen([BINARY, *map(str, self.command(out, "--sweep_jobs", "2"))], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:  # fmt: skip
            while process.poll() is None and not children_of(process.pid):
                time.sleep(0.02)
            os.kill(children_of(process.pid)[0], signal.SIGKILL)
            said = "\n".join(process.communicate())
        self.assertEqual(process.returncode, 0, said)
        states = sorted(r["state"] for r in self.table(out))
        self.assertEqual(states, ["failed (exit 137)"] + ["finished"] * 5)
        self.assertIn("SIGKILL", said)
        self.must(*self.command(out, "--resume", "auto", "--sweep_jobs", "2"))  # the failed run is tried again
        self.assertEqual((out / "sweep.csv").read_bytes(), (self.whole / "sweep.csv").read_bytes())

    def test_a_sweep_without_a_good_run_fails_as_its_first_run(self):
        (self.dir / "bad.csv").write_text("text,sentiment\na,positive\n")
        words = [w if w != self.dir / "train.csv" else self.dir / "bad.csv" for w in self.command(self.dir / "bad")]
        self.refused("E_DATA_LABEL", *words, code=5)
        self.assertEqual({r["state"] for r in self.table(self.dir / "bad")}, {"failed (exit 5)"})

    def test_random_search(self):
        space = self.dir / "space.yaml"
        space.write_text("lr: {log_uniform: [1e-5, 1e-2]}\nbatch_size: {uniform: [4, 9]}\noptimizer: [adamw, sgd]\n")
        names = []
        for trials in ("2", "3"):
            out = self.dir / f"random{trials}"
            self.must(*self.command(out, "--sweep_trials", trials, "--seed", "7", space=space))
            names.append([r["run"] for r in self.table(out)])
            for row in self.table(out):
                self.assertTrue(1e-5 <= float(row["lr"]) <= 1e-2 and 4 <= int(row["batch_size"]) <= 9)
                config = json.loads((out / row["run"] / "run.json").read_text())["config"]
                self.assertEqual((config["lr"], config["batch_size"]), (float(row["lr"]), int(row["batch_size"])))
        self.assertEqual(names[0], names[1][:2])
        self.assertEqual(len(set(names[1])), 3)

    def test_mistakes_are_found_before_the_first_run(self):
        out = self.dir / "refused"
        for space, error in (("lrr=1", "E_SWEEP"), ("lr=1e-3,0.001", "E_SWEEP"), ("lr", "E_SWEEP"), ("lr=1,,2", "E_SWEEP"),
                             ("lr=log_uniform(1e-5,1e-3)", "E_SWEEP"), ("lr=uniform(2,1)", "E_SWEEP"),
                             ("output_dir=a,b", "E_SWEEP"), ("quiet=true,false", "E_SWEEP"), ("{}", "E_SWEEP"),
                             ('{"lr": {"normal": [0, 1]}}', "E_SWEEP"), ("lr=1e-3,-1", "E_USAGE"),
                             ("momentum=0,0.9;optimizer=adamw,sgd;nesterov=true", "E_USAGE")):  # fmt: skip
            self.refused(error, *self.command(out, space=space))
        self.assertIn("did you mean", self.refused("E_SWEEP", *self.command(out, space="learning_rat=1")))
        no_val = [w for w in self.command(out) if w not in ("--val", self.dir / "dev.csv", "--eval_steps", EVERY)]
        self.refused("E_SWEEP", *no_val)
        self.assertFalse(out.exists())

    def test_folders(self):
        self.refused("E_OUTPUT_EXISTS", *self.command(self.whole))
        self.refused("E_SWEEP_CHANGED", *self.command(self.whole, "--resume", "auto", "--seed", "5"))
        self.refused("E_OUTPUT_EXISTS", *self.command(self.whole / NAMES[0]))
        foreign = self.dir / "foreign"
        foreign.mkdir()
        (foreign / "report.html").write_text("mine")
        self.refused("E_OUTPUT_FOREIGN", *self.command(foreign))
        blocked = self.dir / "blocked"
        (blocked / "lr=1e-3/log.txt").mkdir(parents=True)
        self.refused("E_SWEEP_START", *self.command(blocked, space="lr=1e-3"), code=7)

    def test_the_gate_is_for_the_best_run(self):
        best = max(float(r["accuracy"]) for r in self.table(self.whole))
        again = self.command(self.whole, "--resume", "auto")
        self.must(*again, "--require", f"accuracy>={best - 0.01}")
        self.refused("E_GATE", *again, "--require", f"accuracy>={best + 0.01}", code=12)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    options, rest = parser.parse_known_args()
    BINARY = options.binary
    unittest.main(argv=[sys.argv[0], *rest])
