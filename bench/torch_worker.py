"""PyTorch's side of cpu.py: one process per configuration (eager or compiled, fp32 or bf16
autocast), started once.

`run` (common.serve) trains over the case's batches from the initial weights; the batches are in
memory, so there is no data loading.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

import cases
import common
import torch_minilm


class Worker:
    def __init__(self, args):
        with open(f"{args.folder}/case.json", encoding="utf-8") as f:
            case = json.load(f)
        self.batches = [{k: torch.from_numpy(v) for k, v in b.items()} for b in cases.load_batches(args.folder)]
        self.warm = case["warm"]
        self.clock = time.process_time if args.processor_time else time.perf_counter
        text = case["name"] in cases.SENTENCES
        self.model = (
            torch_minilm.load(args.binary, case["model"], attention=args.attention)
            if text
            else cases.build_net(case["name"], args.attention)
        )
        if text and (head := Path(args.folder, "head.safetensors")).exists():
            self.model.head.load_state_dict(load_file(str(head)))
        self.model.train()
        if args.channels_last:
            self.model.to(memory_format=torch.channels_last)
            for b in self.batches:
                b["x"] = b["x"].contiguous(memory_format=torch.channels_last)
        functional = torch.nn.functional
        of = {"bce_logits": functional.binary_cross_entropy_with_logits, "cross_entropy": functional.cross_entropy}
        loss_function = of[case["loss"]]
        self.initial = {k: v.clone() for k, v in self.model.state_dict().items()}
        model, bf16 = self.model, args.precision == "bf16"

        def loss_of(batch):
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                logits = model(batch["ids"], batch["mask"]) if text else model(batch["x"])
            label = batch["label"]
            if case["loss"] == "cross_entropy" and logits.dim() == 3:  # one label per token
                logits, label = logits.flatten(0, 1), label.flatten()
            return loss_function(logits.float(), label)

        self.loss_of = torch.compile(loss_of, dynamic=True if text else None) if args.compile else loss_of
        self.losses = []
        self.run(self.warm)  # compiles

    def run(self, steps=None):
        self.model.load_state_dict(self.initial)
        optimizer = torch_minilm.adamw(self.model, cases.LR, cases.WEIGHT_DECAY)
        params = list(self.model.parameters())
        seconds = []
        self.losses = []
        last = self.clock()
        for batch in self.batches[:steps]:
            loss = self.loss_of(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            self.losses.append(loss.item())
            now = self.clock()
            seconds.append(now - last)
            last = now
        return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--channels_last", action="store_true")
    parser.add_argument("--processor_time", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    common.serve(Worker(args))


if __name__ == "__main__":
    main()
