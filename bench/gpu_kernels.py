"""Kernel times of one warm training step, launches one by one (no CUDA graphs): by ncu, else nsys, else the program's own
--profile, which waits after every operator. Writes JSON, and Markdown beside it."""

import argparse
import csv
import io
import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import common
import gpu_models
from gpu_arms import prepare, training_words

WARM = 3  # steps before the one that is looked at: libraries prove themselves, algorithms are chosen


def find(name):
    found = shutil.which(name)
    return found or next((p for p in (f"/usr/local/cuda/bin/{name}",) if os.path.exists(p)), None)


def run(words, seconds=140):
    env = os.environ | {"ONNX_AMP_CUDA_GRAPHS": "0", "ONNX_AMP_CUDA_PROFILE_STEP": str(WARM)}
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, env=env, timeout=seconds)
    return done.returncode, done.stdout, done.stderr


def rows_of(text, first):
    """The CSV table in a tool's output: from the line that has the column `first`."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if f'"{first}"' in line or line.startswith(first + ",")), None)
    return list(csv.DictReader(io.StringIO("\n".join(lines[start:])))) if start is not None else []


def number(text):
    return float(text.replace(",", ""))


def by_ncu(program):
    ncu = find("ncu")
    if not ncu:
        return None, "there is no ncu"
    words = [ncu, "--target-processes", "all", "--profile-from-start", "off", "--clock-control", "none", "--csv", "--print-units", "base",
             "--metrics", "gpu__time_duration.sum,dram__bytes.sum", *program]  # fmt: skip
    status, out, err = run(words)
    kernels = defaultdict(lambda: {"launches": 0, "us": 0.0, "bytes": 0.0})
    for row in rows_of(out, "ID"):
        k = kernels[row["Kernel Name"]]
        if row["Metric Name"] == "gpu__time_duration.sum":
            k["launches"] += 1
            k["us"] += number(row["Metric Value"]) / 1e3
        else:
            k["bytes"] += number(row["Metric Value"])
    return (kernels, "ncu") if kernels else (None, f"ncu ended with {status}: {(out + err).strip()[-300:]}")


def by_nsys(program, folder):
    nsys = find("nsys")
    if not nsys:
        return None, "there is no nsys"
    file = folder / "step"
    status, out, err = run([nsys, "profile", "-t", "cuda", "-c", "cudaProfilerApi", "--force-overwrite", "true", "-o", file, *program])
    if status == 0:
        status, out, err = run([nsys, "stats", "--report", "cuda_gpu_kern_sum", "--format", "csv", f"{file}.nsys-rep"])
    kernels = {}
    for row in rows_of(out, "Time (%)"):
        kernels[row["Name"]] = {"launches": int(number(row["Instances"])), "us": number(row["Total Time (ns)"]) / 1e3, "bytes": 0.0}
    return (kernels, "nsys") if kernels else (None, f"nsys ended with {status}: {(out + err).strip()[-300:]}")


def by_program(program):
    status, _, err = run([*(w for w in program if w != "--quiet"), "--profile"])
    times = re.findall(r"^\s+([0-9.e+-]+)\s+([A-Za-z]\S*)$", err, re.M)
    kernels = {name: {"launches": 0, "us": 1e3 * float(ms), "bytes": 0.0} for ms, name in times}
    return (kernels, "the program's --profile, waiting after every operator") if kernels else (None, f"exit {status}: {err[-300:]}")


def short(name):
    return re.sub(r"amp::cuda::(?:\(anonymous namespace\)|<unnamed>|unnamed)?(?:::)?", "", name)[:110].replace("|", "/")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--case", choices=gpu_models.CASES, default="bert_b32")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a test of this script")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    if args.tiny:
        gpu_models.shrink()
    with common.scratch_dir() as scratch:
        folder = Path(scratch)
        case = prepare(args, args.case, folder, WARM + 2, 0)
        program = [args.binary, *training_words(args, args.case, case, folder / "run", args.dropout), f"--use_{args.precision}"]
        tried = []
        for look in (by_ncu, lambda p: by_nsys(p, folder), by_program):
            try:
                kernels, said = look(program)
            except subprocess.TimeoutExpired as e:
                kernels, said = None, f"{e.cmd[0]} took too long"
            if kernels:
                break
            tried.append(said)
        else:
            raise SystemExit("; ".join(tried))
    ranked = sorted(kernels.items(), key=lambda k: -k[1]["us"])
    total = sum(k["us"] for _, k in ranked)
    result = {"case": args.case, "dropout": args.dropout, "precision": args.precision, "by": said, "not_by": tried, "total_us": total,
              "kernels": [{"name": n} | k for n, k in ranked]}  # fmt: skip
    common.write_json(args.out, result)
    lines = [f"\n**Kernels of a step**: {args.case}, {args.precision}, dropout {args.dropout}, by {said}: {total / 1e3:.3f} ms in all\n",
             "| kernel | launches | us | MB |", "|---|---:|---:|---:|"]  # fmt: skip
    lines += [f"| {short(n)} | {k['launches']} | {k['us']:.1f} | {k['bytes'] / 1e6:.1f} |" for n, k in ranked[:60]]
    Path(args.out).with_suffix(".md").write_text("\n".join(lines) + "\n")
    print(f"{len(ranked)} kernels, {total / 1e3:.3f} ms, by {said}" + (f" ({'; '.join(tried)})" if tried else ""))


if __name__ == "__main__":
    main()
