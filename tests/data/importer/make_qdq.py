"""Makes qdq_mlp.onnx, an MLP with int8 weights (one scale per column), uint8 weights (one scale) and an int32 bias, and a
batch. Prints the losses of ten steps of SGD by PyTorch's fake quantization, the numbers of tests/tools/quantized_test.cc.
"""

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

rng = np.random.default_rng(3)
w0, w1 = (rng.normal(0, 0.5, shape).astype(np.float32) for shape in ((12, 20), (20, 4)))
s0 = (np.abs(w0).max(0) / 127 * 0.9).astype(np.float32)  # too small for the largest: some are clipped
q0 = np.clip(np.rint(w0 / s0), -128, 127).astype(np.int8)
s1 = np.float32((w1.max() - w1.min()) / 255)
z1 = np.uint8(np.rint(-w1.min() / s1))
q1 = np.clip(np.rint(w1 / s1) + z1, 0, 255).astype(np.uint8)
bias, bias_scale = rng.integers(-2000, 2000, 20).astype(np.int32), np.float32(1e-4)

tensors = {"w0_int8": q0, "w0_scale": s0, "w1_uint8": q1, "w1_scale": s1, "w1_zero": z1, "b_int32": bias, "b_scale": bias_scale}
nodes = [
    helper.make_node("DequantizeLinear", ["w0_int8", "w0_scale"], ["w0"], axis=1),
    helper.make_node("MatMul", ["x", "w0"], ["p"]),
    helper.make_node("DequantizeLinear", ["b_int32", "b_scale"], ["b"]),
    helper.make_node("Add", ["p", "b"], ["a"]),
    helper.make_node("Relu", ["a"], ["r"]),
    helper.make_node("DequantizeLinear", ["w1_uint8", "w1_scale", "w1_zero"], ["w1"]),
    helper.make_node("MatMul", ["r", "w1"], ["logits"]),
]
graph = helper.make_graph(
    nodes,
    "qdq_mlp",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 12])],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 4])],
    [numpy_helper.from_array(np.asarray(v), k) for k, v in tensors.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
onnx.checker.check_model(model, True)
onnx.save(model, "qdq_mlp.onnx")
x, y = rng.normal(0, 1, (6, 12)).astype(np.float32), rng.integers(0, 4, 6).astype(np.int64)
save_file({"x": x, "label": y}, "qdq_mlp_batch.safetensors")

m0 = torch.tensor(q0.astype(np.float32) * s0).requires_grad_()
m1 = torch.tensor((q1.astype(np.float32) - np.float32(z1)) * s1).requires_grad_()
b = torch.tensor(bias.astype(np.float32) * bias_scale)
optimizer = torch.optim.SGD([m0, m1], lr=0.1)
losses = []
for _ in range(10):
    f0 = torch.fake_quantize_per_channel_affine(m0, torch.tensor(s0), torch.zeros(20, dtype=torch.int32), 1, -128, 127)
    f1 = torch.fake_quantize_per_tensor_affine(m1, float(s1), int(z1), 0, 255)
    loss = torch.nn.functional.cross_entropy(torch.relu(torch.tensor(x) @ f0 + b) @ f1, torch.tensor(y))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
e0 = np.clip(np.rint(m0.detach().numpy() / s0), -128, 127).astype(int)
e1 = np.clip(np.rint(m1.detach().numpy() / s1) + z1, 0, 255).astype(int)
print("losses", losses)
print("of the integers: changed", (e0 != q0).sum(), (e1 != q1).sum(), "sums", e0.sum(), e1.sum(), "of squares", (e0**2).sum(), (e1**2).sum())
