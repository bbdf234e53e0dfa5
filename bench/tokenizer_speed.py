#!/usr/bin/env python3
"""Compares tokenizers with Hugging Face's: equal ids, offsets and type ids of every line, and speed in
processor time on one thread each.

    bench/tokenizer_speed.py --binary build/onnx-amp-finetune --text FILE [--text FILE] TOKENIZER [TOKENIZER ...]

TOKENIZER is a tokenizer.json, or a folder with one next to the files that the program should read
instead (vocab.txt, vocab.json and merges.txt, spiece.model). Needs: pip install tokenizers.
"""
import argparse
import json
import os
import resource
import subprocess
import time

os.environ["RAYON_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402


def run(binary, path, text, *flags):
    """Returns output and processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([binary, "tokenize", "--tokenizer", path, *flags], input=text, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True)
    p.add_argument("--text", action="append", required=True)
    p.add_argument("--show", type=int, default=3)
    p.add_argument("tokenizers", nargs="+")
    a = p.parse_args()
    lines = [line for f in a.text for line in open(f, encoding="utf8", newline="\n").read().split("\n")]
    text = ("\n".join(lines) + "\n").encode()
    print(f"{len(lines)} lines, {len(text) / 2**20:.1f} MiB")
    print("| tokenizer | lines with other ids | with other offsets or types | ours MiB/s | Hugging Face MiB/s |\n|---|---|---|---|---|")
    for path in a.tokenizers:
        reference = Tokenizer.from_file(os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path)
        reference.no_truncation()
        reference.no_padding()
        got = [json.loads(g) for g in run(a.binary, path, text, "--json")[0].decode().split("\n")[:-1]]
        ids = places = 0
        for line, g in zip(lines, got, strict=True):
            e = reference.encode(line)
            if g["ids"] != e.ids:
                ids += 1
                if ids <= a.show:
                    print("    ", repr(line), "\n      ours", g["tokens"], "\n      theirs", e.tokens)
            elif [tuple(o) for o in g["offsets"]] != e.offsets or g["type_ids"] != e.type_ids:
                places += 1
        # Without the startup time, which an empty run measures.
        ours = min(run(a.binary, path, text)[1] for _ in range(3)) - min(run(a.binary, path, b"")[1] for _ in range(3))
        theirs = []
        for _ in range(3):
            fresh = Tokenizer.from_str(reference.to_str())  # its cache is empty, like that of the program
            start = time.process_time()
            for i in range(0, len(lines), 1000):
                fresh.encode_batch_fast(lines[i:i + 1000])
            theirs.append(time.process_time() - start)
        mib = len(text) / 2**20
        print(f"| {os.path.basename(path.rstrip('/'))} | {ids} | {places} | {mib / ours:.1f} | {mib / min(theirs):.1f} |", flush=True)


if __name__ == "__main__":
    main()
