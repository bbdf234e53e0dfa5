#!/usr/bin/env python3
"""Compares the peak memory that --dry_run prints with the peak resident memory of the run (getrusage).

  tests/memory/test.py --binary PROGRAM

The models have 24 million weights and logits of 33 MB per batch, so the phases need four times as much memory as the
program itself. The estimate must not be below the peak by more than LOW of it: the program's own memory differs by a few
MB between machines (libraries, stacks of threads, pages that malloc keeps). It must not be above it by more than HIGH."""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = {"vocab_size": 16000, "n_embd": 512, "n_layer": 4, "n_head": 8, "n_positions": 128}
OWN = 45_000_000  # of the program itself, as --dry_run says
LOW, HIGH = 0.05, 0.15
RUNS = {
    "all weights": [],
    "LoRA": ["--lora", "r=4"],
    "LoRA in float16": ["--lora", "r=4", "--use_fp16"],
    "bfloat16 with accumulation": ["--use_bf16", "--gradient_accumulation_steps", "2"],
    "moving average and checkpoints": ["--ema_decay", "0.9", "--save_steps", "1"],
    "larger batches for evaluation": ["--lora", "r=4", "--val", "texts.jsonl", "--eval_batch_size", "8"],
}


class Memory(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "texts.jsonl").write_text(
            "\n".join(json.dumps({"text": f"the city of {i} and the river in the south " * 30}) for i in range(8)) + "\n")
        (self.folder / "model").mkdir()
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (self.folder / "model" / file).symlink_to(ROOT / "tests/data/llm/llama-int4" / file)
        self.run_program(["create", "gpt2", "--out", "model/model.onnx", "--model_head", "causal_lm", "--model_config",
                          json.dumps(CONFIG)])  # fmt: skip

    def run_program(self, arguments):
        """Returns what the program printed, and the bytes of its peak resident memory."""
        with open(self.folder / "said", "w+") as said:
            process = subprocess.Popen([BINARY, *arguments], cwd=self.folder, stdout=said, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            text = said.read()
        self.assertEqual(process.returncode, 0, text)
        return text, usage.ru_maxrss * 1024

    def test_estimates_of_the_peak(self):
        for name, more in RUNS.items():
            with self.subTest(name):
                run = ["model", "--train", "texts.jsonl", "--text_columns", "text", "--task", "causal_lm", "--max_seq_len",
                       "128", "--batch_size", "4", "--max_steps", "2", "--threads", "1", "--output_dir", "run",
                       "--overwrite", *more]  # fmt: skip
                estimated, _ = self.run_program([*run, "--dry_run"])
                bill = OWN + int(re.search(r"the run's peak: ([\d,]+) B", estimated)[1].replace(",", ""))
                _, peak = self.run_program(run)
                print(f"{name}: estimated {bill / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB, ratio {bill / peak:.3f}")
                self.assertGreater(bill, (1 - LOW) * peak, estimated)
                self.assertLess(bill, (1 + HIGH) * peak, estimated)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    BINARY = str(pathlib.Path(parser.parse_args().binary).resolve())
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > 4 * OWN:
        sys.exit("this process is too large: a child's peak begins with its parent's")
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main(argv=sys.argv[:1])
