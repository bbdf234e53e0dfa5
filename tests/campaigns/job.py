"""The job that campaigns disturb, and how they start the program.

A BERT of 80 kB with all kinds of state that a checkpoint holds: fp16 with loss scaling (the scale grows every 5 clean
steps, overflows are injected), AdamW, an average of the weights, accumulation over 2 batches, dropout, shuffling,
evaluation with the best checkpoint kept. One thread, so that processes do not disturb each other.
"""
import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXIT_CODES = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 75}  # docs/resume_and_ci.md, but for 1 and those of signals
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("ONNX_AMP_")}
ENVIRONMENT.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", GOMP_SPINCOUNT="0")
LIMIT_S = 900  # a process that runs longer hangs


class Program:
    """The program under test."""

    def __init__(self, path):
        self.path = str(path)

    def start(self, words, folder, prefix=(), env=None, **more):
        """Starts the program; its stderr is a pipe, its standard output is dropped."""
        more = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen([*map(str, prefix), self.path, *map(str, words)], cwd=folder,
                                env={**ENVIRONMENT, **(env or {})}, text=True, errors="replace", **more)

    def run(self, words, folder, prefix=(), env=None, **more):
        """Runs the program to its end and returns the process with its text in stderr."""
        process = self.start(words, folder, prefix, env, **more)
        finish(process)
        return process

    def succeed(self, words, folder, **more):
        """Runs the program, which must end with exit code 0."""
        done = self.run(words, folder, **more)
        if done.returncode:
            raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stderr[-600:]}")
        return done


def finish(process):
    """Waits for the end and replaces the pipe in process.stderr by its text."""
    try:
        text = process.communicate(timeout=LIMIT_S)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        text = process.communicate()[1] + f"\nkilled: it ran longer than {LIMIT_S} s"
    process.stderr = text or ""


def timed(work):
    """Calls a function and returns the seconds that it took."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def error_of(process):
    """Returns the JSON line of an error, or {} if there is none."""
    for line in reversed(process.stderr.strip().splitlines()):
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and "id" in said:
            return said
    return {}


def wrong_end(process, silent=False):
    """Returns problems of how a process ended: a signal, an exit code that is not documented, an error without its
    line. A `silent` process could not write its line."""
    code = process.returncode
    if code not in EXIT_CODES:
        return [f"exit {code}: {process.stderr[-300:]}"]
    if code and not silent and not error_of(process):
        return [f"exit {code} without a JSON line: {process.stderr[-300:]}"]
    return []


def write_materials(folder, rows=48):
    """Writes the model, a vocabulary and two tables into a folder."""
    shutil.copy(ROOT / "tests/data/surgery/bert.onnx", folder / "bert.onnx")
    words = ["good", "bad", "film", "a", "the", *(f"w{i}" for i in range(40))]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join(special + words) + "\n")
    source = random.Random(7)
    for name, count in (("t.csv", rows), ("v.csv", max(12, rows // 4))):
        lines = ["text,sentiment"]
        for _ in range(count):
            label, word = source.choice([("pos", "good"), ("neg", "bad"), ("so", "film")])
            text = [word, *source.choices(words, k=source.randrange(2, 8))]
            source.shuffle(text)
            lines.append(" ".join(text) + "," + label)
        (folder / name).write_text("\n".join(lines) + "\n")


def job(out="run", *more, steps=40, save=3, evaluate=4, keep=2, model="bert.onnx", train="t.csv", val="v.csv"):
    """Returns the words of the job's command."""
    return [model, "--train", train, "--val", val, "--vocab", "vocab.txt", "--text_columns", "text",
            "--label_column", "sentiment", "--num_labels", "3", "--batch_size", "4", "--threads", "1",
            "--gradient_accumulation_steps", "2", "--use_fp16", "--ema_decay", "0.9", "--dropout", "0.1",
            "--scale_growth_interval", "5", "--init_loss_scale", "1024", "--inject_overflow", "7,8,19",
            "--lr", "3e-3", "--warmup_steps", "3", "--seed", "5", "--export_weights", "ema",
            "--metric_for_best_model", "accuracy", "--max_steps", steps, "--save_steps", save,
            "--eval_steps", evaluate, "--save_total_limit", keep, "--quiet", "--output_dir", out, *more]


RESUME = ["--resume", "auto"]
OVERWRITE = ["--overwrite"]
STOP_EARLY = ["--max_minutes", "0.00001"]  # ends with exit code 75 after the first step
OTHER_RATE = ["--lr", "1e-3"]  # flags of the older run, which is then replaced
LARGER = "larger.onnx"  # a model of 14 MB, whose files take longer to write
CREATE_LARGER = ["create", "bert", "--model_head", "none", "--out", LARGER, "--model_config", json.dumps({
    "hidden_size": 128, "num_hidden_layers": 4, "intermediate_size": 512, "num_attention_heads": 2,
    "vocab_size": 20_000})]
