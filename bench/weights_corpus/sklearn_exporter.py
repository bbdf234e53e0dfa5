"""Cases that scikit-learn exports by skl2onnx: multilayer perceptrons after the scalers of a
pipeline.

The weights are `coefs_` and `intercepts_` of the perceptron, which have other values in the second
export (common.py). Means, scales and components of the other steps are constants.
"""

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import make_classification, make_regression
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from common import other_values, write_case

QUICK = {"hidden_layer_sizes": (24, 12), "max_iter": 30, "random_state": 0}


def classification(classes=3):
    return make_classification(300, 8, n_informative=6, n_classes=classes, random_state=1)


def cases():
    """Yields (half, name, opset, fitted pipeline, data)."""
    x, y = classification()
    yield "fit", "sklearn_scaled_classifier", 15, make_pipeline(StandardScaler(), MLPClassifier(**QUICK)).fit(x * 9 + 3, y), x * 9 + 3
    yield "fit", "sklearn_binary_tanh", 17, MLPClassifier(activation="tanh", **QUICK).fit(*classification(2)), x
    x, y = make_regression(300, 10, n_targets=2, random_state=2)
    yield "test", "sklearn_minmax_regressor", 13, make_pipeline(MinMaxScaler(), MLPRegressor(activation="logistic", **QUICK)).fit(x, y), x
    yield "test", "sklearn_pca_regressor", 18, make_pipeline(StandardScaler(), PCA(6), MLPRegressor(**QUICK)).fit(x, y), x
    x, y = classification()
    yield "heldout", "sklearn_robust_classifier", 14, make_pipeline(RobustScaler(), MLPClassifier(**QUICK)).fit(x * 5, y), x * 5
    yield "heldout", "sklearn_svd_classifier", 17, make_pipeline(TruncatedSVD(5), MLPClassifier(**QUICK)).fit(x, y), x
    x, y = make_regression(300, 5, random_state=3)
    yield "heldout", "sklearn_whitened_regressor", 16, make_pipeline(PCA(4, whiten=True), MLPRegressor(**QUICK)).fit(x, y), x


def build(root, only, halves):
    for half, name, opset, model, x in cases():
        if half not in halves or only and not any(o in name for o in only):
            continue
        rng, batch = np.random.default_rng(7), {"X": x[:8].astype(np.float32)}
        mlp = model[-1] if hasattr(model, "steps") else model
        options = {id(mlp): {"zipmap": False}} if isinstance(mlp, MLPClassifier) else None

        def redraw():
            mlp.coefs_ = [other_values(w, rng) for w in mlp.coefs_]
            mlp.intercepts_ = [other_values(b, rng) for b in mlp.intercepts_]

        write_case(root, half, name, "skl2onnx", name, lambda: to_onnx(model, batch["X"], options=options, target_opset=opset), redraw, batch)
