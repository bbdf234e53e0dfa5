"""Runs every models/NAME/run.sh as a new user does: from a clone of the last commit, with its
sample, in fp32 and bf16. onnxruntime then computes the metric that each run printed, from the
exported file and inputs made by other tools (recipes_metrics.py). lora_llm.py measures the model of
models/chat_lora, which is not run here.

Exits with 1 if a recipe fails or onnxruntime's metric differs. Finished runs are kept in --work: a
second call continues from there, --again repeats the named recipes. The times exclude the build of the program, which
is an argument.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import common
import recipes_metrics

def names():
    return sorted(recipes_metrics.METRICS)


def timed(command, env, cwd, log):
    """Returns wall and CPU seconds of a command and its child processes."""
    began = time.monotonic()
    with open(log, "w", encoding="utf-8") as f:
        process = subprocess.Popen(command, env=env, cwd=cwd, stdout=f, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "seconds": time.monotonic() - began,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "exit_code": process.returncode,
        "load_average": os.getloadavg()[0],
    }


def run(args, name):
    row = timed([f"models/{name}/run.sh", *args.flags], args.env, args.clone, args.work / f"{name}.log")
    if row["exit_code"] != 0:
        row["error"] = (args.work / f"{name}.log").read_text()[-1500:]
    return row


def compared(args, name):
    """Returns the metrics that each run of the recipe printed, and those that onnxruntime computes."""
    out = []
    for folder in sorted(p.parent for p in (args.work / "runs" / name).glob("**/run.json")):
        printed = json.loads((folder / "run.json").read_text())
        for row in recipes_metrics.metrics_of(name, folder, args.clone / "models"):
            row["run"] = str(folder.relative_to(args.work / "runs" / name))
            row["printed"] = row.get("printed", printed["final_metrics"].get(row["metric"]))
            row["agrees"] = bool(abs(row["onnxruntime"] - row["printed"]) <= row["tolerance"])
            out.append(row)
    return out


def print_table(report):
    print("| recipe | seconds | CPU seconds | metric | printed: bf16, fp32 | onnxruntime |\n|---|---:|---:|---|---|---|")
    for name, r in report["recipes"].items():
        if "error" in r:
            print(f"| {name} | | | | {r['error'].splitlines()[-1]} | |")
            continue
        for metric in dict.fromkeys(m["metric"] for m in r.get("metrics", [])):
            of = [m for m in r["metrics"] if m["metric"] == metric]
            cells = [", ".join(f"{m[k]:.4f}" for m in of) for k in ("printed", "onnxruntime")]
            told = "" if all(m["agrees"] for m in of) else " DIFFERS"
            print(f"| {name} | {r['seconds']:.0f} | {r['cpu_seconds']:.0f} | {metric} | {cells[0]} | {cells[1]}{told} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary")
    parser.add_argument("--minilm", help="the ONNX file; default: what cmake/fetch_minilm.sh fetches")
    parser.add_argument("--work", type=Path, required=True, help="clone, runs and what was measured")
    parser.add_argument("--only", nargs="+", choices=names(), default=names())
    parser.add_argument("--again", action="store_true", help="run what --only names although it was run")
    parser.add_argument("--flags", nargs="+", default=[], help="for every run.sh, such as --max_steps 3 (a smoke test)")
    parser.add_argument("--out", default=f"docs/results/recipes-check-{datetime.date.today()}.json")
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    args.clone = args.work / "clone"
    shutil.rmtree(args.clone, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{common.ROOT}", str(args.clone)], check=True)
    binary = common.find_binary(args.binary)
    args.env = dict(os.environ, ONNX_AMP_PROGRAM=str(binary), RECIPE_OUT=str(args.work / "runs"),
                    RECIPE_MINILM=str(common.find_minilm(args.minilm)))  # fmt: skip
    state = args.work / "state.json"
    report = json.loads(state.read_text()) if state.exists() else {"recipes": {}}
    report["machine"] = common.machine_facts(binary)
    for name in args.only:
        row = report["recipes"].get(name)
        if args.again or row is None or "error" in row:
            row = report["recipes"][name] = run(args, name)
            common.write_json(state, report)
        if "error" not in row:
            row["metrics"] = compared(args, name)
        row["ok"] = "error" not in row and bool(row["metrics"]) and all(m["agrees"] for m in row["metrics"])
        common.write_json(state, report)
        print(name, json.dumps({k: v for k, v in row.items() if k != "error"}), row.get("error", ""), flush=True)
    common.write_json(args.out, report)
    print_table(report)
    if not all(report["recipes"][n]["ok"] for n in args.only):
        raise SystemExit("a recipe failed, or onnxruntime's metric is another one")


if __name__ == "__main__":
    main()
