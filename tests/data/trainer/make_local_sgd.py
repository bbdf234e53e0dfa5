"""Writes local_sgd.json: local SGD (Stich 2019, arXiv:1805.09767) by torch in float64. Each of two ranks has a replica and an
optimizer, and takes steps on its own rows. After every K-th step and at the end of each epoch, the parameters of both ranks
become their mean; moments do not change. Needs torch.
"""

import json
import os

import torch

RANKS, BATCH, WINDOWS, EPOCHS, K = 2, 4, 5, 3, 2  # an epoch is WINDOWS steps of RANKS * BATCH rows: no multiple of K
DECAY = 0.9
CASES = {
    "sgd_momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 0),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1), 0),
    "adamw_clip": (lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1), 0.5),
}

torch.manual_seed(7)
rows = RANKS * BATCH * WINDOWS
numbers = lambda *shape: torch.randn(*shape).double()
x, label = numbers(rows, 6), torch.randint(0, 3, (rows,))
label[::7] = -100  # so that ranks have unequal numbers of items
start = {"w1": numbers(6, 16) * 0.5, "b1": numbers(16) * 0.1, "w2": numbers(16, 3) * 0.5}


def train(make, clip):
    replicas = [{n: p.clone().requires_grad_() for n, p in start.items()} for _ in range(RANKS)]
    averages = [{n: p.clone() for n, p in start.items()} for _ in range(RANKS)]
    # Biases have no weight decay by default.
    optimizers = []
    for r in replicas:
        o = make([{"params": [r["w1"], r["w2"]]}, {"params": [r["b1"]], "weight_decay": 0}])
        optimizers.append(o)
    losses = []
    for step in range(WINDOWS * EPOCHS):
        window = step % WINDOWS
        total = items = 0
        for rank in range(RANKS):
            begin = (window * RANKS + rank) * BATCH
            mine, wanted = x[begin : begin + BATCH], label[begin : begin + BATCH]
            p = replicas[rank]
            y = torch.tanh(mine @ p["w1"] + p["b1"]) @ p["w2"]
            sums = torch.nn.functional.cross_entropy(y, wanted, reduction="sum", ignore_index=-100)
            count = int((wanted != -100).sum())
            total, items = total + float(sums.detach()), items + count
            optimizers[rank].zero_grad()
            (sums / count).backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(list(p.values()), clip)
            optimizers[rank].step()
            for n, a in averages[rank].items():
                a.mul_(DECAY).add_(p[n].detach(), alpha=1 - DECAY)
        losses.append(total / items)
        if (step + 1) % K == 0 or window + 1 == WINDOWS:
            with torch.no_grad():
                for n in start:
                    mean = sum(r[n] for r in replicas) / RANKS
                    for r in replicas:
                        r[n].copy_(mean)
    return {
        "losses": losses,
        "params": {n: replicas[0][n].detach().flatten().tolist() for n in start},
        "ema": {n: (sum(a[n] for a in averages) / RANKS).flatten().tolist() for n in start},
    }


out = {
    "x": x.flatten().tolist(),
    "label": label.tolist(),
    "start": {n: p.flatten().tolist() for n, p in start.items()},
    "runs": {name: train(make, clip) for name, (make, clip) in CASES.items()},
}


def shortened(v):
    if isinstance(v, dict):
        return {k: shortened(e) for k, e in v.items()}
    if isinstance(v, list):
        return [shortened(e) for e in v]
    return float(f"{v:.10g}") if isinstance(v, float) else v


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "local_sgd.json"), "w") as f:
    json.dump(shortened(out), f)
