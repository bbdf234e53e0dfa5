#!/usr/bin/env python3
"""Classifiers of scikit-learn as skl2onnx exports them, with the probabilities that scikit-learn computes.

Needs scikit-learn, skl2onnx and onnx (made with 1.9.1, 1.20.0 and 1.23.2). Writes into this folder: NAME.onnx,
rows.csv (four numbers and the label that the model is asked for) and expected.json (accuracy, log loss and the
probabilities of the first rows).
"""
import csv
import json
import pathlib

import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skl2onnx import to_onnx

HERE = pathlib.Path(__file__).parent
X = load_iris().data.astype("f4")[::3]
Y = load_iris().target[::3]
NAMES = np.array(["zeta", "alpha", "mid"])
EXPECTED = {}


def write(name, model, y, zipmap):
    model.fit(X, y)
    onnx = to_onnx(model, X[:1], options={id(model): {"zipmap": zipmap}}, target_opset=17)
    (HERE / f"{name}.onnx").write_bytes(onnx.SerializeToString())
    p = model.predict_proba(X)
    EXPECTED[name] = {
        "classes": [str(c) for c in model.classes_],
        "accuracy": float((model.predict(X) == y).mean()),
        "log_loss": float(log_loss(y, p)),
        "probabilities": np.round(p[:5], 7).tolist(),
        "predicted": [str(c) for c in model.predict(X)],
    }
    with open(HERE / f"{name}.csv", "w", newline="") as f:
        rows = csv.writer(f)
        rows.writerow(["f0", "f1", "f2", "f3", "label"])
        rows.writerows([*[f"{v:.9g}" for v in x], k] for x, k in zip(X, y))


write("softmax_text_zip", LogisticRegression(C=0.05), NAMES[Y], True)
write("softmax_numbers", LogisticRegression(C=0.05), np.array([5, 20, 100])[Y], False)
write("logistic_zip", LogisticRegression(C=0.01), (Y == 2).astype(int), True)
write("scaled", make_pipeline(StandardScaler(), LogisticRegression(C=0.02)), Y, True)
write("network_zip", MLPClassifier((6,), max_iter=120, random_state=0), NAMES[Y], True)
write("network_binary", MLPClassifier((6,), max_iter=80, random_state=0), (Y == 2).astype(int), False)
(HERE / "expected.json").write_text(json.dumps(EXPECTED, indent=1) + "\n")
