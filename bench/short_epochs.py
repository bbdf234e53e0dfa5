"""Measures the cost of short epochs: runs of N epochs of one step are compared with runs of one epoch of N steps, on
the same rows.

Checkpoints, reports and evaluations are due at the end of an epoch. The runs take turns. For each pair the ratio of
wall time (training, by run.json) and of processor time (user and system, of the process) is printed, and their medians.
--val also evaluates 32 rows at the end of each epoch: then the runs differ by the evaluations, too, whose own time is
printed. Files are written to --work, because the time of an fsync depends on the file system.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import common

MLP = ["create", "mlp", "--model_config", '{"inputs": 32, "hidden": [128, 128], "outputs": 2}']
BATCH = 32


def write_rows(path, copies, seed=1):
    """Writes one batch of rows, `copies` times."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((BATCH, 32), dtype=np.float32), rng.integers(0, 2, BATCH, dtype=np.int64)
    save_file({"features": np.tile(x, (copies, 1)), "label": np.tile(y, copies)}, path)


def timed(binary, folder, data, epochs, more):
    """Trains. Returns the seconds of training, including the work between epochs, and the processor seconds."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    command = [binary, folder / "mlp.onnx", "--train", data, "--epochs", epochs, "--batch_size", BATCH, "--threads", 1,
               "--output_dir", out, "--quiet", *more]  # fmt: skip
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, env=dict(os.environ, OMP_NUM_THREADS="1"))
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(map(str, command))} failed")
    facts = json.loads((out / "run.json").read_text())
    return facts["timing"]["train_seconds"], used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary")
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--val", action="store_true", help="evaluate at the end of each epoch")
    parser.add_argument("--work", help="folder for temporary files")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args, words = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="amp-bench-", dir=args.work) as work:
        folder = Path(work)
        binary = common.pinned(common.find_binary(args.binary), folder)
        common.run_ours(binary, *MLP, "--out", folder / "mlp.onnx")
        write_rows(folder / "short.safetensors", 1)
        write_rows(folder / "long.safetensors", args.steps)
        if args.val:
            write_rows(folder / "val.safetensors", 1, seed=2)
            words += ["--val", folder / "val.safetensors"]
        wall, processor = [], []
        for _ in range(args.pairs):
            short = timed(binary, folder, folder / "short.safetensors", args.steps, words)
            long = timed(binary, folder, folder / "long.safetensors", 1, words)
            wall.append(short[0] / long[0])
            processor.append(short[1] / long[1])
            print(f"short epochs {short[0]:.2f} s, processor {short[1]:.2f} s; one epoch {long[0]:.2f} s, {long[1]:.2f} s", flush=True)
    result = {"steps": args.steps, "wall": common.summary(wall), "processor": common.summary(processor)}
    print(f"median of {args.pairs} ratios: wall {statistics.median(wall):.3f}, processor {statistics.median(processor):.3f}")
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
