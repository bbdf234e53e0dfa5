"""Writes lr_range.json: learning-rate range tests of a small net by fastai's LRFinder and suggestion functions. Needs torch
and fastai (its plots and downloads are not used and need not be installed).
"""

import json
import os
import sys
import types

import torch


class Absent(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


for module in ("fasthtml", "fasthtml.common"):
    sys.modules.setdefault(module, types.ModuleType(module))
sys.modules.setdefault("fastdownload", Absent("fastdownload"))

import fastai  # noqa: E402
from fastai.callback.schedule import SchedExp, minimum, steep, valley  # noqa: E402
from fastai.learner import AvgSmoothLoss  # noqa: E402

# Seed, steps, lowest and highest rate.
CASES = [(1, 100, 1e-7, 10.0), (2, 60, 1e-5, 3.0), (3, 100, 1e-4, 1e-2), (4, 20, 1e-6, 10.0)]


def run(seed, steps, low, high):
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    opt = torch.optim.SGD(net.parameters(), lr=low, momentum=0.9)
    x = torch.randn(512, 6)
    y = (x @ torch.randn(6, 3) + 0.3 * torch.randn(512, 3)).argmax(1)
    schedule, smooth = SchedExp(low, high), AvgSmoothLoss()
    smooth.reset()
    rates, losses, smoothed, best = [], [], [], float("inf")
    for i in range(steps):
        rows = torch.randint(0, 512, (16,))
        loss = torch.nn.functional.cross_entropy(net(x[rows]) * 3, y[rows])
        opt.param_groups[0]["lr"] = schedule(i / steps)
        opt.zero_grad()
        loss.backward()
        opt.step()
        smooth.accumulate(types.SimpleNamespace(yb=(y[rows],), loss=loss.detach()))
        rates.append(schedule(i / steps))
        losses.append(loss.item())
        smoothed.append(float(smooth.value))
        best = min(best, smoothed[-1])
        if smoothed[-1] > 4 * best:  # LRFinder.after_batch
            break
    out = {"steps": steps, "low": low, "high": high, "lr": rates, "loss": losses, "smoothed": smoothed, "stopped": len(rates) < steps}
    kept = torch.tensor(rates[steps // 10 : -5], dtype=torch.float64), torch.tensor(smoothed[steps // 10 : -5], dtype=torch.float64)
    for suggest in (valley, steep, minimum):  # of Learner.lr_find
        out[suggest.__name__] = suggest(*kept, steps)[0]
    return out


def main():
    out = {"fastai": fastai.__version__, "cases": [run(*case) for case in CASES]}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "lr_range.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
