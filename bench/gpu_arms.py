"""The two sides that gpu.py compares, the program and PyTorch's processes, and the folder of a case that both read
(model.onnx and its batches).
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

import common
import gpu_models

LR, WEIGHT_DECAY = 1e-4, 0.01
RECORDED = 3  # runs of a batch shape until both sides replay a recorded graph


def tweet_batches(binary, folder, size, steps):
    """Makes batches grouped by length and padded to the longest row (a multiple of 8). The first batches, which are not
    timed, contain every shape RECORDED times. Also writes all batches as the text file for the program. Returns the
    batches and the number of those that are not timed."""
    rows = common.read_tweets(common.TWEETS / "train.csv")
    lines = "".join(" ".join(text.split()) + "\n" for text, _ in rows)
    words = [binary, "tokenize", "--vocab", common.TWEETS / "vocab.txt", "--max_seq_len", common.MAX_LEN]
    done = subprocess.run([str(w) for w in words], input=lines, capture_output=True, text=True, check=True)
    ids = [[int(t) for t in line.split()] for line in done.stdout.splitlines()]
    if len(ids) != len(rows):
        raise SystemExit(f"{len(rows)} tweets became {len(ids)} lines of tokens")
    labels = sorted({label for _, label in rows})
    order = common.grouped_batches([len(t) for t in ids], size, np.random.default_rng(0))
    timed = [b for b in order if len(b) == size][:steps]
    first = {}
    for b in timed:
        first.setdefault(common.pad([ids[i] for i in b])[0].shape[1], b)
    warm = [first[n] for n in sorted(first, reverse=True) for _ in range(RECORDED)]
    batches = []
    for b in warm + timed:
        x, mask = common.pad([ids[i] for i in b])
        batches.append({"x": x, "mask": mask, "label": np.array([labels.index(rows[i][1]) for i in b])})
    common.write_tweets(folder / "train.csv", [(" ".join(rows[i][0].split()), rows[i][1]) for b in warm + timed for i in b])
    return batches, len(warm)


def prepare(args, name, folder, steps, warm):
    """Writes the case's folder; returns the information that both sides need."""
    case = gpu_models.CASES[name]
    if case.get("text"):
        batches, warm = tweet_batches(args.binary, folder, case["batch"], steps)
        flags = ["--train", folder / "train.csv", "--vocab", common.TWEETS / "vocab.txt", "--text_columns", "text",
                 "--label_column", "sentiment", "--max_seq_len", common.MAX_LEN, "--pad_to_multiple", common.PAD_TO]  # fmt: skip
    else:
        batches = gpu_models.make_batches(name, warm + steps)
        joined = {k: np.concatenate([b[k] for b in batches]) for k in batches[0]}
        np.savez(folder / "train.npz", **joined)
        flags = ["--train", folder / "train.npz", "--loss", "bce" if name == "unet" else "cross_entropy"]
    np.savez(folder / "batches.npz", **{f"{i}.{k}": v for i, b in enumerate(batches) for k, v in b.items()})
    gpu_models.export(name, folder / "model.onnx", batches[0])
    timed = batches[warm:]
    return {
        "folder": folder,
        "flags": [*flags, *case.get("flags", [])],
        "warm": warm,
        "steps": len(timed),
        "tokens": sum(int(b["mask"].sum()) for b in timed if "mask" in b),  # padding is not counted
        "padded": sum(b["mask"].size for b in timed if "mask" in b),
    }


def training_words(args, name, case, out, dropout=0):
    """Returns the program's arguments for a case, without its precision."""
    return [
        case["folder"] / "model.onnx", *case["flags"], "--device", args.device,
        "--batch_size", gpu_models.CASES[name]["batch"], "--no_shuffle", "--epochs", 1, "--optimizer", "adamw", "--lr", LR,
        "--lr_scheduler", "constant", "--weight_decay", WEIGHT_DECAY, "--max_grad_norm", 1, "--dropout", dropout,
        "--no_verify_export", "--output_dir", out, "--overwrite", "--quiet",
    ]  # fmt: skip


class Ours:
    """Starts a new process per block. The times between steps, including data loading, are from metrics.jsonl."""

    def __init__(self, args, name, case, precision):
        self.args, self.name, self.case = args, name, case
        self.flags = [] if precision == "fp32" else [f"--use_{precision}"]
        if args.device == "cuda" and precision == "fp32" and not args.strict_fp32:
            self.flags.append("--tf32")

    def run(self, *more):
        folder = self.case["folder"]
        batch, out = gpu_models.CASES[self.name]["batch"], folder / "run"
        common.run_ours(self.args.binary, *training_words(self.args, self.name, self.case, out), *self.flags, *more)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        run = json.loads((out / "run.json").read_text())
        seconds = [batch / line["samples_per_s"] for line in lines[self.case["warm"] :]]
        return {
            "step_seconds": statistics.fmean(seconds) if seconds else None,
            "losses": [line["loss"] for line in lines],
            "skipped": sum(bool(line.get("skipped")) for line in lines),
            "peak": run.get("device_memory", {}).get("peak_memory_bytes", 0),
            "library_bytes": run.get("device_memory", {}).get("library_bytes", 0),
            "first_step_seconds": run["timing"]["first_step_seconds"],
            "update": run.get("update_profile"),
        }

    def close(self):
        pass


class Torch:
    """Uses one process for all blocks, so that compiled code is reused. The process starts at once; ready() waits until
    it has warmed up."""

    def __init__(self, args, name, case, precision, mode, sdpa, parity=0):
        folder = case["folder"]
        self.log = open(folder / f"torch-{precision}-{mode}-{sdpa}.log", "w+", encoding="utf-8")
        words = ["--folder", folder, "--case", name, "--device", args.device, "--precision", precision, "--mode", mode,
                 "--warm", case["warm"], "--lr", LR, "--weight_decay", WEIGHT_DECAY]  # fmt: skip
        words += ["--sdpa", sdpa] if sdpa else []
        words += ["--parity", parity] if parity else []
        words += ["--tiny"] if args.tiny else []
        words += ["--tf32"] if precision == "fp32" and not parity and not args.strict_fp32 else []
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("gpu_worker.py"), *map(str, words)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )  # fmt: skip
        self.first = None

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise RuntimeError(self.log.read()[-2000:])
        return json.loads(line)

    def ready(self):
        if self.first is None:
            self.first = self.answer()
        return self.first["first_step_seconds"]

    def run(self, word="run"):
        self.ready()
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self, now=False):
        if now:
            self.process.kill()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()
        self.log.close()
