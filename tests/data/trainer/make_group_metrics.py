#!/usr/bin/env python3
"""Writes group_metrics.json: logits, labels and groups of 60 samples, and scikit-learn's accuracy and macro F1 of each
group."""
import json
import os

import numpy as np
from sklearn.metrics import accuracy_score, f1_score

rng = np.random.default_rng(7)
n, classes, names = 60, 3, ["de", "en", "zh"]
labels = rng.integers(0, classes, n)
logits = rng.normal(size=(n, classes)).round(3)
logits[np.arange(n), labels] += 0.8
groups = rng.choice(len(names), n, p=[0.5, 0.4, 0.1])
found = logits.argmax(1)
expected = {}
for g, name in enumerate(names):
    at = groups == g
    expected[name] = {
        "samples": int(at.sum()),
        "accuracy": float(accuracy_score(labels[at], found[at])),
        "macro_f1": float(f1_score(labels[at], found[at], average="macro")),
    }
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "group_metrics.json"), "w") as f:
    json.dump({"logits": logits.round(3).ravel().tolist(), "labels": labels.tolist(), "groups": groups.tolist(), "names": names,
               "expected": expected}, f)
    f.write("\n")
