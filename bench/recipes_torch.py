"""PyTorch's side of recipes.py: one run of one job in a separate process. Reads a JSON file
(--spec), prints a line of JSON: metrics before, after each epoch and at the end, seconds of
training, the process's CPU seconds and peak memory.

Metrics are computed as often as by the program: before training and after each epoch. bf16 is
torch.autocast on the CPU.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch

import common
import recipes_torch_jobs as jobs
import torch_minilm


def optimizer_of(model, c):
    rule, lr, decay = c.get("optimizer", "adamw"), c["lr"], c.get("weight_decay", 0)
    if rule == "sgd":
        return torch.optim.SGD(model.parameters(), lr=lr, momentum=c.get("momentum", 0), weight_decay=decay)
    if rule == "adam":
        return torch.optim.Adam(model.parameters(), lr=lr, weight_decay=decay, fused=True)
    return torch_minilm.adamw(model, lr, decay)


def schedule_of(optimizer, c, total):
    kind = c.get("lr_scheduler", "linear")
    if kind == "constant":
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1.0)
    if kind == "one_cycle":
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, c["lr"], total_steps=total, cycle_momentum=False)
    return torch_minilm.linear_schedule(optimizer, c.get("warmup_steps", 0), total)


def train(job, spec):
    c, rng = spec["config"], np.random.default_rng(spec["seed"])
    epochs = [job.batches(rng) for _ in range(c["epochs"])]
    total, model, clip = sum(map(len, epochs)), job.model, c.get("max_grad_norm", 1)
    optimizer = optimizer_of(model, c)
    schedule, bf16 = schedule_of(optimizer, c, total), spec["precision"] == "bf16"

    def score():
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            scores.append(job.score())
        model.train()

    scores, seconds, cpu, losses = [], 0.0, 0.0, []
    score()
    for batches in epochs:
        began, cpu_began = time.monotonic(), time.process_time()
        for rows in batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss = job.loss(rows)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if clip > 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        seconds += time.monotonic() - began
        cpu += time.process_time() - cpu_began
        score()
    return {"steps": total, "metrics": scores[-1], "by_epoch": scores, "seconds": seconds, "training_cpu_seconds": cpu,
            "last_loss": math.fsum(losses[-20:]) / len(losses[-20:])}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=Path, required=True)
    spec = json.loads(parser.parse_args().spec.read_text())
    imported = time.process_time()
    torch.manual_seed(spec["seed"])
    torch.set_num_threads(spec["threads"])
    torch.set_num_interop_threads(1)
    result = train(jobs.JOBS[spec["job"]](spec), spec)
    print(json.dumps(result | {"import_cpu_seconds": imported, "peak_bytes": common.peak_bytes()}))


if __name__ == "__main__":
    main()
