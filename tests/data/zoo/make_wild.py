"""Makes onnxruntime's outputs for ONNX files from public repositories (a folder outside the repository, see wild_test.cc).

    python3 make_wild.py FOLDER

Inputs are given by a formula that wild_test.cc repeats: element i of input k is sin(0.37 i + k) + 0.1 for floating types and
i mod 2 for others; open dimensions are 2. Every n-th element of each output is stored, at most 200. Files that onnxruntime
does not run are left out.
"""
import glob
import os
import sys

import numpy as np
import onnxruntime as ort
from safetensors.numpy import save_file

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
         "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}
out = {}
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.onnx"))):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {}
    for k, x in enumerate(session.get_inputs()):
        dims = [d if isinstance(d, int) and d > 0 else 2 for d in x.shape]
        i = np.arange(int(np.prod(dims)))
        kind = TYPES[x.type]
        value = np.sin(0.37 * i + k) + 0.1 if np.issubdtype(kind, np.floating) else i % 2
        feeds[x.name] = value.astype(kind).reshape(dims)
    name = os.path.basename(path)
    for o, v in zip(session.get_outputs(), session.run(None, feeds)):
        flat = v.reshape(-1).astype(np.float64)
        step = max(1, -(-flat.size // 200))
        out[f"{name}/{o.name}"] = flat[::step].astype(np.float32)
        out[f"{name}/{o.name}#dims"] = np.array(v.shape, np.int64)
        out[f"{name}/{o.name}#largest"] = np.array([np.abs(flat).max() if flat.size else 0], np.float32)
save_file(out, os.path.join(os.path.dirname(os.path.abspath(__file__)), "wild.safetensors"))
print(len(out) // 3, "outputs")
