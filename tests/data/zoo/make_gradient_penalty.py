"""Writes gradient_penalty.safetensors into entries of this folder: the gradients of loss + 10 (n - 1)^2, where n is the norm
of a row of d(sum of the output) / d(a value of the model). They are computed by torch.autograd.grad(create_graph=True) in
float64 on the entry's graph (bench/onnx_torch.py). At most 128 elements of every tensor are stored. The metadata have
the value's name, both losses, the largest element, and the relative difference of torch's float32 run. Needs torch,
onnxruntime.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bench"))
from fidelity import loss_of  # noqa: E402
from hessian import TwiceGraph  # noqa: E402

KEPT, WEIGHT, TARGET = 128, 10, 1
# A model's input, or a value in its graph (for texts, the result of the embeddings).
ENTRIES = {
    "lenet_relu_dyn18": "input",
    "autoencoder_ts11": "x",
    "convnext_ts17": "input",
    "resnet_train_ts17": "input",
    "rnn_lstm_ts14": None,
    "unet_convt_ce_dyn18": "input",
    "bert_cls_eager_ts14": None,
    "bert_cls_sdpa_dyn18": None,
}


class Penalized(TwiceGraph):
    """A graph in which an input, too, can be a leaf of torch's autograd."""

    def __init__(self, path, batch, trained, value):
        super().__init__(path, batch, trained)
        if value in batch:
            self.trained.append(value)
            self.reached.add(value)
            for n in self.nodes:
                if n.op_type not in ("Shape", "Size") and any(i in self.reached for i in n.input):
                    self.reached.update(o for o in n.output if o)


def embedded(graph, rows):
    """Returns the first value of shape (rows, positions, width) that depends on a parameter."""
    for n in graph.nodes:
        for o in n.output:
            if o in graph.reached and graph.values[o].ndim == 3 and graph.values[o].shape[0] == rows:
                return o
    raise RuntimeError("no such value")


def gradients(folder, value, dtype):
    ref = json.loads((folder / "ref.json").read_text())
    batch = load_file(folder / "batch.safetensors")
    names = [p["onnx"] for p in ref["params"]]
    feed = {k: x for k, x in batch.items() if k != "label"}
    if value is None:
        value = embedded(TwiceGraph(folder / "model.onnx", feed, names), len(batch["label"]))
    graph = Penalized(folder / "model.onnx", feed, names, value)
    graph.batch_statistics = "batch" in ref["batchnorm"]
    outputs, leaves = graph.run([*ref["outputs"], value], dtype)
    loss = loss_of(ref["loss_kind"], [outputs[o] for o in ref["outputs"]], batch["label"])
    x = outputs[value]
    (g,) = torch.autograd.grad(outputs[ref["outputs"][0]].sum(), x, create_graph=True)
    penalty = ((g.reshape(g.shape[0], -1).norm(dim=1) - TARGET) ** 2).mean()
    total = loss + WEIGHT * penalty
    got = torch.autograd.grad(total, [leaves[n] for n in names], allow_unused=True)
    by_name = {n: torch.zeros_like(leaves[n]) if h is None else h for n, h in zip(names, got)}
    return value, penalty.item(), total.item(), {n: h.double().numpy() for n, h in by_name.items()}


def main():
    for entry, wanted in ENTRIES.items():
        folder = HERE / entry
        value, penalty, total, want = gradients(folder, wanted, torch.float64)
        _, _, _, narrow = gradients(folder, wanted, torch.float32)
        largest = max(np.abs(w).max() for w in want.values())
        noise = max(np.abs(want[n] - narrow[n]).max() for n in want) / largest
        print(entry, value, "penalty", penalty, "total", total, "float32 differs by", noise)
        kept = {n: np.ascontiguousarray(w.reshape(-1)[:: -(-w.size // KEPT)].astype(np.float32)) for n, w in want.items()}
        facts = dict(value=value, penalty=penalty, total=total, largest=float(largest), noise=float(noise), weight=WEIGHT, target=TARGET)
        save_file(kept, folder / "gradient_penalty.safetensors", {"run": json.dumps(facts)})


if __name__ == "__main__":
    main()
