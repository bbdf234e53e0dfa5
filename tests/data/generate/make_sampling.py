#!/usr/bin/env python3
"""Writes sampling.json: probabilities of the next token after the logits processors of transformers, in the order in
which its generate() applies them (repetition penalty, temperature, top-k, top-p)."""
import json
import os
import torch
from transformers.generation.logits_process import (RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
                                                    TopKLogitsWarper, TopPLogitsWarper)

torch.manual_seed(3)
cases = []
for temperature, top_k, top_p, penalty in [(1.0, 0, 1.0, 1.0), (0.7, 0, 0.6, 1.0), (1.5, 8, 0.9, 1.0),
                                           (1.0, 0, 1.0, 1.8), (0.8, 5, 0.75, 1.3), (1.0, 0, 0.01, 1.0)]:
    logits = 2 * torch.randn(1, 16)
    before = torch.randint(0, 16, (1, 7))
    x = logits
    if penalty != 1:
        x = RepetitionPenaltyLogitsProcessor(penalty)(before, x)
    best = int(x.argmax())
    x = TemperatureLogitsWarper(temperature)(before, x)
    if top_k:
        x = TopKLogitsWarper(top_k)(before, x)
    if top_p < 1:
        x = TopPLogitsWarper(top_p)(before, x)
    cases.append({"temperature": temperature, "top_k": top_k, "top_p": top_p, "repetition_penalty": penalty,
                  "before": before[0].tolist(), "logits": logits[0].tolist(), "likeliest": best,
                  "probabilities": torch.softmax(x, -1)[0].tolist()})
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "sampling.json"), "w") as f:
    json.dump(cases, f, indent=1)
    f.write("\n")
