"""Writes ordinal.json: logits of K - 1 thresholds, labels and the metrics of the predicted classes by scikit-learn. Logits are multiples
of 1/64, which are exact in fp32. Some are not in descending order, because the outputs of a model are independent."""
import json
import os

import numpy as np
from sklearn import metrics

rng = np.random.default_rng(5)


def case(k, n, present):
    y = rng.choice(present, n)
    x = np.round((y[:, None] - np.arange(k - 1) - 0.5 + rng.normal(size=(n, k - 1))) * 64) / 64
    g = (x > 0).sum(1)
    kappa = metrics.cohen_kappa_score(y, g, labels=range(k), weights="quadratic")
    return {"classes": k, "labels": y.tolist(), "logits": x.reshape(-1).tolist(), "predicted": g.tolist(),
            "metrics": {"accuracy": metrics.accuracy_score(y, g), "mae": metrics.mean_absolute_error(y, g), "quadratic_kappa": kappa}}


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ordinal.json"), "w") as f:
    json.dump([case(5, 60, range(5)), case(3, 40, range(3)), case(4, 30, [0, 3]), case(2, 25, [0, 1]), case(7, 80, range(7))], f,
              separators=(",", ":"))
    f.write("\n")
