"""Training steps on the CPU, the program against PyTorch: interleaved blocks with the same batches,
shapes, weights and number of threads, AdamW, no dropout. The first losses must be equal. Writes
JSON, prints Markdown; README.md describes the comparison.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import cases
import common

# Name -> (side, precision, further arguments of torch_worker.py).
OURS = {f"onnx-amp-finetune {p}": ("ours", p, []) for p in ("fp32", "fp16", "bf16")}
OURS |= {f"onnx-amp-finetune {p} checkpointing": ("ours", p, ["--gradient_checkpointing"]) for p in ("fp32", "bf16")}
TORCH = {
    "PyTorch eager": ("torch", "fp32", []),
    "PyTorch compile": ("torch", "fp32", ["--compile"]),
    "PyTorch eager channels_last": ("torch", "fp32", ["--channels_last"]),
    "PyTorch compile channels_last": ("torch", "fp32", ["--compile", "--channels_last"]),
    "PyTorch eager bf16": ("torch", "bf16", []),
    "PyTorch compile bf16": ("torch", "bf16", ["--compile"]),
    "PyTorch eager bf16 channels_last": ("torch", "bf16", ["--channels_last"]),
    "PyTorch compile bf16 channels_last": ("torch", "bf16", ["--compile", "--channels_last"]),
}
ORT = {"onnxruntime-training fp32": ("ort", "fp32", [])}  # used with --ort_python
EARLIER = {f"earlier {p}": ("earlier", p, []) for p in ("fp32", "fp16", "bf16")}  # used with --earlier
SAME_LOSS = 1e-4  # relative to 1 + the loss of PyTorch's first step


class Ours:
    """Starts a new process per block. The time of a step is read from metrics.jsonl and includes data loading."""

    def __init__(self, args, binary, folder, case, precision, extra):
        self.args, self.binary, self.folder, self.case = args, binary, folder, case
        self.flags = ([] if precision == "fp32" else [f"--use_{precision}"]) + extra

    def train(self, steps):
        """Returns the processor time of the whole process, in seconds."""
        out = self.folder / ("run" if self.binary == self.args.binary else "earlier")  # separate folders, because versions differ
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        common.run_ours(
            self.binary,
            self.case["model"],
            *self.case["flags"],
            *self.flags,
            "--batch_size",
            self.case["batch"],
            "--no_shuffle",
            "--max_steps",
            steps,
            "--epochs",
            1,
            "--optimizer",
            "adamw",
            "--lr",
            cases.LR,
            "--lr_scheduler",
            "constant",
            "--weight_decay",
            cases.WEIGHT_DECAY,
            "--max_grad_norm",
            1,
            "--threads",
            self.args.threads,
            "--no_verify_export",
            "--output_dir",
            out,
            "--overwrite",
            "--quiet",
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def run(self):
        count, warm = len(self.case["rows"]), self.case["warm"]
        start = self.train(warm)[1] if self.args.processor_time else 0
        out, processor = self.train(count)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        if len(lines) != len(self.case["rows"]):
            raise SystemExit(f"the program made {len(lines)} steps of {len(self.case['rows'])}")
        for step, (line, rows, tokens) in enumerate(zip(lines, self.case["rows"], self.case["tokens"])):
            counted = line["tokens_per_s"] / line["samples_per_s"] * rows
            if tokens and abs(counted - tokens) > 0.5:
                raise SystemExit(f"step {step}: the program saw {counted:.0f} tokens, PyTorch's batch has {tokens}")
        seconds = [r / line["samples_per_s"] for r, line in zip(self.case["rows"], lines)]
        if self.args.processor_time:  # divided evenly among all steps except the warm-up
            seconds = [(processor - start) / (count - warm)] * count
        return {
            "seconds": seconds,
            "losses": [line["loss"] for line in lines],
            "peak": lines[-1]["memory"],
        }

    def close(self):
        pass


class Served:
    """Uses one process for all blocks, so that compiled code is reused. The process answers `run` with a line of
    JSON."""

    def __init__(self, args, folder, log, command):
        env = os.environ | {"OMP_NUM_THREADS": str(args.threads), "TOKENIZERS_PARALLELISM": "false"}
        self.log = open(folder / log, "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=env)

    def run(self):
        try:
            self.process.stdin.write("run\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.log.seek(0)
            raise ServerEnded(f"{self.process.args[1]} ended:\n{self.log.read()[-3000:]}")
        return json.loads(line)

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.log.close()


class ServerEnded(SystemExit):
    """An error with the process's output. It ends the script unless it is caught."""


def torch_process(args, folder, precision, extra):
    command = [sys.executable, Path(__file__).with_name("torch_worker.py"), "--folder", folder, "--binary", args.binary]
    command += ["--precision", precision, "--threads", str(args.threads), "--attention", args.attention]
    command += ["--processor_time"] if args.processor_time else []
    return Served(args, folder, f"torch-{precision}{''.join(extra)}.log", command + extra)


def ort_training_process(args, folder):
    command = [args.ort_python, Path(__file__).with_name("ort_training_worker.py"), "--folder", folder]
    return Served(args, folder, "ort-training.log", command + ["--threads", str(args.threads)])


def measure(args, name, folder):
    case = cases.prepare(name, folder, args.steps, args.minilm, args.binary)
    wanted = {
        n: a
        for n, a in (OURS | (EARLIER if args.earlier else {}) | (ORT if args.ort_python and name not in cases.SENTENCES else {}) | TORCH).items()
        if (name in cases.SENTENCES or name in cases.TOKENS or a[1] == "fp32" or n in (args.arms or []))
        and (name not in ("lenet", "mlp", "tabular") or "checkpointing" not in n)
        and (name in cases.VISION or "--channels_last" not in a[2])
        and (not args.arms or n in args.arms)
    }
    arms, first, failed = {}, {}, {}
    try:
        for n, (side, precision, extra) in wanted.items():
            if side == "torch":
                arms[n] = torch_process(args, folder, precision, extra)
            elif side == "ort":
                arms[n] = ort_training_process(args, folder)
            else:
                binary = args.binary if side == "ours" else args.earlier
                arms[n] = Ours(args, binary, folder, case, precision, extra)
            try:
                if isinstance(arms[n], Served):
                    arms[n].run()  # the processes start and compile one after the other, before any timing
            except ServerEnded as error:
                if side != "ort":
                    raise
                failed[n] = str(error).strip().splitlines()[-1]
                print(f"{name}: {n} does not run: {failed[n]}", file=sys.stderr, flush=True)
                arms.pop(n).close()
        blocks = {n: [] for n in arms}
        for block in range(args.blocks):
            for n in list(arms)[:: 1 if block % 2 == 0 else -1]:
                got = arms[n].run()
                timed = got["seconds"][case["warm"] :]
                rows = sum(case["rows"][case["warm"] :])
                first.setdefault(wanted[n][1], {})[n] = got["losses"][0]
                blocks[n].append(
                    {"step_ms": statistics.median(timed) * 1e3, "samples_per_s": rows / sum(timed), "peak": got["peak"]}
                )
                print(
                    f"{name} block {block + 1}/{args.blocks} {n}: {blocks[n][-1]['step_ms']:.3f} ms",
                    file=sys.stderr,
                    flush=True,
                )
    finally:
        for arm in arms.values():
            arm.close()
    losses = first.get("fp32", {})
    for n, loss in losses.items():
        if abs(loss - next(iter(losses.values()))) > SAME_LOSS * (1 + abs(loss)):
            raise SystemExit(f"{name}: the first losses differ: {losses}")
    return summarise(name, case, blocks) | {"first_losses": first, "failed": failed}


def summarise(name, case, blocks):
    rows = {
        n: {k: common.summary([b[k] for b in of]) for k in ("step_ms", "samples_per_s")}
        | {"peak_bytes": max(b["peak"] for b in of), "blocks_ms": [b["step_ms"] for b in of]}
        for n, of in blocks.items()
    }
    for n in OURS:  # ratio of times in the same round; above 1: slower than the earlier build
        before = n.replace("onnx-amp-finetune", "earlier")
        if n in rows and before in rows:
            rows[n]["time_of_earlier"] = common.summary(
                [a["step_ms"] / b["step_ms"] for a, b in zip(blocks[n], blocks[before])]
            )
    fp32 = [n for n in rows if n in TORCH and TORCH[n][1] == "fp32"]
    best = min(fp32, key=lambda n: rows[n]["step_ms"]["median"]) if fp32 else None
    for n, row in rows.items():
        if best:  # ratios in the same round; above 1: faster than PyTorch's best
            row["speed_ratio"] = common.summary([b["step_ms"] / a["step_ms"] for a, b in zip(blocks[n], blocks[best])])
            row["throughput_ratio"] = common.summary(
                [a["samples_per_s"] / b["samples_per_s"] for a, b in zip(blocks[n], blocks[best])]
            )
    timed = len(case["rows"]) - case["warm"]
    return {
        "what": cases.CASES[name]["what"],
        "batch": case["batch"],
        "timed_steps": timed,
        "untimed_steps": case["warm"],
        "shapes": case["shapes"],
        "pytorch_best": best,
        "arms": rows,
    }


def print_case(name, result):
    print(f"\n**{result['what']}**, batch {result['batch']}, {result['timed_steps']} steps a block\n")
    print("| | ms a step | IQR | samples/s | speed against PyTorch's best fp32 | least - most | peak memory, MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for n, r in result["arms"].items():
        ms, ratio = r["step_ms"], r.get("speed_ratio")
        against = (
            f"{ratio['median']:.2f} | {min(ratio['values']):.2f} - {max(ratio['values']):.2f}" if ratio else "- | -"
        )
        mark = " (best)" if n == result["pytorch_best"] else ""
        print(
            f"| {n}{mark} | {ms['median']:.3g} | {ms['q1']:.3g} - {ms['q3']:.3g} | {r['samples_per_s']['median']:.0f} "
            f"| {against} "
            f"| {r['peak_bytes'] / (1 << 20):.0f} |"
        )
    for n, r in result["arms"].items():
        if before := r.get("time_of_earlier"):
            print(f"\n{n}: {before['median']:.3f} ({before['q1']:.3f} - {before['q3']:.3f}) of the earlier build's time")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary")
    parser.add_argument("--earlier", help="another build of the program, timed beside it")
    parser.add_argument("--minilm", help="its ONNX file; default: what cmake/fetch_minilm.sh fetches")
    parser.add_argument("--cases", nargs="+", choices=cases.CASES, default=list(cases.CASES))
    parser.add_argument("--arms", nargs="+", choices=[*OURS, *EARLIER, *ORT, *TORCH], help="only these rows of the table")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="timed steps a block; 0: each case's own number")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--processor_time", action="store_true", help="seconds of processor time, not of the clock: for busy machines, with --threads 1"
    )
    parser.add_argument("--max_isa", choices=("avx2",), help="both sides without AVX-512")
    parser.add_argument("--ort_python", help="a Python that has onnxruntime-training (ort_training_worker.py): timed where it runs")
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa", help="PyTorch's attention")
    parser.add_argument("--out", default=str(common.ROOT / "bench" / "results" / "cpu.json"))
    args = parser.parse_args()
    if args.max_isa:  # applies to both sides' processes, but not to MKL, which PyTorch may use
        os.environ |= {"ONNX_AMP_MAX_ISA": "v3", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    args.binary = common.find_binary(args.binary)
    args.minilm = common.find_minilm(args.minilm) if set(cases.SENTENCES) & set(args.cases) else None

    report = {"max_isa": args.max_isa, "processor_time": args.processor_time, "threads": args.threads, "blocks": args.blocks, "attention": args.attention, "cases": {}}
    with common.scratch_dir() as top:
        args.binary = common.pinned(args.binary, top)
        report["machine"] = common.machine_facts(args.binary)
        for name in args.cases:
            with common.scratch_dir() as scratch:
                report["cases"][name] = measure(args, name, Path(scratch))
            report["machine"]["load_average_after"] = os.getloadavg()
            common.write_json(args.out, report)  # keeps the results so far if a later case fails
    for name, result in report["cases"].items():
        print_case(name, result)


if __name__ == "__main__":
    main()
