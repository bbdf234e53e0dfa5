"""Writes schedule.json: learning rates from transformers.get_scheduler and torch's OneCycleLR. Needs both."""
import json
import os
import warnings
from types import SimpleNamespace

import torch
from transformers import get_scheduler
from transformers.training_args import TrainingArguments

warnings.filterwarnings("ignore")
LR = 3e-4
CASES = [(k, w, t, o) for k, o in [
    ("linear", {}), ("cosine", {}), ("cosine", {"num_cycles": 1.25}), ("cosine_with_restarts", {}),
    ("cosine_with_restarts", {"num_cycles": 3}), ("polynomial", {}), ("polynomial", {"power": 2.0, "lr_end": 1e-5}),
    ("constant", {}), ("constant_with_warmup", {}), ("inverse_sqrt", {}), ("inverse_sqrt", {"timescale": 7}),
    ("cosine_with_min_lr", {"min_lr": 3e-5}), ("cosine_with_min_lr", {"min_lr_rate": 0.2, "num_cycles": 0.5}),
] for w, t in [(0, 30), (7, 30), (30, 30), (1, 2)] if not (k == "polynomial" and w == t)]
ONE = [(10, {}), (30, {}), (37, dict(pct_start=0.1, div_factor=10.0, final_div_factor=100.0)), (3, {}),
       (20, dict(pct_start=1.0)), (20, dict(pct_start=0.0)), (40, dict(anneal_strategy="linear")),
       (40, dict(three_phase=True)), (41, dict(three_phase=True, pct_start=0.4, anneal_strategy="linear"))]

WSD = [(7, 30, {"num_decay_steps": 9}), (0, 30, {"num_decay_steps": 10, "decay_type": "linear", "min_lr_ratio": 0.1}),
       (6, 40, {"num_decay_steps": 20, "decay_type": "1-sqrt", "warmup_type": "cosine", "min_lr_ratio": 0.2}),
       (6, 40, {"num_decay_steps": 20, "warmup_type": "1-sqrt", "num_cycles": 0.25})]
DECAY = [("step", "StepLR", dict(step_size=7, gamma=0.5)), ("multistep", "MultiStepLR", dict(milestones=[3, 11, 12], gamma=0.3)),
         ("exponential", "ExponentialLR", dict(gamma=0.93))]


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR, momentum=0.9)


def rates(opt, sched, n):
    out = []
    for i in range(n):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        if i + 1 < n:
            sched.step()
    return out


def main():
    cases = []
    for kind, warmup, total, options in CASES:
        opt = optimizer()
        sched = get_scheduler(kind, opt, warmup, total, scheduler_specific_kwargs=dict(options))
        # Past the end of the run only where the schedule keeps its last value.
        beyond = 0 if kind.startswith("cosine") and "restarts" not in kind else 5
        cases.append(dict(kind=kind, warmup=warmup, total=total, options=options, lr=rates(opt, sched, total + 1 + beyond)))
    for warmup, total, options in WSD:
        opt = optimizer()
        sched = get_scheduler("warmup_stable_decay", opt, warmup, total, scheduler_specific_kwargs=dict(options))
        cases.append(dict(kind="warmup_stable_decay", warmup=warmup, total=total, options=options, lr=rates(opt, sched, total + 6)))
    for kind, name, options in DECAY:
        opt = optimizer()
        sched = getattr(torch.optim.lr_scheduler, name)(opt, **options)
        given = {k: ":".join(map(str, v)) if isinstance(v, list) else v for k, v in options.items()}
        cases.append(dict(kind=kind, warmup=0, total=40, options=given, lr=rates(opt, sched, 40)))
    for warmup, d_model in ((10, 64), (4, 512)):  # equation 3 of the paper
        opt = optimizer()
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: d_model**-0.5 * min(max(s, 1) ** -0.5, max(s, 1) * warmup**-1.5))
        cases.append(dict(kind="noam", warmup=warmup, total=40, options={"d_model": d_model}, lr=rates(opt, sched, 40)))
    for total, options in ONE:
        opt = optimizer()
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, LR, total_steps=total, **options)
        cases.append(dict(kind="one_cycle", warmup=0, total=total, options=options, lr=rates(opt, sched, total)))
    warmups = []
    for warmup in [0, 0.1, 0.06, 0.07, 0.5, 0.999, 1, 3, 100]:
        args = SimpleNamespace(warmup_steps=warmup)  # constructing TrainingArguments needs accelerate
        warmups += [[warmup, total, TrainingArguments.get_warmup_steps(args, total)] for total in (1, 7, 10, 30, 100, 250, 12345)]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schedule.json"), "w") as f:
        json.dump(dict(lr=LR, cases=cases, warmups=warmups), f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
