#!/usr/bin/env python3
"""Images per second that reach a model: the program with N threads against torchvision's DataLoader
with N workers.

    bench/image_loading.py --binary build/onnx-amp-finetune [--images 400] [--threads 2]

JPEGs of 500 x 375 in class folders, with the usual evaluation transforms of ImageNet (resize 256,
center_crop 224, normalize) and its usual training transforms (random_resized_crop 224,
horizontal_flip, normalize). The program runs `eval` of a model that only averages pixels; a second
run on a tenth of the images gives the startup time, which is subtracted. The sides alternate; best
of three. Needs: torch, torchvision, onnx.
"""
import argparse
import os
import subprocess
import tempfile
import time

import numpy as np
import onnx
import torch
import torchvision.transforms as T
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from torchvision.datasets import ImageFolder

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CASES = {
    "evaluation": ("resize 256 | center_crop 224 | normalize imagenet",
                   T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), T.Normalize(MEAN, STD)])),
    "training": ("random_resized_crop 224 | horizontal_flip | normalize imagenet",
                 T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])),
}


def write_images(folder, count):
    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:375, 0:500]
    for i in range(count):
        planes = [127 + 90 * np.sin(x / (9.0 + i % 7) + c) * np.cos(y / (11.0 + c)) + rng.normal(0, 12, x.shape) for c in range(3)]
        path = os.path.join(folder, "ab"[i % 2])
        os.makedirs(path, exist_ok=True)
        Image.fromarray(np.stack(planes, -1).clip(0, 255).astype(np.uint8)).save(f"{path}/{i:05}.jpg", quality=90)


def write_model(path, size=224):
    nodes = [helper.make_node("GlobalAveragePool", ["pixels"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("Gemm", ["f", "w"], ["logits"])]
    graph = helper.make_graph(nodes, "mean", [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ("n", 3, size, size))],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ("n", 2))],
                              [numpy_helper.from_array(np.ones((3, 2), np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"task": "classification", "labels": '["a", "b"]'})
    onnx.save(model, path)


def ours(binary, model, folder, transforms, threads, limit):
    start = time.perf_counter()
    subprocess.run([binary, "eval", model, "--val", folder, "--eval_transforms", transforms, "--loading_threads", str(threads),
                    "--eval_batch_size", "32", "--limit_val", str(limit), "--device", "cpu", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    return time.perf_counter() - start


def theirs(folder, transform, workers):
    loader = torch.utils.data.DataLoader(ImageFolder(folder, transform), batch_size=32, num_workers=workers,
                                         persistent_workers=True)
    for _ in loader:  # starts the workers
        break
    start, count = time.perf_counter(), 0
    for x, _ in loader:
        count += len(x)
    return count / (time.perf_counter() - start)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True)
    p.add_argument("--images", type=int, default=400)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        write_images(folder + "/images", a.images)
        write_model(folder + "/model.onnx")
        print("| case | ours images/s | torchvision images/s | ratio |\n|---|---:|---:|---:|")
        for case, (text, transform) in CASES.items():
            few, mine, other = a.images // 10, [], []
            for _ in range(3):
                long = ours(a.binary, folder + "/model.onnx", folder + "/images", text, a.threads, a.images)
                short = ours(a.binary, folder + "/model.onnx", folder + "/images", text, a.threads, few)
                mine.append((a.images - few) / (long - short))
                other.append(theirs(folder + "/images", transform, a.threads))
            print(f"| {case} | {max(mine):.0f} | {max(other):.0f} | {max(mine) / max(other):.2f} |", flush=True)


if __name__ == "__main__":
    main()
