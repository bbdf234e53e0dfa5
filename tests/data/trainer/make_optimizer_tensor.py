"""Writes optimizer_tensor.json: trajectories of tensor-wise optimizers in float32 and float64, by transformers' Adafactor,
timm's AdamP and SGDP and torch.optim.Muon (AdamW for parameters that are not matrices). Some tensors have their own clipping
norm or first step. Needs torch, timm and transformers.
"""

import json
import os

import make_optimizer
import torch

SHAPES = {"encoder.weight": [5, 7], "tall.weight": [9, 4], "encoder.bias": [7], "conv.weight": [4, 3, 2, 3], "head.weight": [2, 3]}
STEPS = 50
# Name -> rule, options, norm that the gradients are clipped to.
CASES = {
    "adafactor": ("adafactor", dict(lr=0.02, weight_decay=0.1), None),
    "adafactor_averaged": ("adafactor", dict(lr=0.02, beta1=0.9, scale_parameter=True, decay_rate=-0.5, clip_threshold=0.6), 1.0),
    "adafactor_relative": ("adafactor", dict(lr=1.0, scale_parameter=True, relative_step=True), None),
    "adafactor_warmup": ("adafactor", dict(lr=1.0, scale_parameter=True, relative_step=True, warmup_init=True, eps1=1e-4, eps2=0.2), None),
    "adamp": ("adamp", dict(lr=0.02, weight_decay=0.1), None),
    "adamp_projected": ("adamp", dict(lr=0.02, weight_decay=0.1, betas=(0.8, 0.95), delta=1.5, wd_ratio=0.3), 1.0),
    "adamp_nesterov": ("adamp", dict(lr=0.02, delta=2.0, eps=1e-4, nesterov=True), None),
    "sgdp": ("sgdp", dict(lr=0.05, weight_decay=0.1), None),
    "sgdp_projected": ("sgdp", dict(lr=0.02, momentum=0.9, dampening=0.3, weight_decay=0.1, delta=1.5), 1.0),
    "sgdp_nesterov": ("sgdp", dict(lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.1, delta=2.0, wd_ratio=0.5), None),
    "muon": ("muon", dict(lr=0.02, weight_decay=0.1), None),
    "muon_elementwise": ("muon", dict(lr=0.02, weight_decay=0.1), 1.0),
    "muon_settings": ("muon", dict(lr=0.02, betas=(0.8, 0.95), momentum=0.7, ns_steps=3, match_rms_adamw=True, weight_decay=0.1), 1.0),
    "adamw_groups": ("adamw", dict(lr=0.02, weight_decay=0.1), 1.0),
    "lars_groups": ("lars", dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.1, trust_coeff=0.3), 1.0),
    "adafactor_groups": ("adafactor", dict(lr=0.02, weight_decay=0.1, scale_parameter=True), 1.0),
}
# Parameters whose gradients are clipped as a separate group, or are 0 before a step, in the cases called *_groups.
GROUPS = {"encoder.weight": dict(clip_group=1, max_grad_norm=0.3), "encoder.bias": dict(clip_group=1, max_grad_norm=0.3),
          "conv.weight": dict(unfreeze_step=7), "tall.weight": dict(clip_group=2, max_grad_norm=0.9, unfreeze_step=20)}
ELEMENTWISE = {"tall.weight": dict(adamw=True)}  # for the case muon_elementwise


class InPrecision:
    """Stands for the module torch, but with another type as bfloat16, so that Newton-Schulz computes
    in the precision of the weights."""

    def __init__(self, dtype):
        self.bfloat16 = dtype

    def __getattr__(self, name):
        return getattr(torch, name)


class Several(torch.optim.Optimizer):
    """Several optimizers, each of some of the parameters, as one optimizer."""

    def __init__(self, parts):
        self.parts = parts

    @property
    def param_groups(self):
        return [g for p in self.parts for g in p.param_groups]

    def step(self):
        for p in self.parts:
            p.step()


def adafactor(groups, lr, eps1=1e-30, eps2=1e-3, **k):
    from transformers import Adafactor

    relative = k.get("relative_step", False)
    settings = dict(scale_parameter=False, relative_step=False) | k
    return Adafactor(groups, lr=None if relative else lr, eps=(eps1, eps2), **settings)


def muon(groups, lr, dtype, betas=(0.9, 0.999), momentum=0.95, ns_steps=5, match_rms_adamw=False):
    import torch.optim._muon as module

    module.torch = InPrecision(dtype)
    matrices = [g for g in groups if g["params"][0].dim() == 2 and not g.get("adamw")]
    rest = [g for g in groups if g["params"][0].dim() != 2 or g.get("adamw")]
    adjust = "match_rms_adamw" if match_rms_adamw else "original"
    return Several([torch.optim.Muon(matrices, lr=lr, momentum=momentum, ns_steps=ns_steps, adjust_lr_fn=adjust),
                    torch.optim.AdamW(rest, lr=lr, betas=betas, foreach=False)])  # fmt: skip


def optimizer(kind, groups, dtype, options):
    import timm.optim

    if kind == "muon":
        return muon(groups, dtype=dtype, **options)
    if kind in ("adamw", "lars"):
        return make_optimizer.KINDS[kind](groups, **options)
    return {"adafactor": adafactor, "adamp": timm.optim.AdamP, "sgdp": timm.optim.SGDP}[kind](groups, **options)


def run(kind, options, norm, own, dtype, start, grads):
    params = {n: torch.nn.Parameter(t.clone().to(dtype)) for n, t in start.items()}
    options = dict(options)
    decay, lr = options.pop("weight_decay", 0.0), options["lr"]
    groups = [{"params": [p], "weight_decay": 0.0 if p.dim() <= 1 else decay} | ({"adamw": True} if own.get(n, {}).get("adamw") else {})
              for n, p in params.items()]
    opt = optimizer(kind, groups, dtype, options)
    for step in range(STEPS):
        for n, p in params.items():
            waits = step < own.get(n, {}).get("unfreeze_step", 0)
            p.grad = None if waits else grads[step][n].to(dtype).clone()
        bounds = {0: norm} | {o["clip_group"]: o["max_grad_norm"] for o in own.values() if "clip_group" in o}
        for group, bound in bounds.items():
            members = [p for n, p in params.items() if own.get(n, {}).get("clip_group", 0) == group and p.grad is not None]
            if bound and members:
                torch.nn.utils.clip_grad_norm_(members, bound)
        for g in opt.param_groups:
            if not g.get("relative_step"):
                g["lr"] = rate(options, step)
        opt.step()
    return {n: make_optimizer.numbers(p.detach()) for n, p in params.items()}


def rate(options, step):
    return 1.0 if options.get("relative_step") else options["lr"] * (1 - step / 80)


def main():
    torch.manual_seed(11)
    start = {n: torch.randn(s) for n, s in SHAPES.items()}
    grads = [{n: torch.randn(s) * 0.4 * 1.3 ** (step % 4) for n, s in SHAPES.items()} for step in range(STEPS)]
    numbers = make_optimizer.numbers
    out = {
        "torch": torch.__version__,
        "shapes": SHAPES,
        "start": {n: numbers(t) for n, t in start.items()},
        "grads": [{n: numbers(t) for n, t in g.items()} for g in grads],
        "cases": [],
    }
    for name, (kind, options, norm) in CASES.items():
        own = GROUPS if name.endswith("_groups") else ELEMENTWISE if name.endswith("_elementwise") else {}
        out["cases"].append({
            "name": name, "kind": kind, "options": options, "norm": norm or 0, "own": own,
            "rates": [rate(options, s) for s in range(STEPS)],
            "f32": run(kind, options, norm, own, torch.float32, start, grads),
            "f64": run(kind, options, norm, own, torch.float64, start, grads),
        })  # fmt: skip
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizer_tensor.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
