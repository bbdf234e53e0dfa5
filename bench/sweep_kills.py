#!/usr/bin/env python3
"""Kills a sweep of 12 runs with pruning on the tweets twice (SIGKILL) at random moments, continues it, and compares it
with 12 single runs of the same settings. Metrics, losses of all steps, evaluations, and the exported models of finished
runs must be equal. A pruned run is compared up to the step at which it was pruned. Exits with 1 if something differs.

    bench/sweep_kills.py --binary build/onnx-amp-finetune [--seed 1] [--work FOLDER] [--out RESULT.json]
"""

import argparse
import csv
import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import common

MODEL = {"vocab_size": 30522, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
         "num_labels": 3}  # fmt: skip
RATES, BATCHES, STEPS, EVERY = ("1e-3", "3e-3", "1e-2", "3e-2"), ("8", "16", "32"), 100, 20
TIMES = {"samples_per_s", "tokens_per_s", "data_seconds", "memory"}  # keys whose values differ from run to run


def training(folder):
    return [folder / "model.onnx", "--train", common.TWEETS / "train.csv", "--val", common.TWEETS / "dev.csv", "--vocab",
            common.TWEETS / "vocab.txt", "--text_columns", "text", "--label_column", "sentiment", "--max_seq_len", "32",
            "--limit_val", "400", "--metric_for_best_model", "loss", "--max_steps", STEPS, "--eval_steps", EVERY, "--save_steps", EVERY]  # fmt: skip


def lines(path):
    return [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []


def steps_done(out):
    """Returns the number of steps in the files of all runs, also of killed runs."""
    return sum(f.read_bytes().count(b"\n") for f in out.glob("*/metrics.jsonl"))


def sweep_with_kills(command, out, seed):
    """Runs the sweep; kills it at two random numbers of steps. The second kill ends all processes of the sweep at
    once."""
    rng = random.Random(seed)
    moments, kills = sorted(rng.sample(range(20, 6 * STEPS), 2)), []
    while True:
        words = [*command, *(["--resume", "auto"] if kills else [])]
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        while process.poll() is None and (len(kills) == 2 or steps_done(out) < moments[len(kills)]):
            time.sleep(0.005)
        if process.poll() is not None:
            break
        (os.kill if not kills else os.killpg)(process.pid, signal.SIGKILL)
        process.communicate()
        record = json.loads((out / "sweep.json").read_text())["runs"] if (out / "sweep.json").exists() else []
        kills.append({"steps": steps_done(out), "ended_runs": sum(r["state"] in ("finished", "pruned") for r in record)})
    said = process.communicate()[0]
    if process.returncode:
        raise SystemExit(f"the sweep ended with {process.returncode}\n{said}")
    return kills, said


def same(got, wanted):
    """Returns whether the two lists are equal, except for times."""
    return [{k: v for k, v in x.items() if k not in TIMES} for x in got] == [{k: v for k, v in x.items() if k not in TIMES} for x in wanted]


def differences(row, run, single, metrics):
    """Returns the differences between a line of sweep.csv, the folder of its run, and the folder of the single run."""
    step = int(row["steps"])
    evaluations = [x for x in lines(single / "eval.jsonl") if x["step"] <= step]
    if row["state"] == "finished":
        expected = json.loads((single / "run.json").read_text())["final_metrics"]
        digests = [hashlib.sha256((f / "model.onnx").read_bytes()).hexdigest() for f in (run, single)]
    else:
        expected, digests = evaluations[-1], ["", ""]
    out = [f"{m}: {row[m]}, not {expected[m]}" for m in metrics if m in expected and float(row[m]) != expected[m]]
    out += ["model.onnx"] * (digests[0] != digests[1])
    out += ["eval.jsonl"] * (not same([x for x in lines(run / "eval.jsonl") if x["step"] <= step], evaluations))
    upto = [[x for x in lines(f / "metrics.jsonl") if x["step"] <= step] for f in (run, single)]
    return out + ["metrics.jsonl"] * (not (len(upto[0]) == step and same(*upto)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="keeps the folders of the runs here")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    binary = common.find_binary(args.binary)
    with tempfile.TemporaryDirectory(prefix="amp-bench-") as temporary:
        folder = (args.work or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        common.run_ours(binary, "create", "bert", "--model_head", "sequence_classification", "--model_config", json.dumps(MODEL),
                        "--out", folder / "model.onnx")  # fmt: skip
        out = folder / "sweep"
        kills, said = sweep_with_kills([binary, "sweep", *training(folder), "--sweep", f"lr={','.join(RATES)};batch_size={','.join(BATCHES)}",
                                        "--sweep_prune", "median", "--output_dir", out], out, args.seed)  # fmt: skip
        with open(out / "sweep.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        names = [f"lr={r},batch_size={b}" for r, b in itertools.product(RATES, BATCHES)]
        wrong = {} if [r["run"] for r in rows] == names else {"sweep.csv": [r["run"] for r in rows]}
        metrics = [k for k in rows[0] if k not in ("run", "state", "steps", "best", "lr", "batch_size")]
        for row in rows:
            single = folder / "single" / row["run"]
            common.run_ours(binary, *training(folder), "--lr", row["lr"], "--batch_size", row["batch_size"], "--output_dir", single)
            found = differences(row, out / row["run"], single, metrics)
            if found:
                wrong[row["run"]] = found
        shown = [m for m in ("accuracy", "macro_f1", "loss") if m in metrics]
        print(f"killed after {kills[0]['steps']} and {kills[1]['steps']} steps, with {kills[0]['ended_runs']} and {kills[1]['ended_runs']} runs ended\n")
        print(f"| run | state | steps | {' | '.join(shown)} | equal to the single run |\n|---|---|---:|{'---:|' * len(shown)}---|")
        for r in rows:
            print(f"| {r['run']} | {r['state']} | {r['steps']} | {' | '.join(r[m] for m in shown)} | {', '.join(wrong.get(r['run'], [])) or 'yes'} |")
        print("\n" + said)
        if args.out:
            common.write_json(args.out, {"date": time.strftime("%Y-%m-%d"), "machine": common.machine_facts(binary), "seed": args.seed,
                                         "kills": kills, "compared_metrics": metrics, "rows": rows, "differences": wrong})  # fmt: skip
    raise SystemExit(1 if wrong or len(kills) != 2 else 0)


if __name__ == "__main__":
    main()
