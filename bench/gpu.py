"""Times training steps on a GPU, of the program and of PyTorch: same weights, same batches, AdamW, no
dropout. PyTorch runs eager and compiled (reduce-overhead, max-autotune), with each SDPA kernel,
in fp32 (TF32 allowed), fp16 with GradScaler, and bf16. One block of steps of each configuration
selects the fastest of each precision. Its blocks then alternate with the program's. No ratio is
reported if the losses differ.

Writes JSON, prints Markdown; README.md describes the comparison. Exits with 75 if --seconds have
passed before the case is done; a call with the same --out and flags continues it. --device cpu
--tiny tests this script.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import common
import gpu_models
from gpu_arms import Ours, Torch, prepare
from gpu_summary import print_case, summarise

PARITY_STEPS = 40
# Largest |difference of losses| / (1 + |loss|) over the parity steps.
TOLERANCE = {"fp32": 1e-3, "fp16": 2e-2, "bf16": 3e-2}


class OutOfTime(Exception):
    pass


class Case:
    """One case of the report, step by step; finished steps are in `r` and are not repeated."""

    def __init__(self, args, name, result, save, deadline):
        self.args, self.name, self.r, self.save, self.deadline = args, name, result, save, deadline

    def say(self, text):
        print(f"{self.name} {text}", file=sys.stderr, flush=True)

    def once(self, key, seconds, work):
        """Returns r[key], which work() computes the first time. seconds: its time limit."""
        if key not in self.r:
            self.need(seconds)
            self.r[key] = work()
            self.save()
        return self.r[key]

    def need(self, seconds):
        if time.monotonic() + min(seconds, self.args.seconds / 3) > self.deadline:
            raise OutOfTime

    def run(self, top):
        args = self.args
        self.case = prepare(args, self.name, Path(top), args.steps or gpu_models.CASES[self.name]["steps"], args.warm)
        self.r["data"] = {k: self.case[k] for k in ("warm", "steps", "tokens", "padded")}
        for precision in args.precisions:
            self.once(f"parity {precision}", 90, lambda p=precision: self.parity(p))
        self.screen()
        self.once("blocks", 240, self.blocks)  # first, because the time may end before the other measurements
        low = next((p for p in args.precisions if p != "fp32"), "fp32")
        self.once("first_step", 60, lambda: self.first_step(low))
        if "update" in gpu_models.CASES[self.name]["goals"]:
            self.once("update", 60, lambda: self.update(low))

    def parity(self, precision):
        """Returns the losses of the first steps by the program and by PyTorch in eager mode, both without TF32."""
        args = argparse.Namespace(**vars(self.args) | {"strict_fp32": True})
        steps = min(PARITY_STEPS, self.case["warm"] + self.case["steps"])
        theirs = Torch(args, self.name, self.case, precision, "eager", None, parity=steps)
        try:
            a = Ours(args, self.name, self.case, precision).run("--max_steps", steps)["losses"]
            b = theirs.run()["losses"]
        finally:
            theirs.close()
        if len(a) != len(b):
            raise SystemExit(f"{self.name}: {len(a)} losses of the program, {len(b)} of PyTorch")
        worst = max(abs(p - q) / (1 + abs(q)) for p, q in zip(a, b))
        self.say(f"{precision}: losses differ by {worst:.2e}")
        passed = bool(worst <= TOLERANCE[precision])
        return {"worst": worst, "allowed": TOLERANCE[precision], "passed": passed, "ours": a, "pytorch": b}

    def first_step(self, precision):
        """Returns the time from the start of the process to the end of its first step: without cached tuning, then with
        it."""
        ours = Ours(self.args, self.name, self.case, precision)
        before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = str(self.case["folder"] / "fresh-cache")
        try:
            times = [ours.run("--max_steps", 1)["first_step_seconds"] for _ in range(2)]
        finally:
            os.environ.pop("XDG_CACHE_HOME")
            if before is not None:
                os.environ["XDG_CACHE_HOME"] = before
        return {"precision": precision, "first": times[0], "again": times[1]}

    def update(self, precision):
        """Times only the optimizer phase of the program and of PyTorch: unscale, clip_grad_norm_, fused AdamW."""
        theirs = Torch(self.args, self.name, self.case, precision, "eager", None)
        try:
            seconds = theirs.run("update")["seconds"]
        finally:
            theirs.close()
        ours = Ours(self.args, self.name, self.case, precision).run("--max_steps", 1, "--profile")["update"]
        return {"precision": precision, "ours": ours, "pytorch_seconds": seconds}

    def arms(self):
        args = self.args
        sdpas = args.sdpa if gpu_models.CASES[self.name].get("attention") else [None]
        for mode in args.modes:
            for precision in args.precisions:
                for sdpa in sdpas if precision != "fp32" else [None]:  # flash and cuDNN attention are for 16 bits
                    label = " ".join(filter(None, ["PyTorch", mode, sdpa, precision]))
                    yield label, (precision, mode, sdpa)

    def start(self, arm):
        return Torch(self.args, self.name, self.case, *arm)

    def screen(self):
        """Times every arm once. Some start in parallel; all have compiled before the first is timed. max-autotune,
        which times kernels itself, starts separately and only with the attention that was fastest before."""
        done, failed = self.r.setdefault("screened", {}), self.r.setdefault("failed", {})
        waiting = [(l, a) for l, a in self.arms() if l not in done and l not in failed]
        while waiting:
            together = waiting[: self.args.jobs] if waiting[0][1][1] != "max-autotune" else waiting[:1]
            together = [(l, a) for l, a in together if a[1] == together[0][1][1]]
            waiting = waiting[len(together) :]
            together = [(l, a) for l, a in together if not self.beaten(a)]
            if not together:
                continue
            self.need(30 if together[0][1][1] == "eager" else 150)
            running = [(l, a, self.start(a)) for l, a in together]
            for label, _, process in running:
                try:
                    process.ready()
                except RuntimeError as e:  # a kernel that does not support this shape; the report states it
                    failed[label] = str(e)
            for label, (precision, mode, sdpa), process in running:
                if label not in failed:
                    ms = process.run()["step_seconds"] * 1e3
                    done[label] = {"precision": precision, "mode": mode, "sdpa": sdpa, "ms": ms, "first_step": process.ready()}
                    self.say(f"{label}: {ms:.3f} ms")
                process.close()
            self.save()

    def beaten(self, arm):
        """True if another attention was faster in the same precision, compiled without autotuning (else eager)."""
        precision, mode, sdpa = arm
        if mode != "max-autotune" or not sdpa:
            return False
        for other in ("reduce-overhead", "eager"):
            same = [d for d in self.r["screened"].values() if d["precision"] == precision and d["mode"] == other]
            if same:
                return min(same, key=lambda d: d["ms"])["sdpa"] != sdpa
        return False

    def kept(self):
        """Yields the fastest arm of each precision, and the fastest eager one."""
        for precision in self.args.precisions:
            ranked = sorted((d["ms"], l) for l, d in self.r["screened"].items() if d["precision"] == precision)
            eager = [l for _, l in ranked if self.r["screened"][l]["mode"] == "eager"]
            for label in dict.fromkeys([l for _, l in ranked[: self.args.keep]] + eager[:1]):
                yield label

    def blocks(self):
        arms = {}
        try:
            for label in self.kept():
                d = self.r["screened"][label]
                arms[label] = (self.start((d["precision"], d["mode"], d["sdpa"])), d["precision"])
                arms[label][0].ready()
            for precision in self.args.precisions:
                arms[f"onnx-amp-finetune {precision}"] = (Ours(self.args, self.name, self.case, precision), precision)
            times = {label: [] for label in arms}
            for block in range(self.args.blocks):
                for label in list(arms)[:: 1 if block % 2 == 0 else -1]:
                    answer = arms[label][0].run()
                    answer.pop("losses")
                    times[label].append(answer)
            return {l: {"precision": p, "runs": times[l]} for l, (_, p) in arms.items()}
        finally:
            for process, _ in arms.values():
                process.close()


def gpu_facts():
    query = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw,memory.total"
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv"], capture_output=True, text=True)
        return done.stdout.strip().splitlines()
    except FileNotFoundError:
        return []


def open_report(args):
    """Returns the report of an earlier call with the same program and flags, or a new one."""
    flags = {k: v for k, v in vars(args).items() if k not in ("out", "seconds", "cases", "binary", "program")}
    files = [Path(args.program or args.binary), *sorted(Path(__file__).parent.glob("gpu*.py"))]
    hashes = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
    key = json.loads(json.dumps({"flags": flags, "files": hashes}, default=str))
    try:
        report = json.loads(Path(args.out).read_text())
        if report.get("key") == key:
            return report
    except (OSError, ValueError):
        pass
    import torch

    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]}
    return {"key": key, "device": args.device, "gpu": gpu_facts(), "versions": versions, "blocks": args.blocks, "cases": {}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary")
    parser.add_argument("--program", help="the file whose change makes an earlier report void; --binary when not given")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a test of the script")
    parser.add_argument("--tiny", action="store_true", help="tiny nets: a test of the script")
    parser.add_argument("--cases", nargs="+", choices=gpu_models.CASES, default=list(gpu_models.CASES))
    parser.add_argument("--precisions", nargs="+", choices=TOLERANCE, default=list(TOLERANCE))
    parser.add_argument("--modes", nargs="+", default=["eager", "reduce-overhead", "max-autotune"])
    parser.add_argument("--sdpa", nargs="+", default=["flash", "cudnn", "efficient"])
    parser.add_argument("--keep", type=int, default=1, help="PyTorch's fastest of each precision in the blocks")
    parser.add_argument("--jobs", type=int, default=4, help="PyTorch's processes that compile at the same time")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="timed steps a block; 0: each case's own number")
    parser.add_argument("--warm", type=int, default=20, help="untimed steps before them")
    parser.add_argument("--strict_fp32", action="store_true", help="no TF32 on either side")
    parser.add_argument("--seconds", type=float, default=540, help="of this call; what has begun may end a little later")
    parser.add_argument("--out", default="gpu-bench.json")
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    args.binary = common.find_binary(args.binary)
    if args.tiny:
        gpu_models.shrink()

    report = open_report(args)
    for name in args.cases:
        result = report["cases"].setdefault(name, {})
        with common.scratch_dir() as scratch:
            try:
                Case(args, name, result, lambda: common.write_json(args.out, report), deadline).run(scratch)
            except OutOfTime:
                common.write_json(args.out, report)
                if "blocks" in result:
                    summarise(name, result)
                    print_case(result)
                print(f"{name}: time is up; the same call goes on from here", file=sys.stderr)
                sys.exit(75)
        summarise(name, result)
        report["gpu_after"], report["load_average"] = gpu_facts(), os.getloadavg()
        common.write_json(args.out, report)  # keeps the results so far if a later case fails
        print_case(result)
    bad = [f"{n} {p}" for n in args.cases for p in args.precisions if not report["cases"][n][f"parity {p}"]["passed"]]
    if bad:
        raise SystemExit(f"losses differ from PyTorch's: {', '.join(bad)}")


if __name__ == "__main__":
    main()
