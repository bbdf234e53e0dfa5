"""LoRA on an int4 language model, compared with PyTorch and PEFT on the dequantized weights: losses, processor time,
memory. Both sides start from the same adapter and read the same batches. A pair of processes, one of each side, runs at
the same time with one thread each, so that other work on the machine slows both. Writes JSON, prints Markdown.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import common

HERE = Path(__file__).resolve().parent
CLOCK = os.sysconf("SC_CLK_TCK")


class Ours:
    """A run of the program. Its processor time after each step is read while it runs."""

    def __init__(self, binary, model, out, flags):
        self.out = Path(out)
        self.log = open(str(out) + ".log", "w", encoding="utf-8")
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        command = [binary, model, *flags, "--threads", "1", "--output_dir", out, "--overwrite"]
        self.process = subprocess.Popen(
            [str(c) for c in command], env=env, stdout=self.log, stderr=subprocess.STDOUT, text=True
        )
        self.begun, self.at, self.resident = time.monotonic(), [], 0

    def poll(self):
        """Records processor time, wall time and resident memory; false when the process has ended."""
        if self.process.poll() is not None:
            return False
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            steps = len((self.out / "metrics.jsonl").read_text().splitlines())
            status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            hwm = [x for x in status if x.startswith("VmHWM")]
        except (OSError, IndexError):
            return True
        cpu = (int(fields[11]) + int(fields[12])) / CLOCK
        while len(self.at) < steps:
            self.at.append((cpu, time.monotonic() - self.begun))
            self.resident = int(hwm[0].split()[1]) * 1024
        return True

    def result(self):
        self.process.wait()
        self.log.close()
        if self.process.returncode != 0:
            raise SystemExit(f"the program failed: {self.log.name}")
        rows = [json.loads(r) for r in (self.out / "metrics.jsonl").read_text().splitlines()]
        rows = [r for r in rows if "loss" in r and "step" in r]
        diffs = lambda i: [b[i] - a[i] for a, b in zip(self.at, self.at[1:])]
        return {
            "losses": [r["loss"] for r in rows],
            "cpu_seconds": diffs(0),
            "seconds": diffs(1),
            "start_cpu_seconds": self.at[0][0],
            "peak_training": self.resident,
        }


def training_flags(args, precision, adapter):
    flags = ["--train", args.chats, "--no_shuffle", "--max_seq_len", args.longest, "--batch_size", args.batch]
    flags += ["--adapter", adapter, "--lora_export", "adapter", "--lr", args.lr, "--lr_scheduler", "constant"]
    flags += ["--warmup_steps", 0, "--max_grad_norm", 1, "--weight_decay", 0, "--max_steps", args.steps]
    return [*flags, "--use_bf16"] if precision == "bf16" else flags


def worker(args, what, *more):
    command = [sys.executable, HERE / "lora_llm_torch.py", what, "--folder", args.folder]
    command += ["--checkpoint", args.checkpoint]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    with open(args.work / f"torch-{what}.log", "a", encoding="utf-8") as log:
        return subprocess.Popen([str(c) for c in (*command, *more)], env=env, stdout=log, stderr=subprocess.STDOUT)


def pair(args, precision, adapter):
    """Runs both sides at the same time. Processor time per token excludes the first step, in which the program
    plans."""
    out = args.work / f"torch-{precision}.json"
    sizes = [a for n in ("longest", "batch", "steps", "lr") for a in ("--" + n, getattr(args, n))]
    more = ["--chats", args.chats, "--adapter", adapter, "--out", out, "--precision", precision, *sizes]
    load = os.getloadavg()[0]
    torch = worker(args, "train", *more)
    ours = Ours(args.binary, args.folder, args.work / f"ours-{precision}", training_flags(args, precision, adapter))
    while ours.poll():
        time.sleep(0.02)
    if torch.wait() != 0:
        raise SystemExit(f"PyTorch failed: {args.work}/torch-train.log")
    ours, torch = ours.result(), json.loads(out.read_text())
    tokens = sum(torch["tokens"][1:])
    row = {"precision": precision, "ours": ours, "torch": torch, "load_average": [load, os.getloadavg()[0]]}
    row["largest_difference"] = max(abs(a - b) for a, b in zip(ours["losses"], torch["losses"], strict=True))
    row["tokens_per_cpu_second"] = [tokens / sum(ours["cpu_seconds"]), tokens / sum(torch["cpu_seconds"][1:])]
    row["speed"] = row["tokens_per_cpu_second"][0] / row["tokens_per_cpu_second"][1]
    return row


def memory(args, adapter):
    """Returns the peak memory of training with 50 lengths of batches, each of which occurs once, and with only the
    longest."""
    import lora_llm_torch

    rows = lora_llm_torch.batches(args.checkpoint, args.chats, 8192, 1, len(args.chats.read_text().splitlines()))
    by_length = {ids.shape[1]: n for n, (ids, _, _) in enumerate(rows)}
    chosen = [by_length[length] for length in sorted(by_length)[: args.lengths]]
    lines, out = args.chats.read_text(encoding="utf-8").splitlines(), {"lengths": sorted(by_length)[: args.lengths]}
    for name, numbers in (("longest", chosen[-1:] * 3), ("all", chosen)):
        file = args.work / f"{name}.jsonl"
        file.write_text("".join(lines[n] + "\n" for n in numbers), encoding="utf-8")
        part = argparse.Namespace(**vars(args) | {"chats": file, "batch": 1, "steps": len(numbers), "longest": 1024})
        flags = [*training_flags(part, "fp32", adapter), "--pad_to_multiple", 1]
        run = Ours(args.binary, args.folder, args.work / f"memory-{name}", flags)
        while run.poll():
            time.sleep(0.02)
        out[name] = run.result()["peak_training"]
        log = Path(run.log.name).read_text().splitlines()
        out[name + "_printed"] = [line for line in log if line.startswith("memory:")]
    out["files"] = sum((args.folder / f).stat().st_size for f in ("model.onnx", "model.onnx.data"))
    return out


def table(report):
    print("| precision | difference of losses | tokens/CPU s | PyTorch + PEFT | speed | peak | PyTorch + PEFT |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for r in report["pairs"]:
        ours, torch = r["tokens_per_cpu_second"]
        peaks = (f"{r[side][key] / 1e9:.2f} GB" for side, key in (("ours", "peak_training"), ("torch", "peak")))
        cells = [r["precision"], f"{r['largest_difference']:.1e}", f"{ours:.0f}", f"{torch:.0f}", f"{r['speed']:.2f}"]
        print("| " + " | ".join([*cells, *peaks]) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary")
    parser.add_argument("--folder", type=Path, required=True, help="int4 folder of models/chat_lora/make_folder.py")
    parser.add_argument("--checkpoint", type=Path, required=True, help="its checkpoint in fp32")
    parser.add_argument("--chats", type=Path, required=True, help="conversations: models/chat_lora/make_chats.py")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="results as JSON")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    for name, value in (("longest", 256), ("batch", 4), ("steps", 20), ("lengths", 50), ("rank", 8)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--lr", type=float, default=1e-4)
    args = parser.parse_args()
    args.binary = common.find_binary(args.binary)
    args.work.mkdir(parents=True, exist_ok=True)
    adapter = args.work / "adapter"
    if not adapter.exists() and worker(args, "adapter", "--adapter", adapter, "--rank", args.rank).wait() != 0:
        raise SystemExit(f"PyTorch failed: {args.work}/torch-adapter.log")
    report = {"date": datetime.date.today().isoformat(), "machine": common.machine_facts(args.binary), "pairs": []}
    report["settings"] = {n: getattr(args, n) for n in ("longest", "batch", "steps", "lengths", "rank", "lr")}
    out = args.out or HERE / "results" / "lora-llm.json"
    for precision in args.precisions:
        report["pairs"].append(pair(args, precision, adapter))
        common.write_json(out, report)
    table(report)
    if args.lengths:
        report["memory"] = memory(args, adapter)
        print(json.dumps(report["memory"]))
    common.write_json(out, report)


if __name__ == "__main__":
    main()
