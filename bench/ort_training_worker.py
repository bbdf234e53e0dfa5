"""onnxruntime-training's side of cpu.py (1.19.2, its last release): trains the case's ONNX file
with its on-device API.

Runs in a separate environment: pip install onnxruntime-training-cpu==1.19.2 "onnx<1.17" "numpy<2"
"protobuf<5" safetensors. `run` (common.serve) trains over the case's batches from the file's
weights.
"""

import argparse
import json
import os
import sys
import time
import types

import numpy as np
import onnx

import cases
import common

# The package imports PyTorch for two parts that are not used here.
for part in ("amp", "optim"):
    sys.modules[f"onnxruntime.training.{part}"] = types.ModuleType(part)
import onnxruntime
from onnxruntime.training import api, artifacts, onnxblock

LOSSES = {"cross_entropy": artifacts.LossType.CrossEntropyLoss, "bce_logits": artifacts.LossType.BCEWithLogitsLoss}


class Worker:
    def __init__(self, args):
        with open(f"{args.folder}/case.json", encoding="utf-8") as f:
            case = json.load(f)
        self.batches = cases.load_batches(args.folder)
        self.out = f"{args.folder}/ort_training"
        os.makedirs(self.out, exist_ok=True)
        model = onnx.load(case["model"])
        statistics = {name for n in model.graph.node if n.op_type == "BatchNormalization" for name in n.input[3:5]}
        floats = [i.name for i in model.graph.initializer if i.data_type == onnx.TensorProto.FLOAT]
        artifacts.generate_artifacts(
            model,
            requires_grad=[n for n in floats if n not in statistics],
            frozen_params=sorted(statistics),
            loss=LOSSES[case["loss"]],
            optimizer=onnxblock.optim.AdamW(weight_decay=cases.WEIGHT_DECAY, clip_grad=onnxblock.optim.ClipGradNorm(1.0)),
            artifact_directory=self.out,
        )
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = args.threads
        self.options.log_severity_level = 3
        self.losses = []

    def run(self):
        state = api.CheckpointState.load_checkpoint(f"{self.out}/checkpoint")
        module = api.Module(f"{self.out}/training_model.onnx", state, f"{self.out}/eval_model.onnx", session_options=self.options)
        optimizer = api.Optimizer(f"{self.out}/optimizer_model.onnx", module)
        optimizer.set_learning_rate(cases.LR)
        module.train()
        seconds, self.losses = [], []
        last = time.perf_counter()
        for batch in self.batches:
            self.losses.append(float(np.asarray(module(batch["x"], batch["label"]))))
            optimizer.step()
            module.lazy_reset_grad()
            now = time.perf_counter()
            seconds.append(now - last)
            last = now
        return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--threads", type=int, default=2)
    common.serve(Worker(parser.parse_args()))


if __name__ == "__main__":
    main()
