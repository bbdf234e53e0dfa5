"""Command lines that fail because of flags, run folders, checkpoints and exports."""
import json
import os

import proto
from kit import TRAIN, case, train, vocabulary
from proto import linear, model, node, tensor, value_info


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return f"{crc ^ 0xFFFFFFFF:08x}"


def checkpoint(f, name="manifest.json"):
    return os.path.join(f.path, "run/checkpoints/checkpoint-2", name)


def change_manifest(f, change):
    """Changes the manifest of the last checkpoint and gives it the right checksum."""
    with open(checkpoint(f)) as file:
        manifest = json.load(file)
    change(manifest)
    del manifest["manifest_crc32c"]
    text = json.dumps(manifest, indent=1)[:-2] + ',\n "manifest_crc32c": "'
    with open(checkpoint(f), "w") as file:
        file.write(text + crc32c(text.encode()) + '"\n}\n')


def resume(f, words):
    return [*words, "--resume", "run/checkpoints/checkpoint-2", "--resume_schedule", "stretch"]


@case("E_USAGE")
def _(f):
    return train("--lrr", "1")


@case("E_STACK")
def _(f):
    f.stack = 64 << 10
    f.linear()
    f.batch()
    return train()


@case("E_FILE_MISSING")
def _(f):
    f.linear()
    return ["model.onnx", "--train", "none.csv", "--text_columns", "text", "--vocab", "none.txt", "--output_dir", "run"]


@case("E_FILE_READ")
def _(f):
    f.linear()
    os.mkfifo(os.path.join(f.path, "pipe.csv"))
    return ["model.onnx", "--train", "pipe.csv", "--text_columns", "text", "--vocab", vocabulary(f), "--output_dir", "run"]


@case("E_FILE_TYPE")
def _(f):
    f.linear()
    f.batch()
    return ["predict", "model.onnx", "--inputs", "batch.safetensors", "--out", "o.xlsx"]


@case("E_FLAG_VALUE")
def _(f):
    f.linear()
    f.batch()
    return train("--lr_scheduler", "cosine", "--lr_scheduler_kwargs", "none=1")


@case("E_AMP_AUTO")
def _(f):
    f.linear()
    f.batch()
    return ["grad", "model.onnx", "--inputs", "batch.safetensors", "--loss", "cross_entropy", "--out", "o.npz", "--dtype", "bf16", "--amp_level", "auto"]


@case("E_CALIBRATE")
def _(f):
    f.linear(weights=[tensor("w", [4, 3], [3e38] * 12)])
    f.batch()
    return ["plan", "model.onnx", "--calibrate", "batch.safetensors", "--loss", "cross_entropy", "--use_fp16", "--out", "plan.json"]


@case("E_DIVERGED")
def _(f):
    f.linear(weights=[tensor("w", [4, 3], [3e38] * 12)])
    f.batch()
    return [*TRAIN, "--max_steps", "200", "--output_dir", "run", "--use_fp16"]


@case("E_NONFINITE_WEIGHT")
def _(f):
    f.linear()
    f.batch()
    return train("--optimizer", "sgd", "--lr", "1e39", "--loss", "cross_entropy", "--max_grad_norm", "0", "--weight_decay", "0")


@case("E_DISK")
def _(f):
    f.linear()
    f.batch()
    steps = "100000000000000"
    return [*TRAIN, "--max_steps", steps, "--save_steps", "1", "--save_total_limit", steps, "--output_dir", "run"]


@case("E_GATE")
def _(f):
    f.linear()
    f.batch()
    return train("--val", "batch.safetensors", "--require", "accuracy>=2")


@case("E_GLOB")
def _(f):
    f.linear()
    f.batch()
    return train("--freeze", "none.*")


@case("E_TRAINABLE")
def _(f):
    f.linear()
    f.batch()
    return train("--trainable", "x")


@case("E_HEAD_FROM")
def _(f):
    f.linear()
    f.batch()
    return train("--head", "classification", "--head_from", "none")


@case("E_CUT")
def _(f):
    f.linear()
    f.batch()
    return train("--cut_at", "none")


@case("E_EXPORT_INNER")
def _(f):
    f.batch()
    w = tensor("w", [4, 3], [0.01 * i for i in range(12)])
    inner = proto.function("F", ["p", "q"], ["r"], [node("Relu", ["p"], ["s"]), node("MatMul", ["s", "q"], ["r"])])
    call = node("F", ["x", "w"], ["y"], domain="f", name="call")
    f.write("model.onnx", model([call], weights=[w], functions=[inner], domains=["f"]))
    return train("--head", "classification", "--num_labels", "3", "--head_from", "call/s")


@case("E_EXPORT_FP16")
def _(f):
    w = tensor("w", [4, 3], [0.01 * i for i in range(12)])
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Gelu", ["h"], ["y"], domain="com.microsoft")]
    f.write("model.onnx", model(nodes, weights=[w], domains=["com.microsoft"]))
    return ["export", "model.onnx", "--export_precision", "fp16", "--out", "o.onnx"]


@case("E_EXPORT_RANGE")
def _(f):
    f.linear(weights=[tensor("w", [4, 3], [1e6] * 12)])
    return ["export", "model.onnx", "--export_precision", "fp16", "--out", "o.onnx"]


@case("E_NOT_CONVERTED")
def _(f):
    f.linear()
    return ["convert", "model.onnx", "--out", "folder"]


@case("E_OUTPUT_EXISTS")
def _(f):
    return f.trained()


@case("E_CKPT_MISSING")
def _(f):
    return [*f.trained(), "--resume", "run/checkpoints/checkpoint-9"]


@case("E_CKPT_STEPS")
def _(f):
    return resume(f, f.trained()[:-4] + ["--max_steps", "1", "--output_dir", "run"])


@case("E_CKPT_MISMATCH")
def _(f):
    return resume(f, [*f.trained(), "--seed", "7"])


@case("E_CKPT_MANIFEST")
def _(f):
    words = f.trained()
    f.write("run/checkpoints/checkpoint-2/manifest.json", "{}")
    return resume(f, words)


@case("E_CKPT_FILE")
def _(f):
    words = f.trained()
    os.remove(checkpoint(f))
    os.mkdir(checkpoint(f))
    return resume(f, words)


@case("E_CKPT_TORN")
def _(f):
    words = f.trained()
    os.truncate(checkpoint(f, "state.safetensors"), 10)
    return resume(f, words)


@case("E_CKPT_CHECKSUM")
def _(f):
    words = f.trained()
    with open(checkpoint(f, "state.safetensors"), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x77")
    return resume(f, words)


@case("E_CKPT_DAMAGED")
def _(f):
    words = f.trained("--save_total_limit", "1")
    for name in os.listdir(os.path.join(f.path, "run/checkpoints")):
        f.write(f"run/checkpoints/{name}/manifest.json", "{}")
    return [*words, "--save_total_limit", "1", "--resume", "auto"]


@case("E_CKPT_VERSION")
def _(f):
    words = f.trained()
    change_manifest(f, lambda m: m.update(version=99))
    return resume(f, words)


@case("E_CKPT_TENSORS")
def _(f):
    words = f.trained()
    size = os.path.getsize(checkpoint(f, "state.safetensors"))
    damaged = b"\xff" * size  # impossible numbers; the checksum is made right below
    f.write("run/checkpoints/checkpoint-2/state.safetensors", damaged)
    change_manifest(f, lambda m: [file.update(crc32c=crc32c(damaged)) for file in m["files"] if file["name"] == "state.safetensors"])
    return resume(f, words)


@case("E_CKPT_STATE")
def _(f):
    words = f.trained("--use_fp16") + ["--use_fp16"]

    def change(manifest):
        manifest["state"]["scaler"]["scale"] = -1

    change_manifest(f, change)
    return resume(f, words)


@case("E_RUN")
def _(f):
    os.mkdir(os.path.join(f.path, "none"))
    return ["report", "none", "--out", "page.html"]


@case("E_RUN_FILE")
def _(f):
    words = f.trained()
    os.remove(os.path.join(f.path, "run/metrics.jsonl"))
    os.mkdir(os.path.join(f.path, "run/metrics.jsonl"))
    return resume(f, words)


@case("E_RUN_MODEL")
def _(f):
    f.trained()
    os.remove(os.path.join(f.path, "model.onnx"))
    return ["export", "run", "--out", "o.onnx"]


@case("E_RUN_RECORD")
def _(f):
    f.trained()
    f.write("run/export.safetensors", proto.safetensors({"x": ([1], [1.0])}))
    return ["export", "run", "--out", "o.onnx"]


@case("E_MOVE")
def _(f):
    words = f.trained()
    f.write("run/.new-run/.move.json", '{"move": 1}')
    return [*words, "--resume", "auto"]


@case("E_EXPORT_WEIGHTS")
def _(f):
    f.trained()
    return ["export", "run", "--export_weights", "ema", "--out", "o.onnx"]


@case("E_MPI")
def _(f):
    f.linear()
    f.batch()
    f.environment.update(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_SIZE="2", OMPI_COMM_WORLD_RANK="1")
    f.environment.update(PMIX_NAMESPACE=f"errors.{os.getpid()}")
    return train("--heartbeat", "0.5")


@case("E_RANKS_SETTING")
def _(f):
    f.linear()
    f.batch()
    return train("--ranks", "64")


assert linear and value_info
