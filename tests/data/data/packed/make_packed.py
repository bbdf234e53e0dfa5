"""Tiny IDX and CIFAR files, and golden.npz: their pixels and labels as torchvision's datasets read them.

torchvision reads CIFAR's pickles; the same arrays are written as pickles for it and as binaries for the test."""
import gzip
import os
import pickle
import struct
import tempfile

import numpy as np
from torchvision import datasets
from torchvision.datasets.mnist import read_image_file, read_label_file

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(16)


def here(name):
    return os.path.join(HERE, name)


golden = {}

pixels = rng.integers(0, 256, (6, 5, 4), dtype=np.uint8)  # 6 images, 5 rows of 4
labels = np.array([2, 0, 11, 2, 9, 10], dtype=np.uint8)
images = struct.pack(">4BIII", 0, 0, 8, 3, 6, 5, 4) + pixels.tobytes()
for name, data in [("tiny-images-idx3-ubyte", images),
                   ("tiny-labels-idx1-ubyte", struct.pack(">4BI", 0, 0, 8, 1, 6) + labels.tobytes())]:
    with open(here(name), "wb") as f:
        f.write(data)
with open(here("packed-images-idx3-ubyte.gz"), "wb") as f:
    f.write(gzip.compress(images, mtime=0))
golden["idx_pixels"] = read_image_file(here("tiny-images-idx3-ubyte")).numpy()
golden["idx_labels"] = read_label_file(here("tiny-labels-idx1-ubyte")).numpy()

NAMES = "airplane automobile bird cat deer dog frog horse ship truck".split()
with open(here("batches.meta.txt"), "w") as f:
    f.write("\n".join(NAMES) + "\n\n")


def read(kind, data, batch, meta, folder):
    base = os.path.join(folder, kind.base_folder)
    os.makedirs(base)
    for name, what in [("batch", {"data": data, **batch}), (kind.meta["filename"], meta)]:
        with open(os.path.join(base, name), "wb") as f:
            pickle.dump(what, f)
    local = type("Local", (kind,), {"train_list": [["batch", None]], "meta": {**kind.meta, "md5": None},
                                    "_check_integrity": lambda self: True})
    return local(folder)


with tempfile.TemporaryDirectory() as folder:
    data = rng.integers(0, 256, (3, 3072), dtype=np.uint8)
    ten = [3, 9, 0]
    with open(here("batch_10.bin"), "wb") as f:
        for label, row in zip(ten, data):
            f.write(bytes([label]) + row.tobytes())
    d = read(datasets.CIFAR10, data, {"labels": ten}, {"label_names": NAMES}, folder)
    golden["cifar10_pixels"], golden["cifar10_labels"] = d.data, np.array(d.targets)
    data = rng.integers(0, 256, (2, 3072), dtype=np.uint8)
    fine, coarse = [99, 14], [13, 7]
    with open(here("batch_100.bin"), "wb") as f:
        for c, n, row in zip(coarse, fine, data):
            f.write(bytes([c, n]) + row.tobytes())
    d = read(datasets.CIFAR100, data, {"fine_labels": fine}, {"fine_label_names": [str(i) for i in range(100)]}, folder)
    golden["cifar100_pixels"], golden["cifar100_labels"] = d.data, np.array(d.targets)
    golden["cifar100_coarse"] = np.array(coarse)
np.savez_compressed(here("golden.npz"), **golden)
