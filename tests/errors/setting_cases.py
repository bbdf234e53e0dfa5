"""Command lines that fail because of a setting: wrong values, combinations, op-lists, outputs."""
import json
import os
import socket

import proto
from kit import case, train
from proto import model, node, tensor, value_info


def linear(f, *more):
    f.linear()
    f.batch()
    return train(*more)


@case("E_FLAG_RANGE")
def _(f):
    return linear(f, "--lr_range_test", "10", "--lr_scheduler_kwargs", "max_lr=0")


@case("E_LOSS")
def _(f):
    return linear(f, "--loss", "cross_entropy,class_weights=none:2")


@case("E_LOSS_IO")
def _(f):
    return linear(f, "--loss", "cross_entropy", "--output", "logit")


@case("E_METRIC")
def _(f):
    return linear(f, "--val", "batch.safetensors", "--metric_for_best_model", "r2")


@case("E_LORA")
def _(f):
    return linear(f, "--lora", "r=2,targets=none.*")


@case("E_FREEZE_LAYERS")
def _(f):
    return linear(f, "--freeze_layers", "2")


@case("E_LAYER_DECAY")
def _(f):
    return linear(f, "--layer_decay", "0.9")


@case("E_GROUPS")
def _(f):
    return linear(f, "--val", "batch.safetensors", "--eval_group_by", "language")


@case("E_MIXUP")
def _(f):
    return linear(f, "--mixup", "0.2")


@case("E_IMAGE_SIZES")
def _(f):
    return linear(f, "--image_sizes", "28x28")


@case("E_HEAD")
def _(f):
    return linear(f, "--head", "segmentation", "--num_labels", "2")


@case("E_TEACHER")
def _(f):
    return linear(f, "--loss", "distill")


@case("E_OOM")
def _(f):
    return linear(f, "--memory_budget", "1")


@case("E_DEVICE_UNAVAILABLE")
def _(f):
    f.environment.update(ONNX_AMP_CUDA_PLUGIN="/none", CUDA_VISIBLE_DEVICES="")
    return linear(f, "--device", "cuda")


@case("E_GRADIENT_NONFINITE")
def _(f):
    f.linear(weights=[tensor("w", [4, 3], [3e38] * 12)])
    f.batch()
    return ["grad", "model.onnx", "--inputs", "batch.safetensors", "--loss", "cross_entropy", "--out", "o.safetensors"]


def hessian(f, tensors):
    f.linear()
    f.batch()
    f.write("v.safetensors", proto.safetensors(tensors))
    return ["grad", "model.onnx", "--inputs", "batch.safetensors", "--loss", "cross_entropy", "--hvp", "v.safetensors", "--out", "o.safetensors"]


@case("E_HVP_NAME")
def _(f):
    return hessian(f, {"v": ([4, 3], [1.0] * 12)})


@case("E_HVP_SHAPE")
def _(f):
    return hessian(f, {"w": ([3, 3], [1.0] * 9)})


def op_list(f, text):
    f.write("list.json", text if isinstance(text, str) else json.dumps(text))
    return linear(f, "--use_bf16", "--precision_plan", "list.json")


@case("E_OP_LIST_JSON")
def _(f):
    return op_list(f, '{"version": 1,\n')


@case("E_OP_LIST_KEY")
def _(f):
    return op_list(f, {"version": 1, "lists": {}})


@case("E_OP_LIST_EXTENDS")
def _(f):
    return op_list(f, {"version": 1, "extends": "O9"})


@case("E_OP_LIST_OPERATOR")
def _(f):
    return op_list(f, {"version": 1, "rules": [{"op": "MatMull", "precision": "fp32"}]})


@case("E_OP_LIST_PRECISION")
def _(f):
    return op_list(f, {"version": 1, "rules": [{"op": "MatMul", "precision": "fp8"}]})


@case("E_PLAN_GRAPH")
def _(f):
    linear(f)
    f.run("plan", "model.onnx", "--use_bf16", "--out", "list.json")
    f.write("model.onnx", model([node("Relu", ["x"], ["h"]), node("MatMul", ["h", "w"], ["y"])], weights=[tensor("w", [4, 3], [0.1] * 12)]))
    return train("--use_bf16", "--precision_plan", "list.json")


@case("E_PLAN_NO_KERNEL")
def _(f):
    f.batch()
    i = tensor("i", [3], [0, 1, 2], proto.INT64)
    nodes = [node("Add", ["i", "i"], ["j"], name="sum"), node("Cast", ["j"], ["c"], to=1), node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "c"], ["y"])]
    f.write("model.onnx", model(nodes, weights=[tensor("w", [4, 3], [0.1] * 12), i]))
    f.write("list.json", json.dumps({"version": 1, "extends": "O1", "rules": [{"node": "sum", "precision": "low"}]}))
    return train("--use_bf16", "--precision_plan", "list.json")


@case("E_OUTPUT_FOREIGN")
def _(f):
    f.write("run/model.onnx", "mine")
    return linear(f)


@case("E_OUTPUT_INPUT")
def _(f):
    f.linear()
    os.rename(os.path.join(f.path, f.batch()), os.path.join(f.path, "metrics.jsonl.safetensors"))
    os.mkdir(os.path.join(f.path, "run"))
    os.rename(os.path.join(f.path, "model.onnx"), os.path.join(f.path, "run/model.onnx"))
    return ["run/model.onnx", "--train", "metrics.jsonl.safetensors", "--max_steps", "1", "--output_dir", "run"]


@case("E_WRITE")
def _(f):
    f.linear()
    f.batch()
    return ["predict", "model.onnx", "--inputs", "batch.safetensors", "--out", "none/o.npz"]


@case("E_WEIGHTED_SAMPLING")
def _(f):
    return linear(f, "--weighted_sampling", "--shuffle", "false")


@case("E_FEATURES_MISSING")
def _(f):
    f.write("t.csv", "a,b\n1,2\n")
    return ["predict", f.linear(), "--inputs", "t.csv", "--categorical", "a", "--out", "o.csv"]


@case("E_CKPT_SCHEDULE")
def _(f):
    return [*f.trained("--lr_scheduler", "cosine"), "--lr_scheduler", "cosine", "--resume", "auto"]


@case("E_STOPPED")
def _(f):
    return [w if w != "1" else "1000000000" for w in linear(f)] + ["--max_minutes", "0.001"]


@case("E_SERVE")
def _(f):
    f.held = socket.socket()  # stays open while the command runs
    f.held.bind(("127.0.0.1", 0))
    f.held.listen()
    return linear(f, "--serve", str(f.held.getsockname()[1]))


@case("E_RANKS")
def _(f):
    f.environment.update(RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="9")
    return linear(f, "--heartbeat", "0.5")
