"""Writes averages.json, in float64: averages of weights that SGD updates with given gradients. The averages are timm's
ModelEmaV3 with use_warmup, torch's AveragedModel as an EMA of every third step, and AveragedModel as stochastic weight
averaging. The file also has weights under torch's OneCycleLR with cycled momentum, and its rates and momenta over 1,000
steps. Made with torch 2.15 and timm 1.0.31."""

import json
import os

import torch
from timm.utils import ModelEmaV3
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

N, STEPS = 7, 40


class Weights(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(values, dtype=torch.float64))


def move(model, opt, grad):
    model.w.grad = torch.tensor(grad, dtype=torch.float64)
    opt.step()


def average(kind, start, grads):
    model = Weights(start)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    if kind == "ema_warmup":
        avg = ModelEmaV3(model, decay=0.9, use_warmup=True)
    elif kind == "ema_every":
        avg = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        avg.update_parameters(model)  # begins as the model
    else:
        avg = AveragedModel(model)
    for t, grad in enumerate(grads, 1):
        move(model, opt, grad)
        if kind == "ema_warmup":
            avg.update(model, step=t)
        elif kind == "ema_every" and t % 3 == 0 or kind == "swa" and t > 10 and (t - 11) % 4 == 0:
            avg.update_parameters(model)
    return avg.module.w.tolist()


CYCLES = [
    ("sgd", dict(), dict()),
    ("sgd", dict(nesterov=True), dict(anneal_strategy="linear", three_phase=True, base_momentum=0.7, max_momentum=0.9)),
    ("adamw", dict(), dict(three_phase=True, pct_start=0.2)),
    ("adam", dict(), dict(anneal_strategy="linear", base_momentum=0.6)),
]


def cycled(rule, options, cycle, start, grads, total):
    model = Weights(start)
    if rule == "sgd":
        opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, **options)
    else:
        opt = dict(adam=torch.optim.Adam, adamw=torch.optim.AdamW)[rule](model.parameters(), lr=0.1, weight_decay=0)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.02, total_steps=total, cycle_momentum=True, **cycle)
    lr, momentum = [], []
    for t in range(total):
        g = opt.param_groups[0]
        lr.append(g["lr"])
        momentum.append(g["betas"][0] if "betas" in g else g["momentum"])
        move(model, opt, grads[t % len(grads)])
        if t + 1 < total:
            sched.step()
    return lr, momentum, model.w.tolist()


def main():
    torch.manual_seed(3)
    start = torch.randn(N, dtype=torch.float64).tolist()
    grads = torch.randn(STEPS, N, dtype=torch.float64).tolist()
    out = dict(start=start, grads=grads, averages={k: average(k, start, grads) for k in ("ema_warmup", "ema_every", "swa")}, cycles=[])
    for rule, options, cycle in CYCLES:
        lr, momentum, _ = cycled(rule, options, cycle, start, grads, 1000)
        after = cycled(rule, options, cycle, start, grads, 50)[2]
        # every seventh of the 1,000, and the last
        keep = list(range(0, 1000, 7)) + [999]
        out["cycles"].append(dict(rule=rule, options=options, cycle=cycle, steps=keep, lr=[lr[i] for i in keep], momentum=[momentum[i] for i in keep], after=after))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "averages.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


main()
