"""Writes schedule.json: learning rates from transformers.get_scheduler, torch's schedulers and timm's. Needs all three."""
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
# Schedules of 1,000 steps each.
LONG = [("linear", {}), ("cosine", {"num_cycles": 0.7}), ("cosine_with_restarts", {"num_cycles": 3}), ("polynomial", {"power": 2.3}),
        ("constant_with_warmup", {}), ("inverse_sqrt", {}), ("cosine_with_min_lr", {"min_lr": 3e-5}),
        ("warmup_stable_decay", {"num_decay_steps": 200, "min_lr_ratio": 0.1})]
LONG_DECAY = [("step", "StepLR", dict(step_size=70, gamma=0.7)), ("multistep", "MultiStepLR", dict(milestones=[30, 500, 720], gamma=0.3)),
              ("exponential", "ExponentialLR", dict(gamma=0.993))]
LONG_ONE = [{}, dict(three_phase=True, pct_start=0.23, anneal_strategy="linear")]

# timm's schedules: options, epochs, updates of an epoch.
TIMM = [(dict(sched="cosine", warmup_epochs=5, warmup_lr=1e-6, min_lr=1e-5), 50, 20),
        (dict(sched="cosine", warmup_epochs=5, warmup_lr=1e-6, min_lr=1e-5, cooldown_epochs=7, step_on_epochs=False), 43, 20),
        (dict(sched="cosine", warmup_epochs=3, warmup_prefix=True, cooldown_epochs=2, k_decay=1.5), 45, 20),
        (dict(sched="cosine", cycle_limit=3, cycle_decay=0.5, cooldown_epochs=5), 15, 20),
        (dict(sched="cosine", cycle_limit=3, cycle_mul=2.0, cycle_decay=0.5, min_lr=1e-6, step_on_epochs=False), 7, 21),
        (dict(sched="poly", decay_rate=2.0, warmup_epochs=4, min_lr=1e-5, step_on_epochs=False), 25, 40),
        (dict(sched="tanh", warmup_epochs=5, warmup_lr=1e-6, min_lr=1e-5), 50, 20),
        (dict(sched="tanh", cycle_limit=3, cycle_mul=2.0, cycle_decay=0.5, warmup_epochs=2, warmup_prefix=True, step_on_epochs=False), 7, 21),
        (dict(sched="wsd", warmup_epochs=5, warmup_lr=1e-6, min_lr=1e-5, cooldown_epochs=3), 50, 20),
        (dict(sched="wsd", decay_epochs=7, decay_fn="cosine", warmup_epochs=2, step_on_epochs=False), 50, 20),
        (dict(sched="wsd", decay_fn="exp", warmup_prefix=True, warmup_epochs=2, step_on_epochs=False), 45, 20),
        (dict(sched="wsd", decay_fn="power"), 50, 20),
        (dict(sched="rsqrt", warmup_epochs=5, min_lr=2e-4, step_on_epochs=False), 50, 20),
        (dict(sched="rsqrt", stable_timescale=7, decay_fn="linear", step_on_epochs=False), 50, 20),
        (dict(sched="step", decay_epochs=9, decay_rate=0.3, warmup_epochs=5), 50, 20),
        (dict(sched="step", decay_epochs=2.4, decay_rate=0.7, warmup_epochs=5, warmup_prefix=True, step_on_epochs=False), 45, 20),
        (dict(sched="multistep", decay_milestones=[10, 11, 30], decay_rate=0.2, warmup_epochs=2), 50, 20),
        (dict(sched="multistep", decay_milestones=[10, 11, 30], decay_rate=0.2, step_on_epochs=False), 50, 20)]


def timm_case(options, epochs, updates):
    """Returns the rates of 1,000 updates, as timm's train.py steps its scheduler."""
    from timm.scheduler import create_scheduler_v2

    opt = optimizer()
    given = {"warmup_lr": 1e-5} | options
    sched, total = create_scheduler_v2(opt, num_epochs=epochs, updates_per_epoch=updates, **given)
    rates = []
    for step in range(1000):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        sched.step_update(step + 1)
        if (step + 1) % updates == 0:
            sched.step((step + 1) // updates)
    ours = {k: v for k, v in options.items() if k not in ("sched", "step_on_epochs")}
    ours["sched_on_updates"] = "false" if options.get("step_on_epochs", True) else "true"
    ours = {k: ":".join(map(str, v)) if isinstance(v, list) else str(v).lower() if isinstance(v, bool) else v for k, v in ours.items()}
    return dict(kind="timm_" + options["sched"], warmup=0, total=int(total) * updates, epoch=updates, options=ours, lr=rates)


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
        # Rates after the end of the run are compared only if the schedule then keeps its last value.
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
    for kind, options in LONG:
        opt = optimizer()
        sched = get_scheduler(kind, opt, 100, 1000, scheduler_specific_kwargs=dict(options))
        cases.append(dict(kind=kind, warmup=100, total=1000, options=options, lr=rates(opt, sched, 1000)))
    for kind, name, options in LONG_DECAY:
        opt = optimizer()
        sched = getattr(torch.optim.lr_scheduler, name)(opt, **options)
        given = {k: ":".join(map(str, v)) if isinstance(v, list) else v for k, v in options.items()}
        cases.append(dict(kind=kind, warmup=0, total=1000, options=given, lr=rates(opt, sched, 1000)))
    for options in LONG_ONE:
        opt = optimizer()
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, LR, total_steps=1000, **options)
        cases.append(dict(kind="one_cycle", warmup=0, total=1000, options=options, lr=rates(opt, sched, 1000)))
    cases += [timm_case(*c) for c in TIMM]
    averaged = []  # SWALR after a schedule
    for kind, start, anneal, strategy, rate in [("cosine", 700, 50, "cos", 1e-4), ("linear", 20, 7, "linear", 5e-4),
                                                ("constant", 0, 10, "cos", 1e-5), ("cosine", 500, 0, "cos", 2e-4)]:
        opt = optimizer()
        sched = get_scheduler(kind, opt, 0, 1000)
        swa = torch.optim.swa_utils.SWALR(opt, rate, anneal, strategy) if start == 0 else None
        found = []
        for step in range(1000):
            found.append(opt.param_groups[0]["lr"])
            opt.step()
            if step + 1 <= start:
                sched.step()
            else:
                swa.step()
            if step + 1 == start:
                swa = torch.optim.swa_utils.SWALR(opt, rate, anneal, strategy)
        averaged.append(dict(kind=kind, start=start, anneal=anneal, strategy=strategy, swa_lr=rate, lr=found))
    warmups = []
    for warmup in [0, 0.1, 0.06, 0.07, 0.5, 0.999, 1, 3, 100]:
        args = SimpleNamespace(warmup_steps=warmup)  # constructing TrainingArguments needs accelerate
        warmups += [[warmup, total, TrainingArguments.get_warmup_steps(args, total)] for total in (1, 7, 10, 30, 100, 250, 12345)]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schedule.json"), "w") as f:
        json.dump(dict(lr=LR, cases=cases, averaged=averaged, warmups=warmups), f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
