"""Writes optimizer_8bit.json: bitsandbytes' AdamW8bit and Lion8bit on the CPU, 50 steps, and its maps. Gradients and initial
weights are formulas, because 8-bit states need large tensors (4096 elements). Codes are the nearest ones, as bitsandbytes
uses on a GPU. (For float32 on a CPU it looks codes up, and uses others below 1e-4 of the largest magnitude.) Needs torch and
bitsandbytes.
"""

import json
import os
from importlib.metadata import version
from unittest import mock

import bitsandbytes as bnb
import bitsandbytes.functional as F
import numpy as np
import torch

SHAPES = {"large.weight": [79, 71], "small.weight": [13, 31]}  # the large one ends within a block
STEPS, KEPT = 50, 16  # every 16th element
CASES = {
    "adamw": ("AdamW8bit", dict(lr=1e-2, weight_decay=0.1)),
    "adamw_settings": ("AdamW8bit", dict(lr=1e-2, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.0)),
    "lion": ("Lion8bit", dict(lr=1e-3, weight_decay=0.1)),
}


def exact(x, code, largest, out, block):
    codes, most = torch.ops.bitsandbytes.quantize_blockwise(x.double(), code, block)
    out.copy_(codes)
    largest.copy_(most)


def numbers(shape, seed):
    """Returns numbers in [-1, 1] of many magnitudes: the third powers of evenly spaced numbers."""
    i = np.arange(1, int(np.prod(shape)) + 1, dtype=np.int64)
    x = ((7919 * i + 104729 * seed) % 10007).astype(np.float64) / 5003 - 1
    return torch.from_numpy((x * x * x).astype(np.float32).reshape(shape))


def run(kind, options):
    params = {n: torch.nn.Parameter(numbers(s, k)) for k, (n, s) in enumerate(SHAPES.items())}
    opt = getattr(bnb.optim, kind)(list(params.values()), **options)
    for step in range(STEPS):
        for k, (n, p) in enumerate(params.items()):
            p.grad = numbers(SHAPES[n], 10 + 2 * step + k) * 0.5
        with mock.patch("bitsandbytes.backends.cpu.ops._quant_blockwise_fp32_direct", exact):
            opt.step()
    kept = {n: [float(f"{x:.9g}") for x in p.detach().flatten()[::KEPT].tolist()] for n, p in params.items()}
    state = opt.state[params["large.weight"]]
    kinds = [(s, a) for s, a in (("state1", "absmax1"), ("state2", "absmax2")) if state.get(s) is not None]
    codes = [[state[s].flatten()[::KEPT].tolist(), state[a].tolist()] for s, a in kinds]
    return {"params": kept, "codes": [c[0] for c in codes], "largest": [c[1] for c in codes]}


def main():
    out = {
        "versions": {m: version(m) for m in ("torch", "bitsandbytes")},
        "shapes": SHAPES,
        "steps": STEPS,
        "every": KEPT,
        "signed": F.create_dynamic_map(signed=True).tolist(),
        "unsigned": F.create_dynamic_map(signed=False).tolist(),
        "cases": [{"name": n, "kind": k[:-4].lower(), "options": o, **run(k, o)} for n, (k, o) in CASES.items()],
    }
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizer_8bit.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
