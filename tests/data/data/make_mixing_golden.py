"""Writes mixing.json: batches mixed by timm's Mixup, with its rectangles for given shares and centers. Needs timm, torch."""
import json
import os
from unittest import mock

import numpy as np
import torch
from timm.data import mixup

torch.manual_seed(3)
cases = []


def case(rows, height, width, classes, cut, share, centre):
    x = torch.randn(rows, 2, height, width)
    y = torch.randint(0, classes, (rows,))
    tool = mixup.Mixup(mixup_alpha=0.0 if cut else 1.0, cutmix_alpha=1.0 if cut else 0.0, label_smoothing=0.0, num_classes=classes)
    with mock.patch.object(np.random, "beta", lambda *a, **k: share), mock.patch.object(
        np.random, "randint", lambda low, high, size=None: centre[0] if high == height else centre[1]
    ):
        mixed, target = tool(x.clone(), y)
    cases.append(
        dict(dims=list(x.shape), classes=classes, cut=cut, share=share, y=centre[0], x=centre[1], images=x.flatten().tolist(),
             labels=y.tolist(), mixed=mixed.flatten().tolist(), target=target.flatten().tolist())
    )  # fmt: skip


case(4, 5, 7, 3, False, 0.3, (0, 0))
case(6, 3, 4, 5, False, 0.75, (0, 0))
case(4, 6, 9, 3, True, 0.4, (3, 4))
case(2, 8, 5, 4, True, 0.1, (0, 4))
case(6, 7, 8, 4, True, 0.95, (6, 0))
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mixing.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
