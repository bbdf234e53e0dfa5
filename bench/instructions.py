"""Counts the instructions of a training step of small networks by valgrind's callgrind. The counts have no noise, so
commits can be compared.

Two runs differ in their number of steps; the difference in instructions belongs to these steps. One
thread, AVX2 (valgrind does not support AVX-512), models by `create`, random rows. The instructions that write the
report's page are not counted, because the number of writes depends on the time. --against FILE: exits with 1 if a
network needs over 3 % more than in that file.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import common

NETS = {  # words of `create`, name and dims of the input's rows, batch size, number of classes, steps of the two runs
    "lenet": (["lenet"], ("image", 1, 28, 28), 64, 10, (2, 12)),
    "mlp": (["mlp", "--model_config", '{"inputs": 32, "hidden": [128, 128], "outputs": 2}'], ("features", 32), 32, 2, (10, 410)),
    "tabular": (["mlp", "--model_config", '{"inputs": 233, "hidden": [1000, 500], "outputs": 2}'], ("features", 233), 128, 2, (2, 10)),
}  # fmt: skip


def rows(row, batch, classes, steps, path):
    rng, n = np.random.default_rng(1), batch * steps
    name, *dims = row
    x = {name: rng.standard_normal((n, *dims), dtype=np.float32)}
    save_file(x | {"label": rng.integers(0, classes, n, dtype=np.int64)}, path)


def collected(binary, model, data, batch, steps, out):
    profile = out.with_suffix(".callgrind")
    command = ["valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={profile}", binary, model, "--train", data, "--max_steps", steps,
               "--batch_size", batch, "--threads", 1, "--output_dir", out, "--overwrite", "--quiet"]  # fmt: skip
    env = dict(os.environ, ONNX_AMP_MAX_ISA="v3", OMP_NUM_THREADS="1")
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}: {done.stderr[-2000:]}")
    annotate = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", str(profile)]
    lines = subprocess.run(annotate, capture_output=True, text=True, check=True).stdout
    total, page = (re.search(r"^\s*([\d,]+) \([^)]*\)\s+" + what, lines, re.M) for what in ("PROGRAM TOTALS", r"\S+:amp::write_report_page\("))
    return sum(sign * int(m.group(1).replace(",", "")) for sign, m in ((1, total), (-1, page)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary")
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS))
    parser.add_argument("--against", type=Path, help="an earlier --out")
    parser.add_argument("--out", default=f"docs/results/instructions-{datetime.date.today()}.json")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        raise SystemExit("there is no valgrind: apt-get install valgrind")
    binary = common.find_binary(args.binary)
    before = json.loads(args.against.read_text())["instructions of a step"] if args.against else {}
    found, worse = {}, False
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in args.nets:
            words, row, batch, classes, steps = NETS[name]
            model, data = work / f"{name}.onnx", work / f"{name}.safetensors"
            common.run_ours(binary, "create", *words, "--seed", 1, "--out", model)
            rows(row, batch, classes, steps[1], data)
            few, many = (collected(binary, model, data, batch, n, work / "run") for n in steps)
            found[name] = (many - few) // (steps[1] - steps[0])
            ratio = found[name] / before[name] if name in before else None
            worse |= ratio is not None and ratio > 1.03
            print(f"{name:10} {found[name] / 1e6:10.2f} million" + (f"  {ratio:.3f} of before" if ratio else ""), flush=True)
    common.write_json(args.out, {"instructions of a step": found, "machine": common.machine_facts(binary)})
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
