"""A BERT with the shape of MiniLM-L6 on tweets: step time of fp32, bf16 and fp16, activation memory
under O1 and O2.

transformers exports the model (6 layers of 384, 12 heads, random weights). Blocks of runs are
interleaved, each in a new process; a block's time is the median of its counted steps. The JSON
contains all blocks, and the ratios of medians within each round and of the fastest blocks. Prints
Markdown.
"""

import argparse
import json
import re
import subprocess
from pathlib import Path

import common

ARMS = {
    "fp32": [],
    "bf16, O1": ["--use_bf16"],
    "bf16, O2": ["--use_bf16", "--amp_level", "O2"],
    "fp16, O1": ["--use_fp16"],
}
WARM = 6  # uncounted steps per block


def export(path):
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536, "num_labels": 3}
    model = BertForSequenceClassification(BertConfig(**shape, attn_implementation="eager")).eval()

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).logits

    ids, names = torch.ones(2, 16, dtype=torch.long), ["input_ids", "attention_mask"]
    axes = {n: {0: "batch", 1: "sequence"} for n in names} | {"logits": {0: "batch"}}
    torch.onnx.export(Logits(), (ids, ids), str(path), input_names=names, output_names=["logits"], dynamic_axes=axes,
                      opset_version=17, dynamo=False)  # fmt: skip


def block(args, model, flags, out, steps):
    """Returns seconds of each counted step, and the planned bytes of activations as the program reports them."""
    done = subprocess.run(
        [args.binary, model, *flags, "--train", common.TWEETS / "train.csv", "--vocab", common.TWEETS / "vocab.txt",
         "--text_columns", "text", "--label_column", "sentiment", "--batch_size", "32", "--lr", "1e-4", "--dropout", "0",
         "--max_steps", str(steps + WARM), "--threads", str(args.threads), "--output_dir", out, "--overwrite", "--no_verify_export"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    activations = int(re.search(r"activations ([\d,]+) B", done.stderr)[1].replace(",", ""))
    return [32 / line["samples_per_s"] for line in lines[WARM:]], activations


def page(report):
    arms, fp32 = report["arms"], report["arms"]["fp32"]
    lines = ["| | ms a step, least block | median of blocks | faster than fp32: least, median (range) of rounds | activations, MB | of fp32's |",
             "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for name, a in arms.items():
        r = a["speedup"]
        lines.append(f"| {name} | {1e3 * min(a['blocks']):.0f} | {1e3 * common.summary(a['blocks'])['median']:.0f} | {a['speedup_of_least']:.2f}, "
                     f"{r['median']:.2f} ({min(r['values']):.2f} - {max(r['values']):.2f}) | {a['activation_bytes'] / 1e6:.0f} | "
                     f"{100 * a['activation_bytes'] / fp32['activation_bytes']:.0f} % |")  # fmt: skip
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="default: build/onnx-amp-finetune")
    parser.add_argument("--model", type=Path, help="an earlier export")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--out", default=str(common.ROOT / "bench" / "results" / "bf16_l6.json"))
    args = parser.parse_args()
    with common.scratch_dir() as scratch:
        folder = Path(scratch)
        args.binary = common.pinned(common.find_binary(args.binary), folder)
        model = args.model or folder / "model.onnx"
        if not args.model:
            export(model)
        report = {"steps": args.steps, "threads": args.threads, "machine": common.machine_facts(args.binary)}
        arms = report["arms"] = {n: {"blocks": []} for n in ["fp32", *(a for a in args.arms if a != "fp32")]}
        for k in range(args.blocks):
            for name in list(arms)[:: 1 if k % 2 == 0 else -1]:
                seconds, arms[name]["activation_bytes"] = block(args, model, ARMS[name], folder / "run", args.steps)
                arms[name]["blocks"].append(common.summary(seconds)["median"])
                print(f"block {k} {name}: {1e3 * arms[name]['blocks'][-1]:.0f} ms", flush=True)
    for a in arms.values():
        a["speedup"] = common.summary([x / y for x, y in zip(arms["fp32"]["blocks"], a["blocks"])])
        a["speedup_of_least"] = min(arms["fp32"]["blocks"]) / min(a["blocks"])
    common.write_json(args.out, report)
    print(page(report))


if __name__ == "__main__":
    main()
