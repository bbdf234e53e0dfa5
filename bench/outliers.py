"""A model with outliers: T5's feed-forward block with weights so large that its output exceeds
fp16's range (65504), as in bf16-trained T5 checkpoints. Four runs of the program: fp32, fp16
under O1, fp16 under --amp_level auto, bf16.
"""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np

import common

RUNS = {
    "fp32": [],
    "fp16, O1": ["--use_fp16"],
    "fp16, auto": ["--use_fp16", "--amp_level", "auto"],
    "bf16, O1": ["--use_bf16"],
}


def make_model(path, rng, scale):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def normal(*shape, by):
        return (rng.standard_normal(shape) * by).astype(np.float32)

    weights = {
        "g1": np.ones(16, np.float32),
        "g2": np.ones(16, np.float32),
        "wi": normal(16, 64, by=scale),
        "wo": normal(64, 16, by=scale),
        "wc": normal(16, 4, by=0.3),
        "two": np.array(2, np.float32),
        "eps": np.array(1e-6, np.float32),
    }
    node = helper.make_node

    def rms_norm(x, y, weight, scope):
        return [
            node("Pow", [x, "two"], [scope + "sq"], scope + "/Pow"),
            node("ReduceMean", [scope + "sq"], [scope + "var"], scope + "/ReduceMean", axes=[-1]),
            node("Add", [scope + "var", "eps"], [scope + "eps"], scope + "/Add"),
            node("Sqrt", [scope + "eps"], [scope + "rms"], scope + "/Sqrt"),
            node("Div", [x, scope + "rms"], [scope + "unit"], scope + "/Div"),
            node("Mul", [scope + "unit", weight], [y], scope + "/Mul"),
        ]

    nodes = [
        *rms_norm("x", "n1", "g1", "/block/norm"),
        node("MatMul", ["n1", "wi"], ["up"], "/block/ffn/wi"),
        node("Relu", ["up"], ["act"], "/block/ffn/act"),
        node("MatMul", ["act", "wo"], ["down"], "/block/ffn/wo"),
        node("Add", ["x", "down"], ["res"], "/block/residual"),
        *rms_norm("res", "n2", "g2", "/final/norm"),
        node("MatMul", ["n2", "wc"], ["logits"], "/head"),
    ]
    graph = helper.make_graph(
        nodes,
        "t5_ffn",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(w, n) for n, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def make_data(path, rng):
    from safetensors.numpy import save_file

    x = rng.standard_normal((256, 16)).astype(np.float32)
    label = np.argmax(x @ rng.standard_normal((16, 4)), axis=1)
    save_file({"x": x, "label": label.astype(np.int64)}, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="default: build/onnx-amp-finetune")
    parser.add_argument("--scale", type=float, default=60, help="standard deviation of the block's weights")
    parser.add_argument("--epochs", type=int, default=40)
    args = parser.parse_args()
    binary = common.find_binary(args.binary)
    with common.scratch_dir() as scratch:
        folder, rng = Path(scratch), np.random.default_rng(0)
        make_model(folder / "model.onnx", rng, args.scale)
        make_data(folder / "train.safetensors", rng)
        print(f"{'run':12} {'exit':>4} {'steps':>6} {'skipped':>7}  loss")
        for name, flags in RUNS.items():
            out = folder / name.replace(", ", "_")
            done = subprocess.run(
                [binary, folder / "model.onnx", "--train", folder / "train.safetensors", "--loss", "cross_entropy", "--lr", "0.02",
                 "--batch_size", "64", "--epochs", str(args.epochs), "--threads", "1", "--output_dir", out, "--quiet", *flags],
                capture_output=True, text=True,
            )  # fmt: skip
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            loss = [lines[i]["loss"] for i in (0, -1)]
            shown = " -> ".join("not finite" if v is None else f"{v:.3f}" for v in loss)
            print(f"{name:12} {done.returncode:4} {len(lines):6} {sum(line['skipped'] for line in lines):7}  {shown}")


if __name__ == "__main__":
    main()
