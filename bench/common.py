"""Common functions of the measurements: running the program, tweets as token ids, statistics,
information about the machine.
"""

import csv
import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TWEETS = ROOT / "models" / "tweet_sentiment"
PAD_TO = 8
MAX_LEN = 128


def prose(text, bullet=""):
    """Returns a paragraph or bullet of a Markdown page, wrapped at 100 columns, as a list of lines."""
    indent = " " * len(bullet)
    return textwrap.wrap(bullet + text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def find_binary(given):
    path = Path(given) if given else ROOT / "build" / "onnx-amp-finetune"
    if not path.is_file():
        raise SystemExit(
            f"{path} is missing: build it (cmake --build build --target onnx-amp-finetune) or give --binary"
        )
    return path.resolve()


def find_minilm(given):
    if given:
        return Path(given).resolve()
    out = subprocess.run([ROOT / "cmake" / "fetch_minilm.sh"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(out.stdout.split()[-1])


def pinned(binary, folder):
    """Returns a copy of the program, so that a build in the meantime does not change the measured binary."""
    return Path(shutil.copy2(binary, Path(folder) / "onnx-amp-finetune"))


def run_ours(binary, *args):
    """Runs the program and returns its stdout. A failure prints its output."""
    done = subprocess.run([str(binary), *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(done.args)}\nended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def scratch_dir():
    """Returns a temporary folder, in memory if possible, so that checkpoints of one side do not disturb the other's
    timing."""
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 4 << 30
    return tempfile.TemporaryDirectory(prefix="amp-bench-", dir=shm if roomy else None)


# --- tweets ---------------------------------------------------------------------------------------------------------


def read_tweets(path, limit=0):
    with open(path, newline="", encoding="utf-8") as f:
        rows = [(r["text"], r["sentiment"]) for r in csv.DictReader(f)]
    return rows[:limit] if limit else rows


def write_tweets(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f)
        writer.writerow(["text", "sentiment"])
        writer.writerows(rows)


def tokenize(texts):
    """Returns token ids of each text with special tokens, truncated to MAX_LEN, by Hugging Face's tokenizer with the
    program's vocabulary."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers import BertTokenizerFast

    tokenizer = BertTokenizerFast(vocab=str(TWEETS / "vocab.txt"), do_lower_case=True)
    return tokenizer(list(texts), truncation=True, max_length=MAX_LEN)["input_ids"]


def pad(rows):
    """Returns input_ids and attention_mask, int64 [B, S]. S is the length of the longest row, rounded up to PAD_TO."""
    import numpy as np

    longest = max(len(r) for r in rows)
    length = min(MAX_LEN, (longest + PAD_TO - 1) // PAD_TO * PAD_TO)
    ids = np.zeros((len(rows), length), np.int64)
    mask = np.zeros((len(rows), length), np.int64)
    for i, r in enumerate(rows):
        ids[i, : len(r)] = r
        mask[i, : len(r)] = 1
    return ids, mask


def grouped_batches(lengths, batch_size, rng, chunk_batches=50):
    """Returns row numbers of each batch, grouped as in the program: shuffle, sort within chunks, shuffle the
    batches."""
    import numpy as np

    order = rng.permutation(len(lengths))
    lengths = np.asarray(lengths)
    chunk = batch_size * chunk_batches
    order = np.concatenate(
        [part[np.argsort(-lengths[part], kind="stable")] for part in np.split(order, range(chunk, len(order), chunk))]
    )
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    full = batches if len(batches[-1]) == batch_size else batches[:-1]
    return [full[i] for i in rng.permutation(len(full))] + batches[len(full) :]


# --- statistics -----------------------------------------------------------------------------------------------------


def summary(values):
    """Returns the median and interquartile range of a few numbers."""
    values = sorted(values)
    if len(values) < 2:
        return {"median": values[0], "q1": values[0], "q3": values[0], "values": values}
    q1, _, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": statistics.median(values), "q1": q1, "q3": q3, "values": values}


def peak_bytes():
    """Returns the peak resident memory of this process (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def serve(worker):
    """Answers each line `run` on standard input with a line of JSON, until it is closed: seconds of every step of
    worker.run(), worker.losses, and the process's peak memory."""
    for line in sys.stdin:
        if line.strip() == "run":
            seconds = worker.run()
            print(json.dumps({"seconds": seconds, "losses": worker.losses, "peak": peak_bytes()}), flush=True)


# --- facts ----------------------------------------------------------------------------------------------------------


def machine_facts(binary):
    from importlib import metadata

    info = Path("/proc/cpuinfo").read_text().splitlines()
    first = {}
    for line in info:
        key, _, value = line.partition(":")
        first.setdefault(key.strip(), value.strip())
    flags = first.get("flags", "").split()
    of_interest = [f for f in flags if f.startswith(("avx", "amx", "fma", "f16c"))]
    git = lambda *a: subprocess.run(["git", "-C", str(ROOT), *a], capture_output=True, text=True).stdout.strip()
    memory = next(
        int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")
    )
    return {
        "cpu": first.get("model name", platform.machine()),
        "cpu_family_model": [first.get("cpu family"), first.get("model")],
        "cores": os.cpu_count(),
        "flags": of_interest,
        "memory_gib": round(memory / (1 << 20), 1),
        "load_average": os.getloadavg(),
        "versions": {p: metadata.version(p) for p in ("torch", "transformers", "onnx", "onnxruntime", "numpy")}
        | {"python": platform.python_version(), "linux": platform.release().split("-")[0]},
        "program": run_ours(binary, "version").strip(),
        "program_sha256": hashlib.sha256(Path(binary).read_bytes()).hexdigest(),
        "commit": git("rev-parse", "--short", "HEAD"),
        "uncommitted_changes": bool(git("status", "--porcelain", "--untracked-files=no")),
    }


def write_json(path, value):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(path.name + ".part")  # a partial write does not destroy the results of earlier runs
    whole.write_text(json.dumps(value, indent=1) + "\n")
    whole.replace(path)
