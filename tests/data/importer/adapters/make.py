"""Makes by_onnxruntime.onnx_adapter and parameters.safetensors, and checks that onnxruntime reads ours.onnx_adapter
with the same values. ours.onnx_adapter is what tests/importer/onnx_adapter_test.cc writes. numpy, onnxruntime 1.32. The folders peft_* were written by PEFT 0.21 for random models.
make.py [FOLDER]: also compares every .onnx_adapter in FOLDER with a .safetensors of the same name."""
import pathlib
import sys

import numpy as np
import onnxruntime as ort
from safetensors.numpy import load_file, save_file

here = pathlib.Path(__file__).parent


def read(path):
    adapter = ort.AdapterFormat.read_adapter(str(path))
    return adapter, {k: v.numpy().copy() for k, v in adapter.get_parameters().items()}


def same(have, want):
    return have.keys() == want.keys() and all(
        have[k].dtype == want[k].dtype and have[k].shape == want[k].shape and have[k].tobytes() == want[k].tobytes()
        for k in want)


random = np.random.default_rng(11)
parameters = {
    "model.layers.0.attn.q_proj.lora_A.MatMul.weight": random.normal(size=(6, 2)).astype(np.float32),
    "model.layers.0.attn.q_proj.lora_B.MatMul.weight": random.normal(size=(2, 5)).astype(np.float32),
    "half": random.normal(size=(3,)).astype(np.float16),
    "empty": np.zeros((4, 0), np.float32),
    "Größe": random.normal(size=(2, 1, 3)),
}
if not (here / "by_onnxruntime.onnx_adapter").exists():
    save_file(parameters, here / "parameters.safetensors")
    adapter = ort.AdapterFormat()
    adapter.set_adapter_version(3)
    adapter.set_model_version(7)
    adapter.set_parameters({k: ort.OrtValue.ortvalue_from_numpy(v) for k, v in parameters.items()})
    adapter.export_adapter(str(here / "by_onnxruntime.onnx_adapter"))
ours = here / "ours.onnx_adapter"
if ours.exists():
    adapter, have = read(ours)
    assert same(have, parameters), have
    assert (adapter.get_format_version(), adapter.get_adapter_version(), adapter.get_model_version()) == (1, 3, 7)
    print("onnxruntime reads", ours.name, "equal")
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx_adapter")) if len(sys.argv) > 1 else []:
    print(path.name, same(read(path)[1], load_file(path.with_suffix(".safetensors"))))
