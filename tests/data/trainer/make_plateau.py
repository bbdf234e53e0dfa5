"""Writes plateau.json: learning rates after each of several evaluations, by torch's ReduceLROnPlateau."""

import json
import os

import torch

LR = 3e-3
CASES = [("min", {}), ("min", dict(patience=2)), ("max", dict(patience=1, factor=0.5)), ("min", dict(patience=0, cooldown=2)),
         ("min", dict(patience=1, threshold=0.05)), ("max", dict(patience=1, threshold=0.05, threshold_mode="abs")),
         ("min", dict(patience=0, factor=0.3, min_lr=4e-4)), ("min", dict(patience=0, factor=0.2, eps=1e-4))]  # fmt: skip


def main():
    torch.manual_seed(5)
    cases = []
    for mode, options in CASES:
        x = torch.linspace(0, 3, 60, dtype=torch.float64)
        metrics = ((torch.exp(-x) if mode == "min" else 1 - torch.exp(-x)) + 0.05 * torch.randn(60, dtype=torch.float64)).tolist()
        metrics[20] = float("nan")
        opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode, **options)
        rates = []
        for m in metrics:
            scheduler.step(m)
            rates.append(opt.param_groups[0]["lr"])
        cases.append({"mode": mode, "options": options, "metrics": [None if m != m else m for m in metrics], "lr": rates})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "plateau.json"), "w") as f:
        json.dump({"torch": torch.__version__, "lr": LR, "cases": cases}, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
