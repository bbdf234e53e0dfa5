"""Copies entries of the model zoo into this folder, reduced to the data that tests/zoo compares: the model, the batch, loss,
trajectories, and at most 512 elements of every gradient (every stride-th one).

    make_zoo.py ZOO_FOLDER ENTRY...
"""
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

KEEP = ["name", "loss_kind", "loss", "loss_fp64", "outputs", "batchnorm", "tied", "frozen_onnx", "versions"]


def main(zoo, entries):
    for entry in entries:
        source, target = Path(zoo) / entry, Path(__file__).parent / entry
        target.mkdir(exist_ok=True)
        for name in ["model.onnx", "batch.safetensors"]:
            shutil.copyfile(source / name, target / name)
        ref = json.loads((source / "ref.json").read_text())
        small = {k: ref[k] for k in KEEP}
        small["trajectories"] = {m: {k: v for k, v in ref["trajectories"][m].items() if not k.startswith("final")} for m in ["sgd", "adamw"]}
        small["params"] = []
        samples = {}
        with safe_open(source / "ref.safetensors", "np") as f:
            for p in ref["params"]:
                grad = np.ascontiguousarray(f.get_tensor("grad/" + p["onnx"])).reshape(-1)
                stride = -(-grad.size // 512)
                samples["grad/" + p["onnx"]] = grad[::stride].copy()
                small["params"].append({k: p[k] for k in ["onnx", "torch", "transform", "shape", "grad_max", "fp32_noise"]} | {"stride": stride})
        save_file(samples, target / "ref.safetensors")
        (target / "ref.json").write_text(json.dumps(small, indent=0) + "\n")


main(sys.argv[1], sys.argv[2:])
