"""Writes optimizer.json: trajectories of torch.optim, and of timm.optim where torch has no such rule, on random tensors, in
float32 and float64. Needs torch and timm.
"""

import json
import os

import torch

SHAPES = {"encoder.weight": [5, 7], "encoder.bias": [7], "norm.weight": [19], "head.weight": [2, 3]}
STEPS = 50
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
    "sgd_dampening": ("sgd", dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.1), {}),
    "adamax": ("adamax", dict(lr=0.02, weight_decay=0.1), {}),
    "adamax_betas_eps": ("adamax", dict(lr=0.02, betas=(0.4, 0.9), eps=1e-3), {}),
    "nadam": ("nadam", dict(lr=0.02, weight_decay=0.1), {}),
    "nadam_decay": ("nadam", dict(lr=0.02, betas=(0.8, 0.95), momentum_decay=0.1), dict(norm=1.0)),
    "nadamw": ("nadamw", dict(lr=0.02, weight_decay=0.1), {}),
    "radam": ("radam", dict(lr=0.02, weight_decay=0.1), {}),
    "radam_betas": ("radam", dict(lr=0.02, betas=(0.5, 0.8), eps=1e-4), {}),
    "radamw": ("radamw", dict(lr=0.02, weight_decay=0.1), {}),
    "adagrad": ("adagrad", dict(lr=0.05, weight_decay=0.1), {}),
    "adagrad_settings": ("adagrad", dict(lr=0.05, lr_decay=0.1, initial_accumulator_value=0.3, eps=1e-6), {}),
    "adadelta": ("adadelta", dict(lr=1.0, weight_decay=0.1), {}),
    "adadelta_rho": ("adadelta", dict(lr=0.5, rho=0.7, eps=1e-3), {}),
    "rmsprop": ("rmsprop", dict(lr=0.01, weight_decay=0.1), {}),
    "rmsprop_momentum": ("rmsprop", dict(lr=0.01, alpha=0.9, momentum=0.8, eps=1e-5), {}),
    "rmsprop_tf": ("rmsprop_tf", dict(lr=0.01, weight_decay=0.1), {}),
    "rmsprop_tf_momentum": ("rmsprop_tf", dict(lr=0.01, alpha=0.95, momentum=0.9, eps=1e-3), {}),
    "lion": ("lion", dict(lr=0.003, weight_decay=0.1), {}),
    "lion_betas": ("lion", dict(lr=0.003, betas=(0.5, 0.8)), dict(norm=1.0)),
    "adam_amsgrad": ("adam", dict(lr=0.02, weight_decay=0.1, amsgrad=True), {}),
    "adamw_amsgrad": ("adamw", dict(lr=0.02, weight_decay=0.1, betas=(0.4, 0.8), amsgrad=True), dict(norm=1.0)),
    "rmsprop_centered": ("rmsprop", dict(lr=0.01, alpha=0.9, weight_decay=0.1, centered=True), {}),
    "rmsprop_centered_momentum": ("rmsprop", dict(lr=0.01, momentum=0.8, eps=1e-5, centered=True), {}),
    "rmsprop_tf_centered": ("rmsprop_tf", dict(lr=0.01, weight_decay=0.1, centered=True), {}),
    "rmsprop_tf_centered_momentum": ("rmsprop_tf", dict(lr=0.01, momentum=0.8, eps=1e-3, centered=True), {}),
    "lamb": ("lamb", dict(lr=0.02, weight_decay=0.1), {}),
    "lamb_adapt": ("lamb", dict(lr=0.02, betas=(0.4, 0.95), eps=1e-4, always_adapt=True, trust_clip=True), dict(norm=1.0)),
    "lamb_groups": ("lamb", dict(lr=0.02, weight_decay=0.1), {}),
    "lars": ("lars", dict(lr=0.2, trust_coeff=0.5, weight_decay=0.1), {}),
    "lars_momentum": ("lars", dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.1, trust_coeff=0.3), dict(norm=1.0)),
    "lars_nesterov": ("lars", dict(lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.1, trust_coeff=0.3, eps=1e-3), {}),
    "larc": ("lars", dict(lr=0.05, momentum=0.9, trust_coeff=0.02, trust_clip=True, always_adapt=True), {}),
    "sgd_groups": ("sgd", dict(lr=0.05, momentum=0.9, weight_decay=0.1), {}),
    "adamw_groups": ("adamw", dict(lr=0.02, weight_decay=0.1), dict(norm=1.0)),
}
# Parameters with a separate rate and decay, in the cases called *_groups.
GROUPS = {"encoder.weight": dict(lr_scale=0.25, weight_decay=0.3), "norm.weight": dict(lr_scale=3.0, weight_decay=0.2),
          "head.weight": dict(lr_scale=0.5)}


def kinds():
    import timm.optim

    o = torch.optim
    decoupled = {"nadamw": o.NAdam, "radamw": o.RAdam}
    found = {name: (lambda p, c=c, **k: c(p, foreach=False, decoupled_weight_decay=True, **k)) for name, c in decoupled.items()}
    for name, c in {"sgd": o.SGD, "adam": o.Adam, "adamw": o.AdamW, "adamax": o.Adamax, "nadam": o.NAdam, "radam": o.RAdam,
                    "adagrad": o.Adagrad, "adadelta": o.Adadelta, "rmsprop": o.RMSprop}.items():  # fmt: skip
        found[name] = lambda p, c=c, **k: c(p, foreach=False, **k)
    for name, c in {"rmsprop_tf": timm.optim.RMSpropTF, "lars": timm.optim.Lars}.items():
        found[name] = lambda p, c=c, **k: c(p, foreach=False, **k)
    found["lamb"] = lambda p, **k: timm.optim.Lamb(p, foreach=False, max_grad_norm=None, **k)
    return {**found, "lion": lambda p, **k: timm.optim.Lion(p, foreach=False, **k)}


KINDS = kinds()


def numbers(t):
    digits = 17 if t.dtype == torch.float64 else 9
    return [float(f"{x:.{digits}g}") for x in t.flatten().tolist()]


def rate(base, step):
    return base * (1 - step / 80)


def run(kind, options, clip, exclude, own, dtype, start, grads):
    torch.set_default_dtype(dtype)  # the type in which NAdam stores its product of coefficients
    params = {n: torch.nn.Parameter(t.clone().to(dtype)) for n, t in start.items()}
    decay = options.get("weight_decay", 0.0)
    groups = []
    for n, p in params.items():
        group = {"lr_scale": 1.0, "weight_decay": 0.0 if exclude and p.dim() <= 1 else decay}
        groups.append(dict(group, params=[p]) | own.get(n, {}))
    options = {k: v for k, v in options.items() if k != "weight_decay"}
    opt = KINDS[kind](groups, **options)
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
            g["lr"] = rate(options["lr"], step) * g["lr_scale"]
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
        own = GROUPS if name.endswith("_groups") else {}
        case = {"name": name, "kind": kind, "options": options, "clip": clip, "exclude": exclude, "groups": own}
        case["f32"] = run(kind, options, clip, exclude, own, torch.float32, start, grads)
        case["f64"] = run(kind, options, clip, exclude, own, torch.float64, start, grads)
        out["cases"].append(case)
        torch.set_default_dtype(torch.float32)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizer.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
