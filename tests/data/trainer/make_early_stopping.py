"""Writes early_stopping.json: for several series of evaluations, the evaluation after which Hugging Face's Trainer
stops, and the one that it reports as the best."""

import json
import os

import torch
import transformers
from transformers import EarlyStoppingCallback, Trainer, TrainerControl, TrainerState, TrainingArguments

CASES = [("min", 0.0), ("max", 0.0), ("min", 0.02), ("max", 0.02), ("min", 0.1), ("max", 1.5)]


def main():
    torch.manual_seed(7)
    cases = []
    for mode, threshold in CASES:
        x = torch.linspace(0, 3, 40, dtype=torch.float64)
        metrics = ((torch.exp(-x) if mode == "min" else 1 - torch.exp(-x)) + 0.01 * torch.randn(40, dtype=torch.float64)).tolist()
        metrics[20] = float("nan")
        trainer = Trainer.__new__(Trainer)  # only the rule, which needs the Trainer's state and arguments
        trainer.args = TrainingArguments(metric_for_best_model="x", greater_is_better=mode == "max", output_dir="none")
        trainer.state, control = TrainerState(), TrainerControl()
        callback = EarlyStoppingCallback(10**6, threshold)
        since, best = [], []
        for step, m in enumerate(metrics):
            trainer.state.global_step = step
            callback.on_evaluate(trainer.args, trainer.state, control, {"eval_x": m})
            trainer._determine_best_metric({"eval_x": m}, None)
            since.append(callback.early_stopping_patience_counter)
            best.append(trainer.state.best_global_step)
        cases.append({"mode": mode, "threshold": threshold, "metrics": [None if m != m else m for m in metrics],
                      "since": since, "best": best})  # fmt: skip
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "early_stopping.json"), "w") as f:
        json.dump({"transformers": transformers.__version__, "cases": cases}, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
