"""Makes models with unfused quantizers (scale, Round, Clip) and the gradients of PyTorch's own fake quantization:
quantizers/NAME.onnx and NAME.safetensors (inputs, out/y, grad/WEIGHT of sum_k sin(k + 1) y_k in float64).

int_domain has the form in which Brevitas and DeepQuant export a linear layer: weight and bias are divided by their scale,
rounded, clipped and multiplied as integers, and the result is scaled once. per_channel has one weight scale per row. dorefa
clips first and then rounds x n / n.
Run with torch, onnx and safetensors installed: python3 make_quantizers.py
"""
import os

import numpy as np
import onnx
import torch
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper
from safetensors.numpy import save_file

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "quantizers")
torch.manual_seed(5)
f64 = torch.float64


class Straight(torch.autograd.Function):
    """Round whose gradient is the identity: Brevitas' round_ste."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, dy):
        return dy


def save(name, nodes, x, weights, y, constants):
    upstream = torch.sin(torch.arange(1, y.numel() + 1, dtype=f64)).reshape(y.shape)
    grads = torch.autograd.grad(y, list(weights.values()), upstream)
    made = [h.make_node(op, ins, [out], **attrs) for op, ins, out, attrs in nodes]
    stored = {k: v.detach().float().numpy() for k, v in weights.items()} | constants
    graph = h.make_graph(made, name, [h.make_tensor_value_info("x", T.FLOAT, x.shape)], [h.make_tensor_value_info("y", T.FLOAT, list(y.shape))],
                         [numpy_helper.from_array(np.asarray(v), k) for k, v in stored.items()])
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)])
    m.ir_version = 8
    onnx.checker.check_model(m)
    onnx.save(m, os.path.join(OUT, name + ".onnx"))
    tensors = {"x": x.numpy(), "out/y": y.detach().numpy()}
    tensors |= {"grad/" + k: g.numpy() for k, g in zip(weights, grads)}
    save_file(tensors, os.path.join(OUT, name + ".safetensors"))


def single(*dims, scale=1.0):
    """Returns float64 numbers that fp32 represents exactly."""
    return (scale * torch.randn(*dims)).to(f64)


def fp32(v):
    return np.asarray(v, np.float32)


def quantizer(x, scale, zero, low, high, clip_after=True):
    return torch.clamp(Straight.apply(x / scale + zero), low, high)


def int_domain():
    x, w, b = single(3, 5), single(4, 5).requires_grad_(), single(4).requires_grad_()
    sx, sw = 0.0625, 0.125
    q, qw, qb = quantizer(x, sx, 0, -16, 15), quantizer(w, sw, 0, -8, 7), quantizer(b, sx * sw, 0, -2.0**31, 2.0**31 - 1)
    y = (q @ qw.T + qb) * (sx * sw)
    nodes = []
    for v, s, k in [("x", "sx", "8"), ("w", "sw", "4"), ("b", "sb", "32")]:
        nodes += [("Div", [v, s], v + "1", {}), ("Add", [v + "1", "zero"], v + "2", {}), ("Round", [v + "2"], v + "3", {}),
                  ("Cast", ["low" + k], "l" + v, {"to": T.FLOAT}), ("Cast", ["high" + k], "h" + v, {"to": T.FLOAT}),
                  ("Clip", [v + "3", "l" + v, "h" + v], v + "4", {})]
    nodes += [("Transpose", ["w4"], "wt", {"perm": [1, 0]}), ("MatMul", ["x4", "wt"], "m", {}), ("Add", ["b4", "m"], "a", {}),
              ("Sub", ["a", "zero"], "a1", {}), ("Mul", ["a1", "sb"], "y", {})]
    limits = {"low8": -16, "high8": 15, "low4": -8, "high4": 7, "low32": -2**31, "high32": 2**31 - 1}
    save("int_domain", nodes, x, {"w": w, "b": b}, y,
         {"sx": fp32(sx), "sw": fp32(sw), "sb": fp32(sx * sw), "zero": fp32(0), **{k: np.array(v, np.int64) for k, v in limits.items()}})


def per_channel():
    x, w = single(3, 5), single(4, 5).requires_grad_()
    scale = torch.tensor([0.125, 0.25, 0.5, 0.0625], dtype=f64).reshape(4, 1)
    q = torch.fake_quantize_per_channel_affine(w.float(), scale.flatten().float(), torch.zeros(4), 0, -4, 3).to(f64)
    assert torch.equal(q, quantizer(w, scale, 0, -4, 3) * scale)
    y = torch.tanh(x @ q.T)
    nodes = [("Div", ["w", "s"], "w1", {}), ("Round", ["w1"], "w2", {}), ("Clip", ["w2", "low", "high"], "w3", {}),
             ("Mul", ["w3", "s"], "w4", {}), ("Gemm", ["x", "w4"], "g", {"transB": 1}), ("Tanh", ["g"], "y", {})]
    save("per_channel", nodes, x, {"w": w}, y, {"s": fp32(scale.numpy()), "low": fp32(-4), "high": fp32(3)})


def activations():
    """Makes a model with a weight before a quantized activation, with
    torch.fake_quantize_per_tensor_affine's own gradient."""
    x, w = single(6, 5), single(5, 4).requires_grad_()
    y = torch.fake_quantize_per_tensor_affine((x @ w).float(), 0.25, 7, 0, 15).to(f64)
    nodes = [("MatMul", ["x", "w"], "m", {}), ("Mul", ["m", "inverse"], "m1", {}), ("Add", ["m1", "zero"], "m2", {}), ("Round", ["m2"], "m3", {}),
             ("Clip", ["m3", "low", "high"], "m4", {}), ("Sub", ["m4", "zero"], "m5", {}), ("Mul", ["m5", "s"], "y", {})]
    save("activations", nodes, x, {"w": w}, y, {"s": fp32(0.25), "inverse": fp32(4), "zero": fp32(7), "low": fp32(0), "high": fp32(15)})


def dorefa():
    x, w = single(6, 5), single(5, 4).requires_grad_()
    y = Straight.apply(torch.clamp(x @ w, 0, 1) * 7) / 7
    nodes = [("MatMul", ["x", "w"], "m", {}), ("Clip", ["m", "low", "high"], "c", {}), ("Mul", ["c", "n"], "c1", {}), ("Round", ["c1"], "c2", {}),
             ("Div", ["c2", "n"], "y", {})]
    save("dorefa", nodes, x, {"w": w}, y, {"n": fp32(7), "low": fp32(0), "high": fp32(1)})


def plain_round():
    """Makes a model that is not a quantizer: the gradient of rounding is 0, that of the other path is not."""
    x, w = single(6, 5), single(5, 4).requires_grad_()
    m = x @ w
    y = m * torch.round(m)
    nodes = [("MatMul", ["x", "w"], "m", {}), ("Round", ["m"], "r", {}), ("Mul", ["m", "r"], "y", {})]
    save("plain_round", nodes, x, {"w": w}, y, {})


os.makedirs(OUT, exist_ok=True)
for part in (int_domain, per_channel, activations, dorefa, plain_round):
    part()
