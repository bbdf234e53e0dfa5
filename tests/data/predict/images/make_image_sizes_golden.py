#!/usr/bin/env python3
"""Makes a small model for images of any size that was trained on three sizes, and onnxruntime's outputs for parts of
picture.png. torchvision preprocesses each part for the size with the nearest aspect ratio. Run it in this folder with
Pillow 11 (../../data/images/make_image_sizes_golden.py). Writes sizes.onnx and image_sizes.json.
"""
import json
import math
import sys

import numpy as np
import torchvision.transforms as T
from make_images_golden import MEAN, PICTURES, STD, helper, save, value, weight
from PIL import Image

sys.path.insert(0, PICTURES)
from make_image_sizes_golden import BOXES, covering  # noqa: E402  (a file of that folder)

SIZES = [(12, 18), (12, 12), (18, 12)]


def main():
    nodes = [helper.make_node("Conv", ["pixels", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
             helper.make_node("Relu", ["c1"], ["r1"]), helper.make_node("GlobalAveragePool", ["r1"], ["p"]),
             helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "w2", "b2"], ["logits"], transB=1)]
    session = save("sizes.onnx", nodes, [value("pixels", "n", 3, "height", "width")], [value("logits", "n", 2)],
                   [weight("w1", 8, 3, 3, 3), weight("b1", 8, scale=0.1), weight("w2", 2, 8, scale=1.5), weight("b2", 2, scale=0.5)],
                   {"task": "classification", "labels": json.dumps(["even", "odd"]), "preprocessing": json.dumps({
                       "eval_transforms": "resize 14 | center_crop 12 | normalize imagenet",
                       "image_sizes": [f"{h}x{w}" for h, w in SIZES]})})
    finish = T.Compose([T.ToTensor(), T.Normalize(MEAN, STD)])
    picture = Image.open(PICTURES + "picture.png").convert("RGB")
    parts = []
    for top, left, h, w in BOXES:
        part = picture.crop((left, top, left + w, top + h))
        height, width = min(SIZES, key=lambda s: abs(math.log(w / h) - math.log(s[1] / s[0])))
        large = covering(part, round(height * 14 / 12), round(width * 14 / 12))
        x = finish(T.CenterCrop((height, width))(large)).numpy()[None]
        logits = session.run(None, {"pixels": x})[0][0].astype(np.float64)
        p = np.exp(logits - logits.max())
        parts.append({"box": [top, left, h, w], "size": [height, width], "probabilities": list(p / p.sum())})
    with open("image_sizes.json", "w") as f:
        json.dump(parts, f, indent=1)


if __name__ == "__main__":
    main()
