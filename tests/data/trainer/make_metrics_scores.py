"""Writes metrics_scores.json: metrics of classes, of their probabilities and of numbers, by scikit-learn. Logits are multiples of 1/64,
which are exact in fp32. Some rows of two classes are equal, so that ranks have ties."""
import json
import os
import warnings

import numpy as np
from scipy.special import softmax
from sklearn import metrics
from sklearn.calibration import calibration_curve
from sklearn.preprocessing import label_binarize

warnings.filterwarnings("ignore")
rng = np.random.default_rng(11)


def number(x):
    return None if not np.isfinite(x) else float(x)


def ece(right, top, bins=15):
    truth, mean = calibration_curve(right, top, n_bins=bins, strategy="uniform")
    edges = np.linspace(0, 1, bins + 1)
    counts = np.bincount(np.searchsorted(edges[1:-1], top), minlength=bins)
    return float(np.sum(np.abs(truth - mean) * counts[counts > 0]) / len(top))


def classes(c, n, present):
    y = rng.choice(present, n)
    x = np.round((rng.normal(size=(n, c)) + 1.5 * np.eye(c)[y] * (rng.random((n, 1)) < 0.7)) * 64) / 64
    if c == 2:
        x[: n // 3] = np.round(x[: n // 3] * 2) / 2  # ties
    p = softmax(x, axis=1)
    g = p.argmax(1)
    full = len(set(y)) == c
    labels = range(c)
    out = {
        "macro_precision": metrics.precision_score(y, g, average="macro", zero_division=0),
        "macro_recall": metrics.recall_score(y, g, average="macro", zero_division=0),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, g),
        "weighted_f1": metrics.f1_score(y, g, average="weighted", zero_division=0),
        "mcc": metrics.matthews_corrcoef(y, g),
        "auroc": np.nan if not full else metrics.roc_auc_score(y, p[:, 1]) if c == 2 else metrics.roc_auc_score(y, p, multi_class="ovr"),
        "average_precision": metrics.average_precision_score(y, p[:, 1]) if c == 2 else metrics.average_precision_score(label_binarize(y, classes=labels), p),
        "log_loss": metrics.log_loss(y, p, labels=labels),
        "ece": ece(y == g, p.max(1)),
    }
    if c == 2:
        out["binary_f1"] = metrics.f1_score(y, g, labels=[0, 1], zero_division=0)
    if c > 5:
        out["top5_accuracy"] = metrics.top_k_accuracy_score(y, p, k=5, labels=labels)
    precision, recall, f1, support = metrics.precision_recall_fscore_support(y, g, labels=labels, zero_division=0)
    return {"classes": c, "labels": y.tolist(), "logits": x.reshape(-1).tolist(), "metrics": {k: number(v) for k, v in out.items()},
            "confusion_matrix": metrics.confusion_matrix(y, g, labels=labels).tolist(),
            "per_class": [dict(precision=precision[k], recall=recall[k], f1=f1[k], support=int(support[k])) for k in labels]}


def numbers(n, constant=False):
    y = np.ones(n) if constant else np.round(rng.normal(size=n), 2)
    p = np.round(y + rng.normal(size=n), 2)
    some = y != 0
    return {"wanted": y.tolist(), "predicted": p.tolist(),
            "metrics": {"rmse": number(metrics.root_mean_squared_error(y, p)), "r2": number(metrics.r2_score(y, p)),
                        "rmspe": number(metrics.root_mean_squared_error(np.ones(some.sum()), p[some] / y[some]))}}


out = {"classes": [classes(2, 60, [0, 1]), classes(2, 9, [0]), classes(3, 50, [0, 1, 2]), classes(4, 40, [0, 1, 3]), classes(7, 80, range(7)), classes(2, 1, [1])],
       "numbers": [numbers(40), numbers(2), numbers(5, True), numbers(1)]}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics_scores.json"), "w") as f:
    json.dump(out, f, separators=(",", ":"))
    f.write("\n")
