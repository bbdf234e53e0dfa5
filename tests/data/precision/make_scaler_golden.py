"""Writes scaler_golden.txt: traces of torch.amp.GradScaler, which the loss scaler must reproduce bit for bit.

A line is `init growth backoff interval pattern`, then after each step `scale:tracker` (scale as the hex bits of the float).
"""
import random
import struct

import torch


def trace(init, growth, backoff, interval, pattern):
    scaler = torch.amp.GradScaler("cpu", init_scale=init, growth_factor=growth, backoff_factor=backoff,
                                  growth_interval=interval)
    p = torch.nn.Parameter(torch.ones(1))
    opt = torch.optim.SGD([p], lr=0.0)
    out = []
    for c in pattern:
        scaler.scale(torch.ones(1))  # creates the scale tensor
        p.grad = torch.tensor([{".": 1.0, "i": float("inf"), "n": float("nan")}[c]])
        scaler.step(opt)
        scaler.update()
        state = scaler.state_dict()
        bits = struct.unpack("<I", struct.pack("<f", state["scale"]))[0]
        out.append(f"{bits:08x}:{state['_growth_tracker']}")
    return f"{init!r} {growth!r} {backoff!r} {interval} {pattern} " + " ".join(out)


rng = random.Random(7)
cases = [(16.0, 2.0, 0.5, 3, "...i..n....."), (1.0, 2.0, 0.5, 1, "...."), (100.0, 1.5, 0.25, 2, "..i"),
         (1.0, 2.0, 0.5, 2000, "iiii"), (2.0**-148, 2.0, 0.5, 2000, "iii."), (2.0**127, 2.0, 0.5, 1, "..i..")]
for _ in range(24):
    rate = rng.choice([0.01, 0.1, 0.5])
    pattern = "".join(rng.choice("in") if rng.random() < rate else "." for _ in range(60))
    cases.append((round(rng.uniform(0.5, 70000), 3), round(rng.uniform(1.01, 3), 4), round(rng.uniform(0.1, 0.95), 4),
                  rng.randint(1, 9), pattern))
with open("scaler_golden.txt", "w", encoding="ascii") as f:
    for case in cases:
        f.write(trace(*case) + "\n")
