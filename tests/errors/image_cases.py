"""Command lines that fail because of images and masks."""
import struct

from kit import case, png
from proto import model, node, tensor, value_info


def images(f, *more, channels=3, size=8, input_size=None):
    for name in ("a/0", "a/1", "b/0", "b/1"):
        f.write(f"data/{name}.png", png(size, size))
    x = value_info("x", ["N", channels, input_size or size, input_size or size])
    nodes = [node("GlobalAveragePool", ["x"], ["p"]), node("Flatten", ["p"], ["h"]), node("MatMul", ["h", "w"], ["y"])]
    f.write("model.onnx", model(nodes, [x], [value_info("y", ["N", 2])], [tensor("w", [channels, 2], [0.1] * 2 * channels)]))
    return ["model.onnx", "--train", "data", "--max_steps", "1", "--output_dir", "run", *more]


@case("E_IMAGE")
def _(f):
    words = images(f)
    f.write("data/a/0.png", png(8, 8)[:50])
    return words


@case("E_IMAGE_CHANNELS")
def _(f):
    return images(f, "--transforms", "normalize mean=0.5,0.5 std=0.5,0.5")


@case("E_IMAGE_INPUT")
def _(f):
    words = images(f)
    x, y, w = value_info("x", ["N", 4]), value_info("y", ["N", 2]), tensor("w", [4, 2], [0.1] * 8)
    f.write("model.onnx", model([node("MatMul", ["x", "w"], ["y"])], [x], [y], [w]))
    return words


@case("E_TRANSFORM")
def _(f):
    return images(f, "--transforms", "flipp")


@case("E_IMAGE_SMALL")
def _(f):
    return images(f, "--transforms", "random_crop 20")


@case("E_DATA_FOLDER")
def _(f):
    words = images(f)
    f.write("parts/train/a/0.png", png(8, 8))
    f.write("parts/val/a/0.png", png(8, 8))
    return [w.replace("data", "parts") for w in words]


@case("E_MASK_FOLDERS")
def _(f):
    for name in ("i/0", "j/0", "m/0"):
        f.write(f"{name}.png", png(8, 8, 1))
    w = tensor("w", [2, 3, 1, 1], [0.1] * 6)
    x, y = value_info("x", ["N", 3, 8, 8]), value_info("y", ["N", 2, 8, 8])
    f.write("model.onnx", model([node("Conv", ["x", "w"], ["y"])], [x], [y], [w]))
    return ["model.onnx", "--task", "segmentation", "--train", "i,j", "--train_masks", "m", "--max_steps", "1", "--output_dir", "run"]


@case("E_IMAGE_KIND")
def _(f):
    words = images(f)
    f.write("data/a/0.png", "no image")
    return words


def table(f, rows):
    words = images(f)
    f.write("t.csv", "\n".join(["image,label", *rows]) + "\n")
    return [w.replace("data", "t.csv") for w in words] + ["--image_column", "image"]


@case("E_IMAGE_MISSING")
def _(f):
    return table(f, ["data/a/0.png,a", "data/b/9.png,b"])


@case("E_IMAGE_SIZE")
def _(f):
    return images(f, "--transforms", "to_tensor", size=9, input_size=8)


@case("E_IDX")
def _(f):
    words = images(f)
    f.write("train-images-idx3-ubyte", struct.pack(">4B3I", 0, 0, 8, 3, 2, 8, 8) + b"\0" * 10)
    f.write("train-labels-idx1-ubyte", struct.pack(">4BI", 0, 0, 8, 1, 2) + b"\0\1")
    return [w.replace("data", "train-images-idx3-ubyte") for w in words] + ["--train_labels", "train-labels-idx1-ubyte"]


@case("E_CIFAR")
def _(f):
    words = images(f)
    f.write("data_batch_1.bin", b"\0" * 3000)
    return [w.replace("data", "data_batch_1.bin") for w in words]


@case("E_MASK")
def _(f):
    f.write("i/0.png", png(8, 8))
    f.write("m/1.png", png(8, 8, 1))
    w = tensor("w", [2, 3, 1, 1], [0.1] * 6)
    x, y = value_info("x", ["N", 3, 8, 8]), value_info("y", ["N", 2, 8, 8])
    f.write("model.onnx", model([node("Conv", ["x", "w"], ["y"])], [x], [y], [w]))
    return ["model.onnx", "--task", "segmentation", "--train", "i", "--train_masks", "m", "--max_steps", "1", "--output_dir", "run"]
