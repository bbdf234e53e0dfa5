"""Writes metrics.json (accuracy, macro-F1) and metrics_tasks.json (other tasks), by scikit-learn and scipy."""
import json
import os
import random
import warnings

import numpy
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, jaccard_score, mean_absolute_error, mean_squared_error

warnings.filterwarnings("ignore")


def main():
    r = random.Random(5)
    cases = []
    for classes, n, labels, predicted in [
        (3, 50, range(3), range(3)), (2, 1, range(2), range(2)), (5, 40, range(3), range(3)),  # 3, 4 do not occur
        (5, 40, range(3), range(5)), (5, 40, range(5), range(2)), (4, 30, [1], [1]), (4, 30, [1], [2]),
        (7, 200, range(7), range(7)),
    ]:
        y = [r.choice(list(labels)) for _ in range(n)]
        p = [t if t in predicted and r.random() < 0.5 else r.choice(list(predicted)) for t in y]
        cases.append(dict(classes=classes, labels=y, predicted=p, accuracy=accuracy_score(y, p),
                          macro_f1=f1_score(y, p, average="macro")))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics.json"), "w") as f:
        json.dump(cases, f, separators=(",", ":"))
        f.write("\n")


def tasks():
    rng = numpy.random.default_rng(3)
    out = dict(segmentation=[], multilabel=[], regression=[], span=[])
    for classes, n in [(4, 300), (6, 20), (2, 50)]:
        y, p = rng.integers(0, classes, n), rng.integers(0, classes, n)
        y[n // 2:] = p[n // 2:]
        out["segmentation"].append(dict(classes=classes, labels=y.tolist(), predicted=p.tolist(), miou=jaccard_score(y, p, average="macro"),
                                        dice=f1_score(y, p, average="macro"), accuracy=accuracy_score(y, p)))
    for rows, labels in [(40, 5), (7, 3), (30, 1)]:
        y = (rng.random((rows, labels)) < 0.3).astype(int)
        x = numpy.round(rng.normal(size=(rows, labels)) + 2 * y - 1, 3)
        if labels == 5:
            y[:, 4] = 0
            x[:, 4] = -1  # a kind that occurs in neither labels nor predictions
        p = (x > 0).astype(int)
        out["multilabel"].append(dict(labels=labels, truth=y.reshape(-1).tolist(), scores=x.reshape(-1).tolist(), exact_match=accuracy_score(y, p),
                                      micro_f1=f1_score(y.reshape(-1), p.reshape(-1)), macro_f1=float(numpy.mean([f1_score(y[:, k], p[:, k], zero_division=0) for k in range(labels)]))))
    for n in (50, 5):
        y = numpy.round(rng.normal(size=n), 1)  # ties
        p = numpy.round(y + rng.normal(size=n), 1)
        out["regression"].append(dict(wanted=y.tolist(), predicted=p.tolist(), mse=mean_squared_error(y, p), mae=mean_absolute_error(y, p),
                                      pearson=pearsonr(y, p)[0], spearman=spearmanr(y, p)[0]))
    rows, tokens = 20, 8
    start, end = numpy.round(rng.normal(size=(rows, tokens)), 3), numpy.round(rng.normal(size=(rows, tokens)), 3)
    found = [max(((i, j) for i in range(tokens) for j in range(i, tokens)), key=lambda s: start[r, s[0]] + end[r, s[1]]) for r in range(rows)]
    wanted = [found[r] if r % 3 == 0 else tuple(sorted(rng.integers(0, tokens, 2).tolist())) for r in range(rows)]

    def overlap(a, b):  # F1 of two sets of tokens
        a, b = set(range(a[0], a[1] + 1)), set(range(b[0], b[1] + 1))
        return 2 * len(a & b) / (len(a) + len(b))

    out["span"].append(dict(tokens=tokens, start=start.reshape(-1).tolist(), end=end.reshape(-1).tolist(), labels=[x for w in wanted for x in map(int, w)],
                            exact_match=float(numpy.mean([f == w for f, w in zip(found, wanted)])), span_f1=float(numpy.mean([overlap(f, w) for f, w in zip(found, wanted)]))))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics_tasks.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
    tasks()
