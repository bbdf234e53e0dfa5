#!/usr/bin/env python3
"""Makes two small models of images, and onnxruntime's outputs for the pictures in ../../data/images after torchvision's
preprocessing. Run it in this folder. Writes classes.onnx, masks.onnx, golden.json and mask_*.png.

Made with onnx 1.23, onnxruntime 1.32, torchvision 0.29.
"""
import json

import numpy as np
import onnx
import onnxruntime
import torch
import torchvision.transforms as T
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageOps
from torchvision.transforms import InterpolationMode as Mode

PICTURES = "../../data/images/"
NAMES = ["picture.png", "grey.png", "palette.png", "turned_6.jpg", "lossless.webp", "interlaced.png"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
rng = np.random.default_rng(5)


def weight(name, *shape, scale=None):
    scale = scale or 1 / np.sqrt(np.prod(shape[1:]))
    return numpy_helper.from_array((rng.normal(0, scale, shape)).astype(np.float32), name)


def save(path, nodes, inputs, outputs, weights, metadata):
    graph = helper.make_graph(nodes, "images", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def value(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def opened(name):
    return ImageOps.exif_transpose(Image.open(PICTURES + name)).convert("RGB")


def classes():
    nodes = [helper.make_node("Conv", ["pixels", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
             helper.make_node("Relu", ["c1"], ["r1"]), helper.make_node("GlobalAveragePool", ["r1"], ["p"]),
             helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "w2", "b2"], ["logits"], transB=1)]
    session = save("classes.onnx", nodes, [value("pixels", "n", 3, 12, 12)], [value("logits", "n", 4)],
                   [weight("w1", 8, 3, 3, 3), weight("b1", 8, scale=0.1), weight("w2", 4, 8, scale=1.5), weight("b2", 4, scale=0.5)],
                   {"task": "classification", "labels": json.dumps(["ash", "birch", "cedar", "doum"]),
                    "preprocessing": json.dumps({"eval_transforms": "resize 14 | center_crop 12 | normalize imagenet"})})
    steps = T.Compose([T.Resize(14), T.CenterCrop(12), T.ToTensor(), T.Normalize(MEAN, STD)])
    x = torch.stack([steps(opened(n)) for n in NAMES]).numpy()
    logits = session.run(None, {"pixels": x})[0].astype(np.float64)
    p = np.exp(logits - logits.max(1, keepdims=True))
    return {n: list(row) for n, row in zip(NAMES, p / p.sum(1, keepdims=True))}


def masks():
    nodes = [helper.make_node("Transpose", ["pixels"], ["t"], perm=[0, 3, 1, 2]),
             helper.make_node("Conv", ["t", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c1"], ["r1"]), helper.make_node("Conv", ["r1", "w2", "b2"], ["logits"])]
    session = save("masks.onnx", nodes, [value("pixels", "n", 16, 20, 3)], [value("logits", "n", 3, 16, 20)],
                   [weight("w1", 6, 3, 3, 3), weight("b1", 6, scale=0.3), weight("w2", 3, 6, 1, 1), weight("b2", 3, scale=0.1)],
                   {"task": "segmentation", "preprocessing": json.dumps(
                       {"eval_transforms": "resize 16,20 | normalize mean=0.5 std=0.25", "mask_values": ["0", "128", "255"]})})
    steps = T.Compose([T.Resize((16, 20)), T.ToTensor(), T.Normalize(0.5, 0.25)])
    shares = {}
    for name in ("picture.png", "turned_6.jpg"):
        image = opened(name)
        best = session.run(None, {"pixels": steps(image).permute(1, 2, 0)[None].numpy()})[0].argmax(1)[0]
        shares[name] = [float((best == c).mean()) for c in range(3)]
        mask = Image.fromarray(np.array([0, 128, 255], np.uint8)[best])
        mask.resize(image.size, Image.NEAREST).save(f"mask_{name.split('.')[0]}.png")
    return shares


if __name__ == "__main__":
    with open("golden.json", "w") as f:
        json.dump({"classes": classes(), "masks": masks()}, f, indent=1)
