"""PyTorch's side of gpu.py: one process per configuration. Prints a line of JSON when it has
compiled and warmed up, then reads one word per line. `run` trains over the case's batches from
the initial weights and answers with a line: seconds per step, losses (only with --parity), peak
device memory. `update` times only unscaling, clipping and the optimizer.
"""

import argparse
import contextlib
import json
import sys
import time

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import gpu_models

SDPA = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


def load_batches(folder):
    data = np.load(f"{folder}/batches.npz")
    batches = [{} for _ in range(1 + max(int(k.split(".")[0]) for k in data.files))]
    for key in data.files:
        index, name = key.split(".")
        batches[int(index)][name] = torch.from_numpy(data[key])
    return batches


class Worker:
    def __init__(self, args):
        began = time.perf_counter()
        self.args = args
        self.gpu = args.device == "cuda"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
        torch.backends.cudnn.benchmark = True
        self.net = gpu_models.build(args.case).to(args.device).train()
        channels_last = args.case == "unet" and self.gpu
        if channels_last:
            self.net = self.net.to(memory_format=torch.channels_last)
        self.batches = []
        for batch in load_batches(args.folder):
            x = [v.to(args.device) for v in gpu_models.inputs_of(batch)]
            if channels_last:
                x = [v.to(memory_format=torch.channels_last) for v in x]
            self.batches.append((x, batch["label"].to(args.device)))
        self.initial = {k: v.clone() for k, v in self.net.state_dict().items()}
        low = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(args.precision)

        def loss_of(label, *x):
            with torch.autocast(args.device, low or torch.bfloat16, enabled=low is not None):
                logits = self.net(*x)
            return gpu_models.loss_of(args.case, logits, label)

        mode = None if args.mode == "default" else args.mode
        shapes = True if len({tuple(x[0].shape) for x, _ in self.batches}) > 1 else None
        self.loss_of = loss_of if args.mode == "eager" else torch.compile(loss_of, mode=mode, dynamic=shapes)
        self.run(1)
        self.first_step_seconds = time.perf_counter() - began
        self.run(args.warm)  # compiles and tunes

    def attention(self):
        return sdpa_kernel(SDPA[self.args.sdpa]) if self.args.sdpa else contextlib.nullcontext()

    def wait(self):
        if self.gpu:
            torch.cuda.synchronize()

    def start(self, lr):
        """Restores the initial weights, and makes a new optimizer and scaler."""
        args = self.args
        with torch.no_grad():
            for k, v in self.net.state_dict().items():
                v.copy_(self.initial[k])
        self.params = list(self.net.parameters())
        groups = [
            {"params": [p for p in self.params if p.dim() > 1], "weight_decay": args.weight_decay},
            {"params": [p for p in self.params if p.dim() <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.999), eps=1e-8, fused=True)
        self.scaler = torch.amp.GradScaler(args.device, enabled=args.precision == "fp16")

    def backward(self, batch):
        x, label = batch
        with self.attention():
            loss = self.loss_of(label, *x)
            self.scaler.scale(loss).backward()
        return loss

    def update(self):
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def run(self, steps=None):
        args = self.args
        self.start(args.lr)
        losses, began = [], time.perf_counter()
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
        batches = self.batches[:steps]
        for i, batch in enumerate(batches):
            if i == args.warm:
                self.wait()
                began = time.perf_counter()
            loss = self.backward(batch)
            self.update()
            self.optimizer.zero_grad(set_to_none=True)
            if args.parity:
                losses.append(loss.item())
        self.wait()
        timed = max(1, len(batches) - args.warm)
        return {
            "step_seconds": (time.perf_counter() - began) / timed,
            "losses": losses,
            "peak": torch.cuda.max_memory_allocated() if self.gpu else 0,
        }

    def time_update(self, repeats=30):
        self.start(0.0)
        self.backward(self.batches[0])
        for i in range(repeats + 3):
            if i == 3:
                self.wait()
                began = time.perf_counter()
            self.update()
        self.wait()
        return {"seconds": (time.perf_counter() - began) / repeats}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--case", choices=gpu_models.CASES, required=True)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precision", choices=("fp32", "fp16", "bf16"), default="fp32")
    parser.add_argument("--mode", choices=("eager", "default", "reduce-overhead", "max-autotune"), default="eager")
    parser.add_argument("--sdpa", choices=SDPA)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--parity", type=int, default=0, help="steps of a run, each with its loss")
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--weight_decay", type=float, required=True)
    args = parser.parse_args()
    if args.tiny:
        gpu_models.shrink()
    worker = Worker(args)
    print(json.dumps({"first_step_seconds": worker.first_step_seconds}), flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word:
            answer = worker.run(args.parity or None) if word == "run" else worker.time_update()
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
