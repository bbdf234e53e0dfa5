#!/usr/bin/env python3
"""How much of the gradient all-reduce is hidden by backward? Two processes with one thread each, in
two network namespaces connected by a link of a chosen rate, train MiniLM with and without
overlap, one after the other.

    sudo python3 bench/overlap.py --data SST2_DIR --vocab VOCAB [--rate 8gbit] [--steps 30] [--batch_size 32]
        [--dtypes fp32 bf16] [--binary build/onnx-amp-finetune]

8gbit is 1 ms per MB. Needs root, ip and tc (tbf). Prints the median step time (without the first
third), the seconds of the all-reduce, and the seconds that a rank waited for it after backward;
hidden = 1 - waited with overlap / waited without. --dtypes: element types of the all-reduce
(--grad_reduce_dtype).
"""

import argparse
import statistics
from pathlib import Path

from common import find_binary, find_minilm, pinned, scratch_dir
from slow_link import SlowLink, lines_of, sentences

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True, help="has train.tsv with the columns sentence and label")
parser.add_argument("--vocab", required=True)
parser.add_argument("--model")
parser.add_argument("--rate", default="8gbit")
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--dtypes", nargs="+", default=["fp32"], choices=["fp32", "bf16"])
parser.add_argument("--trace", help="keep the first rank's trace of an overlapped run here (Perfetto)")
parser.add_argument("--binary")
args = parser.parse_args()

def train(link, binary, model, folder, dtype, overlap, round_number):
    out = f"{folder}/{dtype}-{overlap}-{round_number}"
    traced = ["--grad_reduce_trace", args.trace] if args.trace and overlap == "true" else []
    link.train([binary, model, *sentences(args), "--grad_reduce_dtype", dtype, "--overlap_grad_reduce", overlap, "--output_dir", out, *traced])
    lines = lines_of(out, args.steps // 3)
    return {
        "model": Path(f"{out}/model.onnx").read_bytes(),
        "step": [args.batch_size * 2 / line["samples_per_s"] for line in lines],
        "summing": [line["grad_reduce_seconds"] for line in lines],
        "waiting": [line["grad_reduce_wait_seconds"] for line in lines],
    }


def main():
    with SlowLink(2, args.rate) as link, scratch_dir() as folder:
        binary, model = pinned(find_binary(args.binary), folder), find_minilm(args.model)
        arms = [(dtype, overlap) for dtype in args.dtypes for overlap in ("true", "false")]
        told, models = {arm: {} for arm in arms}, {dtype: set() for dtype in args.dtypes}
        for n in range(args.rounds):
            for dtype, overlap in arms:
                one = train(link, binary, model, folder, dtype, overlap, n)
                models[dtype].add(one.pop("model"))
                for key, values in one.items():
                    told[dtype, overlap].setdefault(key, []).extend(values)
    medians = {arm: {k: statistics.median(v) for k, v in of.items()} for arm, of in told.items()}
    for (dtype, overlap), of in medians.items():
        print(f"{dtype}, overlap {overlap:5}: step {1e3 * of['step']:.0f} ms, sums under way {1e3 * of['summing']:.1f} ms, "
              f"waited for {1e3 * of['waiting']:.1f} ms")  # fmt: skip
    for dtype, files in models.items():
        hidden = 1 - medians[dtype, "true"]["waiting"] / medians[dtype, "false"]["waiting"]
        print(f"{dtype}: hidden {hidden:.3f}; the same model: {len(files) == 1}")


if __name__ == "__main__":
    main()
