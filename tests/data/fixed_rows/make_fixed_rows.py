"""Makes models whose graphs contain the batch size of their export, and their losses under PyTorch's SGD.

Run with torch 2.11 and onnxscript: python make_fixed_rows.py. Writes NAME.onnx, data.npz and golden.json.
golden.json: by name the batch size, the loss of every step of an epoch (rows in order, the last batch is short), and
the loss over all rows afterwards. The dynamo exporter folds a repeated parameter into a tensor of equal rows.
"""
import json
import os

import numpy as np
import onnx
import torch


class View(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 8), torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)).view(int(x.shape[0]), 2, 4).mean(1))


class Joined(torch.nn.Module):
    """A learned query beside every row."""

    def __init__(self, repeat):
        super().__init__()
        self.q, self.repeat = torch.nn.Parameter(torch.randn(1, 4)), repeat
        self.a, self.b = torch.nn.Linear(6, 4), torch.nn.Linear(8, 3)

    def forward(self, x):
        rows = int(x.shape[0])
        q = self.q.repeat(rows, 1) if self.repeat else self.q.expand(rows, 4)
        return self.b(torch.cat([torch.relu(self.a(x)), q], 1))


class Gather(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 4), torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x))[torch.arange(int(x.shape[0]))])


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.b = torch.nn.LSTM(6, 8, batch_first=True), torch.nn.Linear(8, 3)

    def forward(self, x):
        zero = torch.zeros(1, int(x.shape[0]), 8)
        return self.b(self.l(x[:, None, :], (zero, zero))[0][:, -1])


class Heads(torch.nn.Module):
    """Attention whose heads are rows: (B * 2, 2, 4)."""

    def __init__(self):
        super().__init__()
        self.e, self.b = torch.nn.Linear(6, 16), torch.nn.Linear(4, 3)

    def forward(self, x):
        rows = int(x.shape[0])
        h = self.e(x).view(rows, 2, 2, 4).transpose(1, 2).reshape(rows * 2, 2, 4)
        h = torch.softmax(h @ h.transpose(1, 2), -1) @ h
        return self.b(h.view(rows, 2, 2, 4).mean((1, 2)))


class Token(torch.nn.Module):
    """A class token before every sequence."""

    def __init__(self):
        super().__init__()
        self.q = torch.nn.Parameter(torch.randn(1, 1, 4))
        self.a, self.b = torch.nn.Linear(6, 8), torch.nn.Linear(4, 3)

    def forward(self, x):
        rows = int(x.shape[0])
        h = torch.cat([self.q.expand(rows, -1, -1), self.a(x).view(rows, 2, 4)], 1)
        return self.b((torch.softmax(h @ h.transpose(1, 2), -1) @ h)[:, 0])


class State(torch.nn.Module):
    """Learned first states."""

    def __init__(self):
        super().__init__()
        self.h, self.c = (torch.nn.Parameter(torch.randn(1, 1, 8)) for _ in range(2))
        self.l, self.b = torch.nn.LSTM(6, 8, batch_first=True), torch.nn.Linear(8, 3)

    def forward(self, x):
        rows = int(x.shape[0])
        return self.b(self.l(x[:, None, :], (self.h.expand(1, rows, 8).contiguous(), self.c.repeat(1, rows, 1)))[0][:, -1])


class Slots(torch.nn.Module):
    """Two learned slots for every row, repeated as a whole."""

    def __init__(self):
        super().__init__()
        self.q = torch.nn.Parameter(torch.randn(2, 4))
        self.a, self.b = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x):
        rows = int(x.shape[0])
        return self.b((self.q.repeat(rows, 1).view(rows, 2, 4) * self.a(x).view(rows, 2, 4)).view(rows, 8))


class First(torch.nn.Module):
    """The first rows of a batch: all of them, when the file was made."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 4), torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x[:int(x.shape[0])])))


KINDS = {"token": Token, "state": State, "slots": Slots, "first": First, "view": View, "expand": lambda: Joined(False), "repeat": lambda: Joined(True), "gather": Gather,
         "lstm": Recurrent, "heads": Heads}
CASES = [("view", 8, "ts"), ("view", 32, "dynamo"), ("expand", 8, "ts"), ("expand", 2, "ts"), ("repeat", 8, "ts"),
         ("gather", 8, "dynamo"), ("gather", 2, "ts"), ("gather", 1, "ts"), ("lstm", 8, "ts"), ("lstm", 32, "dynamo"),
         ("heads", 2, "dynamo"), ("heads", 8, "ts"), ("expand", 8, "dynamo"), ("repeat", 32, "dynamo"),
         ("token", 8, "dynamo"), ("state", 2, "dynamo"), ("slots", 8, "dynamo"), ("first", 8, "ts")]


def export(model, rows, exporter, path):
    names = {"input_names": ["x"], "output_names": ["y"]}
    if exporter == "dynamo":
        torch.onnx.export(model, (torch.randn(rows, 6),), path, dynamo=True, external_data=False, verbose=False, **names)
        proto = onnx.load(path)
        for node in proto.graph.node:
            del node.metadata_props[:]
        del proto.graph.metadata_props[:]
        for v in list(proto.graph.value_info) + list(proto.graph.input) + list(proto.graph.output):
            del v.metadata_props[:]
        onnx.save(proto, path)
    else:
        torch.onnx.export(model, (torch.zeros(rows, 6),), path, dynamo=False, opset_version=17,
                          dynamic_axes={"x": {0: "b"}, "y": {0: "b"}}, **names)


def train(model, x, y, rows):
    loss, steps = torch.nn.CrossEntropyLoss(), []
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for at in range(0, len(x), rows):
        sgd.zero_grad()
        value = loss(model(x[at:at + rows]), y[at:at + rows])
        value.backward()
        sgd.step()
        steps.append(value.item())
    return {"rows": rows, "steps": steps, "after": loss(model(x), y).item()}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 6)).astype(np.float32), rng.integers(0, 3, 100)
    np.savez(os.path.join(here, "data.npz"), x=x, label=y)
    golden = {}
    cases = [c for c in CASES]
    if os.environ.get("ALL"):
        cases = [(k, b, e) for k in KINDS for b in (1, 2, 8, 32) for e in ("ts", "dynamo")]
    for kind, rows, exporter in cases:
        torch.manual_seed(0)
        model = KINDS[kind]().eval()
        name = f"{kind}_{rows}_{exporter}"
        export(model, rows, exporter, os.path.join(here, name + ".onnx"))
        golden[name] = train(model, torch.from_numpy(x), torch.from_numpy(y), rows)
    with open(os.path.join(here, "golden.json"), "w") as f:
        json.dump(golden, f, indent=1)


if __name__ == "__main__":
    main()
