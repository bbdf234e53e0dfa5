"""The jobs of recipes.py as commonly written in PyTorch. Data are read by Pillow, torchvision,
numpy, the csv module and Hugging Face's tokenizer; networks start with the weights of the
program's own file (`create`, the sentence model). A job has: model, rows (of training data),
batches(rng), loss(batch), score().
"""

import csv
import gzip
import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn

import common
import convergence

functional = nn.functional


def initializers(path):
    """Returns the floating weights of an ONNX file written by `create`; the networks below have the same parameter
    names."""
    import onnx
    from onnx import numpy_helper

    tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load(str(path)).graph.initializer}
    return {n: torch.from_numpy(v.copy()) for n, v in tensors.items() if "/" not in n and v.dtype == np.float32}


def begin_with(model, path):
    missing, unexpected = model.load_state_dict(initializers(path), strict=False)
    missing = [n for n in missing if not n.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise SystemExit(f"{path}: missing {missing}, unexpected {unexpected}")
    return model


def in_turn(rows, size, rng):
    order = rng.permutation(rows)
    return [order[i : i + size] for i in range(0, rows, size)]


# --- Fashion-MNIST ---------------------------------------------------------------------------------------------------


class LeNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        (a, b), (k, m), (hidden,) = c["channels"], c["kernels"], c["hidden"]
        side = ((28 - k + 1) // 2 - m + 1) // 2
        self.conv1, self.conv2 = nn.Conv2d(1, a, k), nn.Conv2d(a, b, m)
        self.fc1, self.fc2 = nn.Linear(b * side * side, hidden), nn.Linear(hidden, 10)

    def forward(self, x):
        x = functional.avg_pool2d(self.conv1(x).relu(), 2)
        x = functional.avg_pool2d(self.conv2(x).relu(), 2)
        return self.fc2(self.fc1(x.flatten(1)).relu())


class FashionMnist:
    def __init__(self, spec):
        self.model = begin_with(LeNet(json.loads(Path(spec["model_config"]).read_text())), spec["model"])
        self.batch_size, limit = spec["config"]["batch_size"], spec["limit"] or None
        read = lambda name: convergence.idx(Path(spec["data"]) / name)
        images = lambda name: torch.from_numpy(read(name).astype(np.float32)[:, None] / 255)
        self.x, self.vx = images("train-images-idx3-ubyte.gz")[:limit], images("t10k-images-idx3-ubyte.gz")
        self.y = torch.from_numpy(read("train-labels-idx1-ubyte.gz").astype(np.int64))[:limit]
        self.vy = torch.from_numpy(read("t10k-labels-idx1-ubyte.gz").astype(np.int64))
        self.rows = len(self.x)

    def batches(self, rng):
        return in_turn(self.rows, self.batch_size, rng)

    def loss(self, rows):
        return functional.cross_entropy(self.model(self.x[rows]).float(), self.y[rows])

    def score(self):
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in zip(self.vx.split(256), self.vy.split(256)))
        return {"accuracy": hits / len(self.vy)}


# --- Rossmann --------------------------------------------------------------------------------------------------------


class Tabular(nn.Module):
    def __init__(self, c):
        super().__init__()
        widths = [min(600, round(1.6 * n**0.56)) for n in c["categories"]]
        self.embeds = nn.ModuleList(nn.Embedding(n, w) for n, w in zip(c["categories"], widths))
        self.bn_cont = nn.BatchNorm1d(c["continuous"])
        self.embed_drop = nn.Dropout(c.get("embedding_dropout", 0))
        width, self.layers, drop = sum(widths) + c["continuous"], nn.ModuleList(), nn.Dropout(c.get("dropout", 0))
        for n in c["hidden"]:
            self.layers.append(nn.ModuleDict({"linear": nn.Linear(width, n), "norm": nn.BatchNorm1d(n), "drop": drop}))
            width = n
        self.out = nn.Linear(width, 1)

    def forward(self, codes, numbers):
        x = torch.cat([e(codes[:, i]) for i, e in enumerate(self.embeds)], 1)
        x = torch.cat([self.embed_drop(x), self.bn_cont(numbers)], 1)
        for layer in self.layers:
            x = layer["drop"](layer["norm"](layer["linear"](x).relu()))
        return self.out(x)[:, 0]


def dated(rows):
    """Returns columns of a table of days with the parts of their dates, as lists of texts."""
    import datetime

    columns = {k: [r[k] for r in rows] for k in rows[0]}
    days = {d: datetime.date.fromisoformat(d) for d in set(columns["Date"])}
    parts = {d: (str(x.year), str(x.month), str(x.isocalendar().week), str(x.day)) for d, x in days.items()}
    for i, name in enumerate(("Year", "Month", "Week", "Day")):
        columns[name] = [parts[d][i] for d in columns["Date"]]
    return columns


class Rossmann:
    """Categories by scikit-learn's OrdinalEncoder (from 1, 0 is unknown or missing), numbers by its SimpleImputer and StandardScaler."""

    def __init__(self, spec):
        from sklearn.impute import SimpleImputer
        from sklearn.preprocessing import OrdinalEncoder, StandardScaler

        c = spec["config"]
        self.model = begin_with(Tabular(json.loads(Path(spec["model_config"]).read_text())), spec["model"])
        self.batch_size = c["batch_size"]
        with open(spec["join"], newline="") as f:
            stores = {row["Store"]: row for row in csv.DictReader(f)}

        def table(path, limit=None):
            with open(path, newline="") as f:
                rows = [r | stores[r["Store"]] for r in csv.DictReader(f)][:limit]
            columns = dated(rows)
            texts = np.array([[v or np.nan for v in columns[n]] for n in c["categorical"]], object).T
            numbers = np.array([[float(v or "nan") for v in columns[n]] for n in c["continuous"]], np.float64).T
            return texts, numbers, np.array(columns[c["target"]], np.float64)

        texts, numbers, sales = table(spec["train"], spec["limit"] or None)
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1)
        fill, scale = SimpleImputer(strategy="median", add_indicator=True), StandardScaler()
        n = len(c["continuous"])

        def features(texts, numbers, fit):
            ids = (codes.fit_transform(texts) if fit else codes.transform(texts)) + 1
            filled = fill.fit_transform(numbers) if fit else fill.transform(numbers)
            filled[:, :n] = scale.fit_transform(filled[:, :n]) if fit else scale.transform(filled[:, :n])
            return torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(filled.astype(np.float32))

        self.ids, self.x = features(texts, numbers, True)
        self.y = torch.from_numpy(np.log1p(sales).astype(np.float32))
        texts, numbers, self.sales = table(spec["val"])
        self.vids, self.vx = features(texts, numbers, False)
        self.rows = len(self.x)

    def batches(self, rng):
        return in_turn(self.rows, self.batch_size, rng)

    def loss(self, rows):
        return functional.mse_loss(self.model(self.ids[rows], self.x[rows]).float(), self.y[rows])

    def score(self):
        parts = [self.model(i, x).float() for i, x in zip(self.vids.split(512), self.vx.split(512))]
        predicted = np.expm1(torch.cat(parts).double().numpy())
        return {"rmspe": float(np.sqrt(np.mean(((self.sales - predicted) / self.sales) ** 2)))}


# --- GLUE ------------------------------------------------------------------------------------------------------------


class Sentences:
    def __init__(self, spec):
        import torch_minilm
        from transformers import BertTokenizerFast

        c = spec["config"]
        self.batch_size, limit = c["batch_size"], spec["limit"] or None
        tokenizer = BertTokenizerFast(vocab=spec["vocab"], do_lower_case=True)

        def table(path, columns, limit=None):
            with open(path, encoding="utf-8-sig") as f:
                rows = [line.rstrip("\r\n").split("\t") for line in f]
            at = [rows[0].index(n) for n in columns]
            texts = [[r[i] for i in at] for r in rows[1:]][:limit]
            label = [int(r[rows[0].index(spec["label"])]) for r in rows[1:]][:limit]
            ids = tokenizer(*map(list, zip(*texts)), truncation=True, max_length=c["max_seq_len"])["input_ids"]
            return ids, torch.tensor(label)

        self.ids, self.y = table(spec["train"], spec["columns"], limit)
        self.vids, self.vy = table(spec["val"], spec["val_columns"])
        self.rows = len(self.ids)
        self.model = torch_minilm.load(spec["binary"], spec["model"], 2, spec["seed"], dropout=0.1)

    def logits(self, ids, rows):
        ids, mask = common.pad([ids[i] for i in rows])
        return self.model(torch.from_numpy(ids), torch.from_numpy(mask)).float()

    def batches(self, rng):
        return common.grouped_batches([len(t) for t in self.ids], self.batch_size, rng)

    def loss(self, rows):
        return functional.cross_entropy(self.logits(self.ids, rows), self.y[rows])

    def score(self):
        from sklearn.metrics import accuracy_score, f1_score

        order = np.argsort([len(t) for t in self.vids], kind="stable")
        predicted = np.zeros(len(order), np.int64)
        for at in range(0, len(order), self.batch_size):
            rows = order[at : at + self.batch_size]
            predicted[rows] = self.logits(self.vids, rows).argmax(1).numpy()
        truth = self.vy.numpy()
        return {"accuracy": float(accuracy_score(truth, predicted)), "f1": float(f1_score(truth, predicted))}


# --- CamVid ----------------------------------------------------------------------------------------------------------


class Twice(nn.Module):
    def __init__(self, into, out, up=False):
        super().__init__()
        if up:
            self.up = nn.ConvTranspose2d(into, out, 2, 2)
        self.conv1, self.norm1 = nn.Conv2d(into, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)

    def forward(self, x, across=None):
        if across is not None:
            x = torch.cat([across, self.up(x)], 1)
        x = self.norm1(self.conv1(x)).relu()
        return self.norm2(self.conv2(x)).relu()


class UNet(nn.Module):
    def __init__(self, channels, classes, width=32, depth=4):
        super().__init__()
        widths = [width << i for i in range(depth)]
        self.down = nn.ModuleList(Twice(a, b) for a, b in zip([channels, *widths], widths))
        self.middle = Twice(widths[-1], width << depth)
        self.up = nn.ModuleList(Twice(2 * w, w, up=True) for w in widths)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        across = []
        for level in self.down:
            across.append(level(x))
            x = functional.max_pool2d(across[-1], 2)
        x = self.middle(x)
        for level, y in zip(reversed(self.up), reversed(across)):
            x = level(x, y)
        return self.head(x)


def dice_and_entropy(logits, label, ignore, smooth=1e-5):
    valid = label != ignore
    truth = functional.one_hot(label.where(valid, 0), logits.shape[1]).permute(0, 3, 1, 2) * valid[:, None]
    p = logits.softmax(1) * valid[:, None]
    dice = (2 * (p * truth).sum((2, 3)) + smooth) / (p.sum((2, 3)) + truth.sum((2, 3)) + smooth)
    return (1 - dice.mean(1)).mean() + functional.cross_entropy(logits, label, ignore_index=ignore)


class CamVid:
    VOID, CLASSES = 11, 11

    def __init__(self, spec):
        self.batch_size, self.eval_size = spec["config"]["batch_size"], spec["config"]["eval_batch_size"]
        self.model = begin_with(UNet(3, self.CLASSES), spec["model"])
        folder = Path(spec["data"])
        self.train = self.pairs(folder, "train")[: spec["limit"] or None]
        self.val = [self.whole(*pair) for pair in self.pairs(folder, "val")]
        self.rows = len(self.train)
        from torchvision.transforms import ColorJitter

        self.jitter = ColorJitter(0.2, 0.2, 0.2)

    @staticmethod
    def pairs(folder, part):
        from PIL import Image

        names = sorted(p.name for p in (folder / part).iterdir())
        return [(Image.open(folder / part / n).convert("RGB"), Image.open(folder / f"{part}annot" / n)) for n in names]

    @staticmethod
    def tensors(image, mask):
        from torchvision.transforms.functional import to_tensor

        return to_tensor(image), torch.from_numpy(np.asarray(mask).astype(np.int64))

    def whole(self, image, mask):
        from torchvision.transforms.functional import InterpolationMode, resize

        return self.tensors(resize(image, [352, 480]), resize(mask, [352, 480], InterpolationMode.NEAREST))

    def cropped(self, image, mask):
        from torchvision.transforms import RandomCrop
        from torchvision.transforms.functional import crop, hflip

        place = RandomCrop.get_params(image, (256, 256))
        image, mask = crop(image, *place), crop(mask, *place)
        if torch.rand(()) < 0.5:
            image, mask = hflip(image), hflip(mask)
        return self.tensors(self.jitter(image), mask)

    def batches(self, rng):
        return in_turn(self.rows, self.batch_size, rng)

    def loss(self, rows):
        images, masks = zip(*(self.cropped(*self.train[i]) for i in rows))
        return dice_and_entropy(self.model(torch.stack(images)).float(), torch.stack(masks), self.VOID)

    def score(self):
        hits = np.zeros((self.CLASSES, self.CLASSES), np.int64)
        for at in range(0, len(self.val), self.eval_size):
            images, masks = zip(*self.val[at : at + self.eval_size])
            said, truth = self.model(torch.stack(images)).argmax(1).numpy(), torch.stack(masks).numpy()
            known = truth != self.VOID
            np.add.at(hits, (truth[known], said[known]), 1)
        both, either = np.diag(hits), hits.sum(0) + hits.sum(1) - np.diag(hits)
        there = either > 0
        return {"miou": float((both[there] / either[there]).mean()), "pixel_accuracy": float(both.sum() / hits.sum())}


JOBS = {"lenet": FashionMnist, "rossmann": Rossmann, "mrpc": Sentences, "sst2": Sentences, "camvid": CamVid}
