"""Writes optimizer.json: trajectories of torch.optim on random tensors, in float32 and float64. Needs torch."""
import json
import os

import torch

SHAPES = {"encoder.weight": [5, 7], "encoder.bias": [7], "norm.weight": [19], "head.weight": [2, 3]}
STEPS = 12
CASES = {
    "sgd": ("sgd", dict(lr=0.05), {}),
    "sgd_momentum": ("sgd", dict(lr=0.05, momentum=0.9), {}),
    "sgd_nesterov_decay": ("sgd", dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1), {}),
    "sgd_clip_norm": ("sgd", dict(lr=0.05, momentum=0.9), dict(norm=1.5)),
    "sgd_clip_inf": ("sgd", dict(lr=0.05), dict(inf=0.75)),
    "sgd_clip_value": ("sgd", dict(lr=0.05), dict(value=0.5)),
    "adam": ("adam", dict(lr=0.01), {}),
    "adam_decay": ("adam", dict(lr=0.01, weight_decay=0.1), {}),
    "adamw": ("adamw", dict(lr=0.01, weight_decay=0.01), {}),
    "adamw_betas_eps": ("adamw", dict(lr=0.02, weight_decay=0.3, betas=(0.4, 0.98), eps=1e-4), {}),
    "adamw_clip": ("adamw", dict(lr=0.01, weight_decay=0.01), dict(norm=1.0)),
}
KINDS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def numbers(t):
    digits = 17 if t.dtype == torch.float64 else 9
    return [float(f"{x:.{digits}g}") for x in t.flatten().tolist()]


def rate(base, step):
    return base * (1 - step / 20)


def run(kind, options, clip, exclude, dtype, start, grads):
    params = {n: torch.nn.Parameter(t.clone().to(dtype)) for n, t in start.items()}
    decay = options.get("weight_decay", 0.0)
    groups = [dict(params=[p], weight_decay=0.0 if exclude and p.dim() <= 1 else decay) for p in params.values()]
    options = {k: v for k, v in options.items() if k != "weight_decay"}
    opt = KINDS[kind](groups, foreach=False, **options)
    norms = []
    for step in range(STEPS):
        for n, p in params.items():
            p.grad = grads[step][n].to(dtype).clone()
        every = list(params.values())
        if "inf" in clip:
            norms.append(torch.nn.utils.clip_grad_norm_(every, clip["inf"], float("inf")).item())
        else:
            norms.append(torch.nn.utils.clip_grad_norm_(every, clip.get("norm", 1e30)).item())
        if "value" in clip:
            torch.nn.utils.clip_grad_value_(every, clip["value"])
        for g in opt.param_groups:
            g["lr"] = rate(options["lr"], step)
        opt.step()
    return {"params": {n: numbers(p.detach()) for n, p in params.items()}, "norms": norms}


def main():
    torch.manual_seed(7)
    start = {n: torch.randn(s) for n, s in SHAPES.items()}
    grads = [{n: torch.randn(s) * 0.4 * 1.3 ** (step % 4) for n, s in SHAPES.items()} for step in range(STEPS)]
    out = {
        "torch": torch.__version__,
        "shapes": SHAPES,
        "start": {n: numbers(t) for n, t in start.items()},
        "grads": [{n: numbers(t) for n, t in g.items()} for g in grads],
        "cases": [],
    }
    for name, (kind, options, clip) in CASES.items():
        exclude = name != "sgd_nesterov_decay"
        case = {"name": name, "kind": kind, "options": options, "clip": clip, "exclude": exclude}
        case["f32"] = run(kind, options, clip, exclude, torch.float32, start, grads)
        case["f64"] = run(kind, options, clip, exclude, torch.float64, start, grads)
        out["cases"].append(case)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizer.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
