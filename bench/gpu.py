"""Training steps on a GPU, the program and PyTorch side by side: same weights, same batches, AdamW, no dropout. PyTorch runs
eager and compiled (reduce-overhead, max-autotune), with each SDPA kernel, in fp32 (TF32 allowed), fp16 with GradScaler, and
bf16; a first block of each chooses who goes into the interleaved blocks. No ratio is given where the losses differ.
Writes JSON, prints Markdown; README.md says what is compared. --device cpu is a smoke test of this script.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

import common
import gpu_models

LR, WEIGHT_DECAY, WARM = 1e-4, 0.01, 20
PARITY_STEPS = 40
# Largest |difference of losses| / (1 + |loss|) over the parity steps.
TOLERANCE = {"fp32": 1e-3, "fp16": 2e-2, "bf16": 3e-2}


class Ours:
    """A new process each block; metrics.jsonl has the time between steps, data loading included."""

    def __init__(self, args, folder, name, precision):
        self.args, self.folder, self.name = args, folder, name
        self.flags = [] if precision == "fp32" else [f"--use_{precision}"]
        if args.device == "cuda" and precision == "fp32" and not args.strict_fp32:
            self.flags.append("--tf32")

    def run(self):
        case, out = gpu_models.CASES[self.name], self.folder / "run"
        common.run_ours(
            self.args.binary, self.folder / "model.onnx", "--train", self.folder / "train.npz",
            "--loss", "bce" if self.name == "unet" else "cross_entropy", *case.get("flags", []), *self.flags,
            "--device", self.args.device, "--batch_size", case["batch"], "--no_shuffle", "--epochs", 1,
            "--optimizer", "adamw", "--lr", LR, "--lr_scheduler", "constant", "--weight_decay", WEIGHT_DECAY,
            "--max_grad_norm", 1, "--no_verify_export", "--output_dir", out, "--overwrite", "--quiet",
        )  # fmt: skip
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        seconds = [case["batch"] / line["samples_per_s"] for line in lines[self.args.warm :]]
        return {
            "step_seconds": statistics.fmean(seconds),
            "losses": [line["loss"] for line in lines],
            "skipped": sum(bool(line.get("skipped")) for line in lines),
            "peak": 0,
        }

    def close(self):
        pass


class Torch:
    """One process for all blocks: compiled code is kept."""

    def __init__(self, args, folder, name, precision, mode, sdpa, parity=False):
        self.log = open(folder / f"torch-{precision}-{mode}-{sdpa}.log", "w+", encoding="utf-8")
        words = ["--folder", folder, "--case", name, "--device", args.device, "--precision", precision, "--mode", mode,
                 "--warm", args.warm, "--lr", LR, "--weight_decay", WEIGHT_DECAY]  # fmt: skip
        words += ["--sdpa", sdpa] if sdpa else []
        words += ["--parity"] if parity else []
        words += ["--tf32"] if precision == "fp32" and not parity and not args.strict_fp32 else []
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("gpu_worker.py"), *map(str, words)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )  # fmt: skip

    def run(self):
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise RuntimeError(self.log.read()[-2000:])
        return json.loads(line)

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.log.close()


def prepare(name, folder, steps):
    batch = gpu_models.CASES[name]["batch"]
    x, label = gpu_models.make_data(name, steps * batch)
    np.savez(folder / "train.npz", x=x, label=label)
    gpu_models.export(name, folder / "model.onnx", x[:2])


def parity(args, name, top):
    """Losses of the first steps, ours beside PyTorch's eager ones, without TF32; by precision what they differ by."""
    out = {}
    folder = Path(top) / "parity"
    folder.mkdir()
    prepare(name, folder, PARITY_STEPS)
    strict = argparse.Namespace(**vars(args) | {"strict_fp32": True})
    for precision in args.precisions:
        theirs = Torch(strict, folder, name, precision, "eager", None, parity=True)
        try:
            a, b = Ours(strict, folder, name, precision).run()["losses"], theirs.run()["losses"]
        finally:
            theirs.close()
        if len(a) != len(b):
            raise SystemExit(f"{name}: {len(a)} losses of the program, {len(b)} of PyTorch")
        worst = max(abs(p - q) / (1 + abs(q)) for p, q in zip(a, b))
        out[precision] = {
            "worst": worst,
            "allowed": TOLERANCE[precision],
            "passed": bool(worst <= TOLERANCE[precision]),
            "ours": a,
            "pytorch": b,
        }
        print(f"{name} {precision}: losses differ by {worst:.2e}", file=sys.stderr, flush=True)
    return out


def arms_of(args, name):
    sdpas = args.sdpa if gpu_models.CASES[name].get("attention") and args.device == "cuda" else [None]
    for precision in args.precisions:
        for mode in args.modes:
            for sdpa in sdpas if precision != "fp32" else [None]:  # flash and cuDNN attention are for 16 bits
                label = " ".join(filter(None, ["PyTorch", mode, sdpa, precision]))
                yield label, precision, lambda f, p=precision, m=mode, s=sdpa: Torch(args, f, name, p, m, s)


def measure(args, name, top):
    folder = Path(top)
    gate = parity(args, name, top)
    steps = args.steps or gpu_models.CASES[name]["steps"]
    prepare(name, folder, steps + args.warm)
    arms, failed, screened = {}, {}, {}
    try:
        for label, precision, make in arms_of(args, name):
            arm = make(folder)
            try:
                screened[label] = (arm.run()["step_seconds"] * 1e3, precision)
                arms[label] = (arm, precision)
                print(f"{name} {label}: {screened[label][0]:.3f} ms", file=sys.stderr, flush=True)
            except RuntimeError as e:  # a kernel that does not take this shape: said in the report, not hidden
                failed[label] = str(e)
                arm.close()
            ranked = sorted((t, l) for l, (t, p) in screened.items() if p == precision and l in arms)
            for _, slow in ranked[args.keep :]:
                if " eager " in slow + " " and slow == min((l for l in arms if " eager" in l), default=None):
                    continue  # eager stays as the plain baseline
                arms.pop(slow)[0].close()
        for precision in args.precisions:
            arms[f"onnx-amp-finetune {precision}"] = (Ours(args, folder, name, precision), precision)
        blocks = {label: [] for label in arms}
        for block in range(args.blocks):
            for label in list(arms)[:: 1 if block % 2 == 0 else -1]:
                blocks[label].append(arms[label][0].run())
        return summarise(args, name, steps, gate, {l: p for l, (_, p) in arms.items()}, blocks, screened, failed)
    finally:
        for arm, _ in arms.values():
            arm.close()


def summarise(args, name, steps, gate, precision_of, blocks, screened, failed):
    rows = {}
    for label, of in blocks.items():
        rows[label] = {
            "precision": precision_of[label],
            "step_ms": common.summary([b["step_seconds"] * 1e3 for b in of]),
            "peak_bytes": max(b["peak"] for b in of),
            "skipped_steps": max(b.get("skipped", 0) for b in of),
        }
    theirs = [l for l in rows if l.startswith("PyTorch")]
    best = min(theirs, key=lambda l: rows[l]["step_ms"]["median"], default=None)
    for label, row in rows.items():
        if best and (label in theirs or gate[row["precision"]]["passed"]):
            ratios = [b["step_seconds"] / a["step_seconds"] for a, b in zip(blocks[label], blocks[best])]
            row["speed_ratio"] = common.summary(ratios)
    return {
        "what": gpu_models.CASES[name]["what"],
        "batch": gpu_models.CASES[name]["batch"],
        "timed_steps": steps,
        "untimed_steps": args.warm,
        "parity": gate,
        "pytorch_best": best,
        "arms": rows,
        "first_block_ms": {l: t for l, (t, _) in screened.items()},
        "failed": failed,
    }


def print_case(result):
    print(f"\n**{result['what']}**, batch {result['batch']}, {result['timed_steps']} steps a block\n")
    print("| | ms a step | IQR | samples/s | speed against PyTorch's best | least - most |")
    print("|---|---:|---:|---:|---:|---:|")
    for label, r in result["arms"].items():
        ms, ratio = r["step_ms"], r.get("speed_ratio")
        against = (
            f"{ratio['median']:.2f} | {min(ratio['values']):.2f} - {max(ratio['values']):.2f}"
            if ratio
            else "losses differ: no ratio | -"
        )
        mark = " (best)" if label == result["pytorch_best"] else ""
        print(
            f"| {label}{mark} | {ms['median']:.3g} | {ms['q1']:.3g} - {ms['q3']:.3g} "
            f"| {result['batch'] / ms['median'] * 1e3:.0f} | {against} |"
        )


def gpu_facts():
    query = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw,memory.total"
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv"], capture_output=True, text=True)
        return done.stdout.strip().splitlines()
    except FileNotFoundError:
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a smoke test of the script")
    parser.add_argument("--cases", nargs="+", choices=gpu_models.CASES, default=list(gpu_models.CASES))
    parser.add_argument("--precisions", nargs="+", choices=TOLERANCE, default=list(TOLERANCE))
    parser.add_argument("--modes", nargs="+", default=["eager", "reduce-overhead", "max-autotune"])
    parser.add_argument("--sdpa", nargs="+", default=["flash", "cudnn", "efficient"])
    parser.add_argument("--keep", type=int, default=1, help="PyTorch's fastest of each precision in the blocks")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="timed steps a block; 0: each case's own number")
    parser.add_argument("--warm", type=int, default=WARM, help="untimed steps before them")
    parser.add_argument("--strict_fp32", action="store_true", help="no TF32 on either side")
    parser.add_argument("--out", default="gpu-bench.json")
    args = parser.parse_args()
    args.binary = common.find_binary(args.binary)

    report = {"device": args.device, "gpu": gpu_facts(), "blocks": args.blocks, "cases": {}}
    import torch

    report["versions"] = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]}
    for name in args.cases:
        with common.scratch_dir() as scratch:
            report["cases"][name] = measure(args, name, scratch)
        common.write_json(args.out, report)  # what is measured is kept, whatever happens to the next case
        print_case(report["cases"][name])
    report["gpu_after"] = gpu_facts()
    report["load_average"] = os.getloadavg()
    common.write_json(args.out, report)
    bad = [f"{n} {p}" for n, c in report["cases"].items() for p, g in c["parity"].items() if not g["passed"]]
    if bad:
        raise SystemExit(f"losses differ from PyTorch's: {', '.join(bad)}")


if __name__ == "__main__":
    main()
