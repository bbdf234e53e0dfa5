"""Writes optimizer_second_order.json: trajectories, in float32 and float64, of optimizers that need more than a gradient or
that wrap another optimizer. These are timm's Adahessian and pytorch_optimizer's SophiaH on given estimates of the Hessian's
diagonal, sophia_opt's SophiaG on given gradients for sampled labels, pytorch_optimizer's Lookahead and SAM around
torch.optim, schedulefree's AdamWScheduleFree, and timm's adaptive_clip_grad and pytorch_optimizer's centralize_gradient
before torch.optim. Needs torch, timm, pytorch_optimizer, sophia-opt and schedulefree.

The gradient is a given tensor + 0.25 weight, so that it depends on the weights. SAM's norm, which pytorch_optimizer rounds
to float32, is computed in float64.
"""

import contextlib
import json
import os
from importlib.metadata import version
from unittest import mock

import pytorch_optimizer
import schedulefree
import sophia_opt
import timm.optim
import timm.utils.agc
import torch
from pytorch_optimizer.optimizer.gradient_centralization import centralize_gradient

SHAPES = {"conv.weight": [3, 2, 3, 3], "encoder.weight": [5, 7], "norm.weight": [19]}
STEPS = 50
CASES = {
    "adahessian": ("adahessian", dict(lr=0.05, weight_decay=0.1), {}),
    "adahessian_power": ("adahessian", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-4, hessian_power=0.7, avg_conv_kernel=False), {}),
    "adahessian_interval": ("adahessian", dict(lr=0.05, hessian_update_interval=3), {}),
    "sophia_h": ("sophia_h", dict(lr=0.06, weight_decay=0.1), {}),
    "sophia_h_every": ("sophia_h", dict(lr=0.06, betas=(0.8, 0.9), rho=0.5, eps=1e-4, hessian_update_interval=1), {}),
    "sophia_g": ("sophia_g", dict(lr=0.01, weight_decay=0.1), {}),
    "sophia_g_every": ("sophia_g", dict(lr=0.02, betas=(0.8, 0.9), rho=2.0, hessian_update_interval=1), {}),
    "schedule_free": ("schedule_free_adamw", dict(lr=0.05, weight_decay=0.1), {}),
    "schedule_free_settings": ("schedule_free_adamw", dict(lr=0.05, betas=(0.7, 0.95), eps=1e-4, weight_lr_power=1.0, r=0.5), {}),
    "sgd_lookahead": ("sgd", dict(lr=0.05, momentum=0.9), dict(lookahead=5, lookahead_alpha=0.5)),
    "adamw_lookahead": ("adamw", dict(lr=0.05, weight_decay=0.1), dict(lookahead=3, lookahead_alpha=0.8)),
    "sgd_sam": ("sgd", dict(lr=0.05, momentum=0.9, weight_decay=0.1), dict(sam_rho=0.5)),
    "sgd_agc": ("sgd", dict(lr=0.05, momentum=0.9), dict(agc=0.3)),
    "adamw_centralized": ("adamw", dict(lr=0.02, weight_decay=0.1), dict(centralize=True)),
    "adamw_centralized_agc": ("adamw", dict(lr=0.02, weight_decay=0.1), dict(centralize=True, agc=0.2)),
    "adamw_sam": ("adamw", dict(lr=0.02, weight_decay=0.1), dict(sam_rho=2.0)),
}


class GivenAdahessian(timm.optim.Adahessian):
    """timm's Adahessian, with the estimates of the diagonal from `given` instead of random vectors."""

    @torch.no_grad()
    def set_hessian(self):
        for p in self.get_params():
            if self.state[p]["hessian step"] % self.update_each == 0:
                p.hess = self.given[p].clone()
            self.state[p]["hessian step"] += 1


def wide_norm():
    squared = lambda groups, weight_adaptive: sum(  # noqa: E731
        (p.grad.double() ** 2).sum() for g in groups for p in g["params"]
    ).reshape(1)  # fmt: skip
    return mock.patch("pytorch_optimizer.optimizer.sam.get_global_gradient_norm", squared)


def make(kind, options, wrap, params):
    options = dict(options)
    groups = [{"params": [p], "weight_decay": options.get("weight_decay", 0.0) if p.dim() > 1 else 0.0} for p in params]
    options.pop("weight_decay", None)
    base = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}.get(kind)
    if "sam_rho" in wrap:
        return pytorch_optimizer.SAM(groups, base, rho=wrap["sam_rho"], foreach=False, **options)
    if "lookahead" in wrap:
        opt = pytorch_optimizer.Lookahead(base(groups, foreach=False, **options), k=wrap["lookahead"],
                                          alpha=wrap["lookahead_alpha"], pullback_momentum="none")  # fmt: skip
        return opt
    if base is not None:
        return base(groups, foreach=False, **options)
    if kind == "adahessian":
        options["update_each"] = options.pop("hessian_update_interval", 1)
        options.setdefault("avg_conv_kernel", True)
        return GivenAdahessian(groups, **options)
    if kind == "sophia_h":
        options["update_period"] = options.pop("hessian_update_interval", 10)
        if "rho" in options:
            options["p"] = options.pop("rho")
        return pytorch_optimizer.SophiaH(groups, foreach=False, **options)
    if kind == "sophia_g":
        options.pop("hessian_update_interval", None)
        return sophia_opt.SophiaG(groups, **options)
    opt = schedulefree.AdamWScheduleFree(groups, foreach=False, **options)
    opt.train()
    return opt


def numbers(t):
    digits = 17 if t.dtype == torch.float64 else 9
    return [float(f"{x:.{digits}g}") for x in t.flatten().tolist()]


def rate(base, step):
    """Returns a learning rate that rises for ten steps, then falls."""
    return base * min((step + 1) / 10, 1 - step / 80)


def run(kind, options, wrap, dtype, start, grads, bends):
    params = {n: torch.nn.Parameter(t.clone().to(dtype)) for n, t in start.items()}
    opt = make(kind, options, wrap, list(params.values()))
    interval = options.get("hessian_update_interval", 10 if kind.startswith("sophia") else 1)
    for step in range(STEPS):

        def gradients():
            for n, p in params.items():
                p.grad = (grads[step][n].to(dtype) + 0.25 * p).detach()

        gradients()
        for p in params.values():
            if wrap.get("centralize"):
                centralize_gradient(p.grad)
        if "agc" in wrap:
            timm.utils.agc.adaptive_clip_grad(params.values(), clip_factor=wrap["agc"])
        bend = {p: bends[step][n].to(dtype) for n, p in params.items()}
        for g in opt.param_groups:
            g["lr"] = rate(options["lr"], step)
        if "sam_rho" in wrap:
            with wide_norm() if dtype == torch.float64 else contextlib.nullcontext():
                opt.step(gradients)
        elif kind == "adahessian":
            opt.given = bend
            opt.step()
        elif kind == "sophia_g":
            kept = {p: p.grad for p in params.values()}
            if step % interval == 0:
                for n, p in params.items():
                    p.grad = bends[step][n].to(dtype)
                opt.update_hessian()
            for p in params.values():
                p.grad = kept[p]
            opt.step(bs=1)
        elif kind == "sophia_h":
            opt.step(hessian=list(bend.values()) if step % interval == 0 else None)
        else:
            opt.step()
    out = {"params": {n: numbers(p.detach()) for n, p in params.items()}}
    if kind == "schedule_free_adamw":
        opt.eval()
        out["evaluated"] = {n: numbers(p.detach()) for n, p in params.items()}
    return out


def main():
    torch.manual_seed(8)
    start = {n: torch.randn(s) for n, s in SHAPES.items()}
    grads = [{n: torch.randn(s) * 0.4 * 1.3 ** (step % 4) for n, s in SHAPES.items()} for step in range(STEPS)]
    bends = [{n: torch.randn(s) * 0.6 + 0.3 for n, s in SHAPES.items()} for step in range(STEPS)]
    out = {
        "versions": {m: version(m) for m in ("torch", "timm", "pytorch_optimizer", "schedulefree")},
        "shapes": SHAPES,
        "start": {n: numbers(t) for n, t in start.items()},
        "grads": [{n: numbers(t) for n, t in g.items()} for g in grads],
        "bends": [{n: numbers(t) for n, t in g.items()} for g in bends],
        "cases": [],
    }
    for name, (kind, options, wrap) in CASES.items():
        case = {"name": name, "kind": kind, "options": options, "wrap": wrap}
        case["rates"] = [rate(options["lr"], step) for step in range(STEPS)]
        case["f32"] = run(kind, options, wrap, torch.float32, start, grads, bends)
        case["f64"] = run(kind, options, wrap, torch.float64, start, grads, bends)
        out["cases"].append(case)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizer_second_order.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
