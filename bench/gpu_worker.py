"""PyTorch's side of gpu.py: one process, one way of running. Reads a word a line: `run` trains over the case's batches from
fresh weights and answers with a line of JSON: seconds a step, losses (at --parity only), peak memory of the device."""

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


class Worker:
    def __init__(self, args):
        self.args = args
        self.gpu = args.device == "cuda"
        data = np.load(f"{args.folder}/train.npz")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
        torch.backends.cudnn.benchmark = True
        self.net = gpu_models.build(args.case).to(args.device).train()
        self.channels_last = args.case == "unet" and self.gpu
        if self.channels_last:
            self.net = self.net.to(memory_format=torch.channels_last)
        x, label = (torch.from_numpy(data[k]).to(args.device) for k in ("x", "label"))
        if self.channels_last:
            x = x.to(memory_format=torch.channels_last)
        b = gpu_models.CASES[args.case]["batch"]
        self.batches = [(x[i : i + b], label[i : i + b]) for i in range(0, len(x), b)]
        self.initial = {k: v.clone() for k, v in self.net.state_dict().items()}
        low = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(args.precision)

        def loss_of(x, label):
            kernel = sdpa_kernel(SDPA[args.sdpa]) if self.gpu and args.sdpa else contextlib.nullcontext()
            with kernel, torch.autocast(args.device, low or torch.bfloat16, enabled=low is not None):
                logits = self.net(x)
            return gpu_models.loss_of(args.case, logits, label)

        mode = None if args.mode == "default" else args.mode
        self.loss_of = loss_of if args.mode == "eager" else torch.compile(loss_of, mode=mode)
        self.run(args.warm)  # compiles and tunes

    def wait(self):
        if self.gpu:
            torch.cuda.synchronize()

    def run(self, steps=None):
        args = self.args
        with torch.no_grad():
            for k, v in self.net.state_dict().items():
                v.copy_(self.initial[k])
        params = list(self.net.parameters())
        groups = [
            {"params": [p for p in params if p.dim() > 1], "weight_decay": args.weight_decay},
            {"params": [p for p in params if p.dim() <= 1], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.999), eps=1e-8, fused=True)
        scaler = torch.amp.GradScaler(args.device, enabled=args.precision == "fp16")
        losses, began = [], 0.0
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
        batches = self.batches[:steps]
        for i, (x, label) in enumerate(batches):
            if i == args.warm:
                self.wait()
                began = time.perf_counter()
            loss = self.loss_of(x, label)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            if args.parity:
                losses.append(loss.item())
        self.wait()
        timed = max(1, len(batches) - args.warm)
        return {
            "step_seconds": (time.perf_counter() - began) / timed,
            "losses": losses,
            "peak": torch.cuda.max_memory_allocated() if self.gpu else 0,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--case", choices=gpu_models.CASES, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precision", choices=("fp32", "fp16", "bf16"), default="fp32")
    parser.add_argument("--mode", choices=("eager", "default", "reduce-overhead", "max-autotune"), default="eager")
    parser.add_argument("--sdpa", choices=SDPA)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--parity", action="store_true")
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--weight_decay", type=float, required=True)
    worker = Worker(parser.parse_args())
    for line in sys.stdin:
        if line.strip() == "run":
            print(json.dumps(worker.run()), flush=True)


if __name__ == "__main__":
    main()
