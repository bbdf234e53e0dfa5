#!/usr/bin/env python3
"""Writes spatial.safetensors: convolutions, pools and norms by PyTorch in fp64, with gradients for a random dy.

Every case is one ONNX node. onnxruntime (fp32) checks here that the node computes the same as the PyTorch call, if it
supports the case. Needs torch, numpy, safetensors, onnx, onnxruntime.
"""
import json
import pathlib

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
tensors, cases = {}, []


def rand(*shape):
    return torch.randn(*shape)


def case(name, op, inputs, attrs, outputs, diff, version=17, train=False, run_ort=True):
    """Makes a case. outputs: the first one is differentiated; diff: which inputs have a gradient."""
    dy = torch.randn_like(outputs[0])
    grads = torch.autograd.grad(outputs[0], [inputs[i] for i in diff], dy)
    for i, t in enumerate(inputs):
        tensors[f"{name}/in{i}"] = t.detach().numpy().copy()
    for i, t in enumerate(outputs):
        tensors[f"{name}/out{i}"] = t.detach().numpy().copy()
    tensors[f"{name}/dy"] = dy.numpy().copy()
    for i, g in zip(diff, grads):
        tensors[f"{name}/grad{i}"] = g.numpy().copy()
    cases.append(dict(name=name, op=op, version=version, attrs=attrs, inputs=len(inputs), outputs=len(outputs),
                      grads=list(diff), train=train))
    if not run_ort:
        return
    names = [f"x{i}" for i in range(len(inputs))]
    outs = [f"y{i}" for i in range(len(outputs))]
    node = onnx.helper.make_node(op, names, outs, **attrs)
    graph = onnx.helper.make_graph(
        [node], "g", [onnx.helper.make_tensor_value_info(n, 1, t.shape) for n, t in zip(names, inputs)],
        [onnx.helper.make_tensor_value_info(n, 7 if t.dtype == torch.int64 else 1, None) for n, t in zip(outs, outputs)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)], ir_version=8)
    got = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {n: t.detach().numpy().astype(np.float32) for n, t in zip(names, inputs)})
    for g, t in zip(got, outputs):
        np.testing.assert_allclose(g, t.detach().numpy(), rtol=1e-4, atol=1e-4, err_msg=name)


def conv(name, x, w, bias=True, stride=None, pads=None, dilation=None, group=1, auto_pad=None, name_pads=None):
    r = len(x) - 2
    stride, dilation, pads = stride or [1] * r, dilation or [1] * r, pads or [0] * 2 * r
    args = [rand(*x).requires_grad_(), rand(*w).requires_grad_()] + ([rand(w[0]).requires_grad_()] if bias else [])
    padded = F.pad(args[0], [p for i in reversed(range(r)) for p in (pads[i], pads[r + i])])
    f = [F.conv1d, F.conv2d, F.conv3d][r - 1]
    y = f(padded, args[1], args[2] if bias else None, stride, 0, dilation, group)
    attrs = dict(kernel_shape=w[2:], strides=stride, dilations=dilation, group=group)
    attrs.update(dict(auto_pad=auto_pad) if auto_pad else dict(pads=pads))
    case(name, "Conv", args, attrs, [y], range(len(args)))


conv("conv_basic", [2, 3, 7, 6], [4, 3, 3, 3])
conv("conv_lenet1", [1, 1, 28, 28], [6, 1, 5, 5], pads=[2, 2, 2, 2])
conv("conv_lenet2", [2, 6, 14, 14], [16, 6, 5, 5])
conv("conv_stride", [2, 3, 9, 8], [5, 3, 3, 2], stride=[2, 3], pads=[1, 0, 1, 0])
conv("conv_stride4", [2, 3, 19, 19], [7, 3, 5, 5], stride=[4, 4], pads=[2, 2, 2, 2], bias=False)
conv("conv_dilated", [2, 2, 11, 10], [3, 2, 3, 3], dilation=[2, 3], pads=[2, 1, 0, 3])
conv("conv_dilated_stride", [2, 2, 13, 12], [3, 2, 3, 2], dilation=[2, 3], stride=[2, 2], pads=[2, 1, 0, 3])
conv("conv_group", [2, 6, 7, 7], [9, 2, 3, 3], group=3, pads=[1, 1, 1, 1])
conv("conv_depthwise", [2, 5, 8, 8], [5, 1, 3, 3], group=5, pads=[1, 1, 1, 1], bias=False)
conv("conv_depthwise_stride", [2, 5, 9, 9], [10, 1, 3, 3], group=5, pads=[1, 1, 1, 1], stride=[2, 2])
conv("conv_1x1", [2, 7, 5, 5], [4, 7, 1, 1])
conv("conv_1x1_stride", [2, 7, 6, 5], [4, 7, 1, 1], stride=[2, 2])
conv("conv_wide_pad", [2, 2, 4, 4], [3, 2, 2, 2], pads=[3, 3, 2, 4])
conv("conv_1d", [2, 3, 12], [4, 3, 4], stride=[2], pads=[1, 2], dilation=[2])
conv("conv_3d", [2, 2, 5, 6, 7], [3, 2, 3, 2, 3], stride=[1, 2, 2], pads=[1, 0, 1, 1, 1, 1])
conv("conv_patches", [2, 3, 8, 8], [5, 3, 4, 4], stride=[4, 4])
conv("conv_many", [2, 18, 6, 6], [20, 18, 3, 3], pads=[1, 1, 1, 1])
conv("conv_same_upper", [2, 2, 7, 8], [3, 2, 4, 3], stride=[2, 3], pads=[1, 0, 2, 1], auto_pad="SAME_UPPER")
conv("conv_same_lower", [2, 2, 7, 8], [3, 2, 4, 3], stride=[2, 3], pads=[2, 1, 1, 0], auto_pad="SAME_LOWER")
conv("conv_valid", [2, 2, 7, 8], [3, 2, 4, 3], auto_pad="VALID")


def conv_t(name, x, w, bias=True, stride=None, pad=None, dilation=None, group=1, out_pad=None, extra=None, crop=None,
           run_ort=True):
    """Makes a case of ConvTranspose. crop: [begin.., end..] removed from the unpadded result, for asymmetric pads."""
    r = len(x) - 2
    stride, dilation, out_pad = stride or [1] * r, dilation or [1] * r, out_pad or [0] * r
    args = [rand(*x).requires_grad_(), rand(*w).requires_grad_()]
    if bias:
        args.append(rand(w[1] * group).requires_grad_())
    f = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][r - 1]
    y = f(args[0], args[1], None, stride, pad or 0, out_pad, group, dilation)
    if crop:
        y = F.pad(y, [-c for i in reversed(range(r)) for c in (crop[i], crop[r + i])])
    if bias:
        y = y + args[2].reshape([1, -1] + [1] * r)
    attrs = dict(kernel_shape=w[2:], strides=stride, dilations=dilation, group=group)
    attrs.update(extra if extra is not None else dict(pads=crop or list(pad or [0] * r) * 2, output_padding=out_pad))
    case(name, "ConvTranspose", args, attrs, [y], range(len(args)), run_ort=run_ort)


conv_t("convt_basic", [2, 3, 4, 5], [3, 2, 3, 3])
conv_t("convt_up2", [2, 4, 5, 5], [4, 3, 2, 2], stride=[2, 2])
conv_t("convt_out_pad", [2, 3, 4, 4], [3, 2, 3, 3], stride=[2, 3], pad=[1, 1], out_pad=[1, 2])
conv_t("convt_group", [2, 4, 4, 4], [4, 3, 3, 3], group=2, stride=[2, 2], pad=[1, 1], bias=False)
conv_t("convt_dilated", [2, 2, 4, 5], [2, 3, 3, 2], dilation=[2, 3], stride=[2, 1])
conv_t("convt_wide_out_pad", [2, 2, 4, 4], [2, 3, 2, 2], dilation=[3, 3], stride=[2, 2], out_pad=[2, 2],
       run_ort=False)   # onnxruntime refuses output padding of a stride or more
conv_t("convt_asymmetric", [2, 2, 4, 4], [2, 3, 3, 3], stride=[2, 2], crop=[0, 1, 1, 0])
conv_t("convt_1d", [2, 3, 6], [3, 2, 4], stride=[2], pad=[1])
conv_t("convt_3d", [1, 2, 3, 3, 3], [2, 2, 2, 2, 2], stride=[2, 2, 2])
conv_t("convt_same_upper", [2, 2, 4, 4], [2, 3, 3, 3], stride=[2, 2], crop=[0, 0, 1, 1], extra=dict(auto_pad="SAME_UPPER"))
conv_t("convt_output_shape", [2, 2, 4, 4], [2, 3, 3, 3], stride=[2, 2], crop=[1, 1, 0, 0], extra=dict(output_shape=[8, 8]))


def max_pool(name, x, kernel, stride=None, pad=None, dilation=None, ceil=0, pads=None, auto_pad=None, indices=True):
    r = len(x) - 2
    stride, dilation, pad = stride or [1] * r, dilation or [1] * r, pad or [0] * r
    a = rand(*x).requires_grad_()
    src = F.pad(a, [p for i in reversed(range(r)) for p in (pads[i], pads[r + i])], value=float("-inf")) if pads else a
    f = [F.max_pool1d, F.max_pool2d, F.max_pool3d][r - 1]
    y, i = f(src, kernel, stride, pad, dilation, bool(ceil), True)
    attrs = dict(kernel_shape=kernel, strides=stride, dilations=dilation, ceil_mode=ceil)
    attrs.update(dict(auto_pad=auto_pad) if auto_pad else dict(pads=pads or list(pad) * 2))
    if indices and not pads:   # PyTorch counts within the plane, ONNX in the whole tensor
        plane = int(np.prod(x[2:]))
        i = i + (torch.arange(x[0] * x[1]) * plane).reshape([x[0], x[1]] + [1] * r)
        case(name, "MaxPool", [a], attrs, [y, i], [0])
    else:
        case(name, "MaxPool", [a], attrs, [y], [0])


def avg_pool(name, x, kernel, stride=None, pad=None, ceil=0, include=0, run_ort=True):
    r = len(x) - 2
    stride, pad = stride or [1] * r, pad or [0] * r
    a = rand(*x).requires_grad_()
    f = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][r - 1]
    y = f(a, kernel, stride, pad, bool(ceil), bool(include))
    attrs = dict(kernel_shape=kernel, strides=stride, ceil_mode=ceil, count_include_pad=include, pads=list(pad) * 2)
    case(name, "AveragePool", [a], attrs, [y], [0], version=19, run_ort=run_ort)


max_pool("max_2x2", [2, 3, 8, 6], [2, 2], [2, 2])
max_pool("max_overlap", [2, 3, 9, 9], [3, 3], [2, 2], [1, 1])
max_pool("max_ceil", [2, 3, 10, 11], [3, 3], [2, 2], ceil=1)
max_pool("max_ceil_drop", [1, 2, 5, 5], [2, 2], [3, 3], [1, 1], ceil=1)
max_pool("max_dilated", [2, 3, 11, 10], [3, 2], [1, 2], dilation=[2, 3])
max_pool("max_same_upper", [2, 3, 7, 7], [2, 3], [2, 2], pads=[0, 1, 1, 1], auto_pad="SAME_UPPER")
max_pool("max_1d", [2, 3, 11], [3], [2], [1])
max_pool("max_3d", [2, 2, 5, 6, 7], [2, 3, 2], [2, 1, 2], [1, 1, 0])
max_pool("max_stride3", [2, 2, 9, 10], [3, 3], [3, 3])
max_pool("max_large", [1, 2, 20, 20], [17, 17], [1, 2], [8, 8])
avg_pool("avg_2x2", [2, 3, 8, 6], [2, 2], [2, 2])
avg_pool("avg_pad", [2, 3, 9, 9], [3, 3], [2, 2], [1, 1])
avg_pool("avg_pad_included", [2, 3, 9, 9], [3, 3], [2, 2], [1, 1], include=1)
avg_pool("avg_ceil", [2, 3, 10, 11], [3, 3], [2, 2], ceil=1)
avg_pool("avg_ceil_included", [2, 3, 10, 10], [3, 3], [2, 2], [1, 1], ceil=1, include=1)
avg_pool("avg_1d", [2, 3, 11], [3], [1], [1])
avg_pool("avg_3d", [2, 2, 5, 6, 7], [2, 3, 2], [2, 1, 2], [1, 1, 0], include=1)
for r, dims in ((1, [9]), (2, [5, 7]), (3, [3, 4, 5])):
    a = rand(2, 3, *dims).requires_grad_()
    case(f"global_avg_{r}d", "GlobalAveragePool", [a], {}, [a.mean(dim=list(range(2, 2 + r)), keepdim=True)], [0])
    a = rand(2, 3, *dims).requires_grad_()
    case(f"global_max_{r}d", "GlobalMaxPool", [a], {}, [a.amax(dim=list(range(2, 2 + r)), keepdim=True)], [0])


def batch_norm(name, dims, train, version, epsilon=1e-3, momentum=0.8, shift=0.0):
    c = dims[1]
    x = (rand(*dims) * 2 + shift).requires_grad_()
    scale, bias = rand(c).requires_grad_(), rand(c).requires_grad_()
    mean, var = rand(c), torch.rand(c) + 0.5
    y = F.batch_norm(x, None if train else mean, None if train else var, scale, bias, train, 0, epsilon)
    attrs = dict(epsilon=epsilon, momentum=momentum)
    outputs = [y]
    if train:
        axes = [0] + list(range(2, len(dims)))
        m, v = x.detach().mean(axes), x.detach().var(axes, unbiased=False)   # ONNX blends the biased variance
        outputs += [mean * momentum + m * (1 - momentum), var * momentum + v * (1 - momentum)]
        if version >= 14:
            attrs["training_mode"] = 1
        else:
            outputs += [m, v]
    case(name, "BatchNormalization", [x, scale, bias, mean, var], attrs, outputs, [0, 1, 2], version, train,
         run_ort=not train)


batch_norm("bn_2d", [3, 4, 5, 5], False, 17)
batch_norm("bn_vector", [6, 70], False, 9)
batch_norm("bn_1d", [3, 4, 7], False, 14)
batch_norm("bn_train_2d", [3, 4, 5, 5], True, 17)
batch_norm("bn_train_old", [3, 4, 5, 5], True, 9)
batch_norm("bn_train_vector", [6, 70], True, 15)
batch_norm("bn_train_3d", [2, 3, 3, 4, 5], True, 17, shift=30.0)
for name, dims in (("in_2d", [2, 3, 5, 6]), ("in_1d", [2, 4, 9])):
    a = [rand(*dims).requires_grad_(), rand(dims[1]).requires_grad_(), rand(dims[1]).requires_grad_()]
    case(name, "InstanceNormalization", a, dict(epsilon=1e-4), [F.instance_norm(*[a[0], None, None, a[1], a[2]], eps=1e-4)], [0, 1, 2])

save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, pathlib.Path(__file__).with_name("spatial.safetensors"),
          {"cases": json.dumps(cases, default=list)})
print(len(cases), "cases")
