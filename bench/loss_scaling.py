"""Shows the need for loss scaling and fp32 master weights: the cases of "Mixed Precision Training"
(Micikevicius et al., 2018, section 3), run with the program on a regression whose targets are of
the order of 1e-4.

Plots docs/loss_scaling.svg: the loss of four runs, and the distribution of gradients relative to
fp16's smallest number. The run with fp16 weights without master weights takes one step per process,
each from the fp16 file that the previous one exported.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import common

UNIT = 2.0**-14  # the output is scaled by UNIT; the gradient contains UNIT twice
ROWS, INPUTS, HIDDEN = 128, 8, 32


def make_data(folder, rng):
    from safetensors.numpy import save_file

    x = rng.standard_normal((ROWS, INPUTS)).astype(np.float32)
    y = (UNIT * (x[:, 0] * x[:, 1] + np.sin(x[:, 2])))[:, None].astype(np.float32)
    save_file({"x": x, "label": y}, folder / "train.safetensors")
    return x, y


def make_model(path, rng):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = {
        "w1": rng.standard_normal((INPUTS, HIDDEN)).astype(np.float32) * 0.35,
        "w2": rng.standard_normal((HIDDEN, 1)).astype(np.float32) * 0.18,
    }
    unit = numpy_helper.from_array(np.array(UNIT, np.float32), "unit")
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], "first"),
        helper.make_node("Tanh", ["h"], ["a"], "act"),
        helper.make_node("MatMul", ["a", "w2"], ["o"], "second"),
        helper.make_node("Mul", ["o", "unit"], ["y"], "to_units"),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
        [numpy_helper.from_array(w, n) for n, w in weights.items()] + [unit],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return weights


def activation_gradients(x, y, weights):
    """Returns the gradients of the loss with respect to every value of the hidden layer and of the output before
    scaling by UNIT, in float64."""
    w1, w2 = (weights[n].astype(np.float64) for n in ("w1", "w2"))
    a = np.tanh(x @ w1)
    d_out = 2 * (a @ w2 * UNIT - y) / len(x) * UNIT
    d_a = d_out @ w2.T
    return np.concatenate([v.ravel() for v in (d_out, d_a, d_a * (1 - a * a))])


class Runs:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder

    def train(self, name, *flags, model=None, steps=None):
        out = self.folder / name
        common.run_ours(
            self.args.binary, model or self.folder / "model.onnx", "--train", self.folder / "train.safetensors", "--loss", "mse",
            "--optimizer", "sgd", "--lr", self.args.lr / UNIT**2, "--lr_scheduler", "constant", "--max_grad_norm", 0,
            "--batch_size", ROWS, "--shuffle", "false", "--max_steps", steps or self.args.steps, "--output_dir", out,
            "--overwrite", "--quiet", "--threads", 1, "--verify_export", "false", *flags,
        )  # fmt: skip
        with open(out / "metrics.jsonl") as f:
            return [json.loads(line) for line in f], out / "model.onnx"

    def without_masters(self):
        """Trains with fp16 weights only: after every step the weights are those of an fp16 file."""
        lines, model = [], None
        for step in range(self.args.steps):
            part, model = self.train(f"step{step % 2}", "--use_fp16", "--init_loss_scale", self.args.scale,
                                     "--export_precision", "fp16", model=model, steps=1)  # fmt: skip
            lines += part
        return lines


def draw(losses, gradients, path):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "loss_scaling"  # makes the file reproducible
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), constrained_layout=True)
    for name, style, values in losses:
        left.plot(np.array(values) / UNIT**2, style, label=name, linewidth=1.8)
    left.set(xlabel="step", ylabel="loss (units squared)", title="Learning")
    left.grid(alpha=0.3)
    left.legend()
    exponents = np.log2(np.abs(gradients[gradients != 0]))
    bins = np.arange(-60, 1)
    right.hist(exponents, bins, alpha=0.8, label="loss scale 1")
    right.hist(exponents + 24, bins, alpha=0.6, label="loss scale 2^24")
    right.axvline(-24, color="black", linestyle="--", label="fp16's smallest number, 2^-24")
    right.set(xlabel="log2 |gradient of an activation|", ylabel="elements", title="What fp16 can hold")
    right.set_ylim(top=1.35 * right.get_ylim()[1])
    right.grid(alpha=0.3)
    right.legend(loc="upper left")
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="default: build/onnx-amp-finetune")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--lr", type=float, default=0.0004, help="of the problem without its unit")
    parser.add_argument("--scale", type=float, default=2.0**24, help="first loss scale of the runs with dynamic scaling")
    parser.add_argument("--out", default=str(common.ROOT / "docs" / "loss_scaling.svg"))
    args = parser.parse_args()
    args.binary = common.find_binary(args.binary)
    with common.scratch_dir() as scratch:
        folder = Path(scratch)
        args.binary = common.pinned(args.binary, folder)
        rng = np.random.default_rng(1)
        x, y = make_data(folder, rng)
        weights = make_model(folder / "model.onnx", rng)
        runs = Runs(args, folder)
        named = [
            ("fp32", "k-", runs.train("fp32")[0]),
            ("fp16, loss scale 1", "C3-", runs.train("unscaled", "--use_fp16", "--loss_scale", 1)[0]),
            ("fp16, dynamic loss scale", "C0--", runs.train("dynamic", "--use_fp16", "--init_loss_scale", args.scale)[0]),
            ("fp16 weights, no fp32 masters", "C1-", runs.without_masters()),
        ]
    losses = [(name, style, [line["loss"] for line in lines]) for name, style, lines in named]
    gradients = activation_gradients(x, y, weights)
    for name, _, values in losses:
        print(f"{name:32} loss {values[0] / UNIT**2:.4f} -> {values[-1] / UNIT**2:.4f}")
    print(f"gradients of activations below 2^-25: {np.mean(np.abs(gradients) < 2.0**-25):.1%}")
    draw(losses, gradients, args.out)
    print(args.out)


if __name__ == "__main__":
    main()
