"""Runs an ONNX graph node by node in torch, with one torch call per node, so that torch.autocast
and autograd act as on any PyTorch program. Only nodes that depend on a trainable tensor run in
torch; masks, positions and shape arithmetic come from onnxruntime (onnx.reference if that cannot
run the file).

An unsupported operator or attribute raises NotImplementedError; the caller skips the model and
reports it.
"""

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import inliner, numpy_helper
from onnx_torch_calls import MovingCalls, attributes

SIMPLE = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow, "Relu": F.relu,
    "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Erf": torch.erf, "Sqrt": torch.sqrt, "Exp": torch.exp, "Log": torch.log,
    "Abs": torch.abs, "Neg": torch.neg, "Reciprocal": torch.reciprocal, "Softplus": F.softplus, "Mish": F.mish,
    "IsNaN": torch.isnan, "MatMul": torch.matmul, "Where": torch.where, "Max": torch.maximum, "Min": torch.minimum,
    "Greater": torch.gt, "Less": torch.lt, "GreaterOrEqual": torch.ge, "LessOrEqual": torch.le, "Equal": torch.eq,
    "HardSwish": F.hardswish, "Sign": torch.sign, "Cos": torch.cos, "Sin": torch.sin, "Identity": lambda x: x,
}  # fmt: skip
RESHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


class Graph(MovingCalls):
    """nodes: with functions and constant branches inlined. trained: names whose gradients are computed."""

    def __init__(self, path, batch, trained):
        self.proto = inliner.inline_local_functions(onnx.load(path))
        self.consts = {i.name: numpy_helper.to_array(i) for i in self.proto.graph.initializer}
        self.nodes = list(self.flat(self.proto.graph.node))
        for n in self.nodes:
            if n.op_type == "Constant":
                a = attributes(n)
                value = a.get("value", a.get("value_float", a.get("value_int", a.get("value_ints", a.get("value_floats")))))
                self.consts[n.output[0]] = numpy_helper.to_array(value) if hasattr(value, "raw_data") else np.array(value)
        self.trained = [n for n in trained if n in self.consts]
        if len(self.trained) < len(trained):
            raise NotImplementedError(f"{set(trained) - set(self.trained)}: parameters that are no tensors of the file")
        self.values = self.intermediate(batch) | self.consts | batch
        self.reached = set(self.trained)
        if any(n.op_type == "Cast" and attributes(n)["to"] == onnx.TensorProto.FLOAT16 for n in self.nodes):
            self.reached.update(k for k, v in batch.items() if v.dtype.kind == "f")  # keeps the inputs unrounded
        for n in self.nodes:
            if n.op_type not in ("Shape", "Size") and any(i in self.reached for i in n.input):
                self.reached.update(o for o in n.output if o)

    def flat(self, nodes):
        for n in nodes:
            if n.op_type != "If":
                yield n
                continue
            if n.input[0] not in self.consts:
                raise NotImplementedError("If that depends on data")
            branch = attributes(n)["then_branch" if self.consts[n.input[0]].item() else "else_branch"]
            self.consts.update({i.name: numpy_helper.to_array(i) for i in branch.initializer})
            yield from self.flat(branch.node)
            for inner, outer in zip(branch.output, n.output):
                yield onnx.helper.make_node("Identity", [inner.name], [outer])

    def intermediate(self, batch):
        """Returns every tensor of a run of the whole file."""
        m = onnx.ModelProto()
        m.CopyFrom(self.proto)
        have = {o.name for o in m.graph.output}
        m.graph.output.extend(onnx.ValueInfoProto(name=o) for n in m.graph.node for o in n.output if o and o not in have)
        names = [o.name for o in m.graph.output]
        feed = {i.name: batch[i.name] for i in m.graph.input if i.name in batch}
        try:
            import onnxruntime as ort

            options = ort.SessionOptions()
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.log_severity_level = 4
            options.intra_op_num_threads = 1
            session = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return feed | dict(zip(names, session.run(names, feed)))
        except Exception:  # onnxruntime's errors have no common base class
            from onnx.reference import ReferenceEvaluator

            return feed | dict(zip(names, ReferenceEvaluator(m).run(names, feed)))

    def run(self, outputs, dtype, autocast=None):
        """Returns (outputs by name, trained leaves by name). dtype: type of floating tensors before autocast."""
        state, needed = {}, set(outputs)
        for n in reversed(self.nodes):
            if any(o in needed for o in n.output):
                needed.update(n.input)

        def tensor(name):
            if name == "":
                return None
            if name not in state:
                v = np.asarray(self.values[name])
                t = torch.from_numpy(np.array(v))
                t = t.to(dtype) if t.is_floating_point() else t
                state[name] = t.requires_grad_(True) if name in self.trained else t
            return state[name]

        with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None, cache_enabled=False):
            for n in self.nodes:
                if n.op_type == "Constant" or not any(i in self.reached for i in n.input) or n.op_type in ("Shape", "Size"):
                    continue
                if not any(o in self.reached and o in needed for o in n.output):
                    continue
                got = self.call(n, [tensor(i) for i in n.input], tensor, dtype)
                for name, t in zip(n.output, got if isinstance(got, (tuple, list)) else [got]):
                    if name:
                        state[name] = t
        return {o: tensor(o) for o in outputs}, {n: tensor(n) for n in self.trained}

    def ints(self, node, i, attribute=None, default=None):
        """Returns input i as integers; older versions have an attribute instead."""
        a = attributes(node)
        if attribute in a:
            value = a[attribute]
            return list(value) if not isinstance(value, int) else value
        if len(node.input) > i and node.input[i]:
            return np.asarray(self.values[node.input[i]]).reshape(-1).tolist()
        return default

    def call(self, n, x, tensor, dtype):
        op, a = n.op_type, attributes(n)
        if op in SIMPLE:
            if op in ("Max", "Min") and len(x) != 2:
                raise NotImplementedError(f"{op} of {len(x)}")
            return SIMPLE[op](*x)
        if op in RESHAPING:
            return x[0].reshape(np.asarray(self.values[n.output[0]]).shape)
        special = getattr(self, "op_" + op, None)
        if special is None:
            raise NotImplementedError(op)
        return special(n, a, x, dtype)

    # Products

    def op_Gemm(self, n, a, x, dtype):
        left = x[0].t() if a.get("transA", 0) else x[0]
        weight = x[1] if a.get("transB", 0) else x[1].t()
        if a.get("alpha", 1.0) == 1.0 and a.get("beta", 1.0) == 1.0 and (len(x) < 3 or x[2].dim() == 1):
            return F.linear(left, weight, x[2] if len(x) > 2 else None)
        y = a.get("alpha", 1.0) * F.linear(left, weight)
        return y + a.get("beta", 1.0) * x[2] if len(x) > 2 else y

    def padded(self, n, a, x, kernel, fill):
        """Returns the input and the padding that is left to PyTorch's operator. If PyTorch's symmetric padding cannot
        express the padding, explicit zeros are added to the input."""
        rank = len(kernel)
        strides, dilations = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
        pads = list(a.get("pads", [0] * 2 * rank))
        auto = a.get("auto_pad", b"NOTSET").decode()
        if auto.startswith("SAME"):
            pads = [0] * 2 * rank
            for d in range(rank):
                size = x.shape[2 + d]
                total = max(0, (-(-size // strides[d]) - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 - size)
                pads[d], pads[rank + d] = (total // 2, total - total // 2) if auto == "SAME_UPPER" else (total - total // 2, total // 2)
        if pads[:rank] == pads[rank:] and all(p <= k // 2 for p, k in zip(pads, kernel)):
            return x, pads[:rank]
        flat = [p for d in reversed(range(rank)) for p in (pads[d], pads[rank + d])]
        return F.pad(x, flat, value=fill), [0] * rank

    def op_Conv(self, n, a, x, dtype):
        rank = x[0].dim() - 2
        source, padding = self.padded(n, a, x[0], list(x[1].shape[2:]), 0.0)
        f = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
        return f(source, x[1], x[2] if len(x) > 2 else None, a.get("strides", [1] * rank), padding, a.get("dilations", [1] * rank),
                 a.get("group", 1))  # fmt: skip

    def op_ConvTranspose(self, n, a, x, dtype):
        rank = x[0].dim() - 2
        pads = a.get("pads", [0] * 2 * rank)
        if rank != 2 or pads[:rank] != pads[rank:] or "output_shape" in a:
            raise NotImplementedError("ConvTranspose with such padding")
        return F.conv_transpose2d(x[0], x[1], x[2] if len(x) > 2 else None, a.get("strides", [1, 1]), pads[:2],
                                  a.get("output_padding", [0, 0]), a.get("group", 1), a.get("dilations", [1, 1]))  # fmt: skip

    # Norms, softmax

    def op_BatchNormalization(self, n, a, x, dtype):
        training = bool(a.get("training_mode", 0)) or self.batch_statistics
        return F.batch_norm(x[0], x[3].detach().clone(), x[4].detach().clone(), x[1], x[2], training, eps=a.get("epsilon", 1e-5))

    def op_InstanceNormalization(self, n, a, x, dtype):
        return F.instance_norm(x[0], weight=x[1], bias=x[2], eps=a.get("epsilon", 1e-5))

    def op_LayerNormalization(self, n, a, x, dtype):
        shape = x[0].shape[a.get("axis", -1) :]
        return F.layer_norm(x[0], shape, x[1].reshape(shape), x[2].reshape(shape) if len(x) > 2 and x[2] is not None else None, a.get("epsilon", 1e-5))

    def op_RMSNormalization(self, n, a, x, dtype):
        return F.rms_norm(x[0], x[0].shape[a.get("axis", -1) :], x[1], a.get("epsilon", 1e-5))

    def op_Softmax(self, n, a, x, dtype):
        axis = a.get("axis", -1 if self.opset >= 13 else 1)
        if self.opset < 13 and axis % x[0].dim() != x[0].dim() - 1:
            raise NotImplementedError("Softmax over several axes")
        return torch.softmax(x[0], axis)

    # Pooling, reductions

    def pool(self, f, n, a, x, fill, **more):
        rank = x.dim() - 2
        source, padding = self.padded(n, a, x, list(a["kernel_shape"]), fill)
        return f(source, a["kernel_shape"], a.get("strides", [1] * rank), padding, ceil_mode=bool(a.get("ceil_mode", 0)), **more)

    def op_MaxPool(self, n, a, x, dtype):
        f = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[x[0].dim() - 3]
        return self.pool(f, n, a, x[0], float("-inf"), dilation=a.get("dilations", 1))

    def op_AveragePool(self, n, a, x, dtype):
        if any(a.get("pads", [])) and not a.get("count_include_pad", 0) and len(set(a["pads"])) > 1:
            raise NotImplementedError("AveragePool with such padding")
        f = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[x[0].dim() - 3]
        return self.pool(f, n, a, x[0], 0.0, count_include_pad=bool(a.get("count_include_pad", 0)))

    def op_GlobalAveragePool(self, n, a, x, dtype):
        return (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[x[0].dim() - 3](x[0], 1)

    def op_ReduceMean(self, n, a, x, dtype):
        return torch.mean(x[0], dim=self.ints(n, 1, "axes"), keepdim=bool(a.get("keepdims", 1)))

    def op_ReduceSum(self, n, a, x, dtype):
        return torch.sum(x[0], dim=self.ints(n, 1, "axes"), keepdim=bool(a.get("keepdims", 1)))

    def op_ReduceMax(self, n, a, x, dtype):
        return torch.amax(x[0], dim=self.ints(n, 1, "axes"), keepdim=bool(a.get("keepdims", 1)))

    def op_ReduceL2(self, n, a, x, dtype):
        return torch.linalg.vector_norm(x[0], dim=self.ints(n, 1, "axes"), keepdim=bool(a.get("keepdims", 1)))

    # Activations

    def op_Gelu(self, n, a, x, dtype):
        return F.gelu(x[0], approximate=a.get("approximate", b"none").decode())

    def op_LeakyRelu(self, n, a, x, dtype):
        return F.leaky_relu(x[0], a.get("alpha", 0.01))

    def op_Elu(self, n, a, x, dtype):
        return F.elu(x[0], a.get("alpha", 1.0))

    def op_Selu(self, n, a, x, dtype):
        return F.selu(x[0])

    def op_PRelu(self, n, a, x, dtype):
        return torch.where(x[0] > 0, x[0], x[0] * x[1])

    def op_HardSigmoid(self, n, a, x, dtype):
        if abs(a.get("alpha", 0.2) - 1 / 6) < 1e-4:
            return F.hardsigmoid(x[0])
        return torch.clamp(a.get("alpha", 0.2) * x[0] + a.get("beta", 0.5), 0, 1)

    def op_Clip(self, n, a, x, dtype):
        low = a.get("min", x[1].item() if len(x) > 1 and x[1] is not None else None)
        high = a.get("max", x[2].item() if len(x) > 2 and x[2] is not None else None)
        return torch.clamp(x[0], low, high)

    def op_Dropout(self, n, a, x, dtype):
        return x[0]

    # Fake quantization: a straight-through gradient

    def op_QuantizeLinear(self, n, a, x, dtype):
        if x[1].dim():
            raise NotImplementedError("QuantizeLinear by channel")
        y = x[0] / x[1]
        return y + (torch.round(y) - y).detach() + (x[2].to(y.dtype) if len(x) > 2 else 0)

    def op_DequantizeLinear(self, n, a, x, dtype):
        if x[1].dim():
            raise NotImplementedError("DequantizeLinear by channel")
        return (x[0] - (x[2].to(x[1].dtype) if len(x) > 2 else 0)) * x[1]

    # Transformers in opset 23

    def op_RotaryEmbedding(self, n, a, x, dtype):
        if a.get("interleaved", 0) or a.get("rotary_embedding_dim", 0) or len(x) > 3 or x[0].dim() != 4:
            raise NotImplementedError("RotaryEmbedding of such a form")
        cos, sin = x[1][:, None], x[2][:, None]
        u, v = x[0].chunk(2, -1)
        return torch.cat([u * cos - v * sin, u * sin + v * cos], -1)

    def op_Attention(self, n, a, x, dtype):
        if len(x) > 4 or len(n.output) > 1 or x[0].dim() != 4 or a.get("is_causal", 0) or a.get("softcap", 0.0):
            raise NotImplementedError("Attention of such a form")
        groups = x[0].shape[1] // x[1].shape[1]
        k, v = (t.repeat_interleave(groups, 1) for t in x[1:3])
        return F.scaled_dot_product_attention(x[0], k, v, attn_mask=x[3] if len(x) > 3 else None, scale=a.get("scale"))

    @property
    def opset(self):
        return max(o.version for o in self.proto.opset_import if o.domain in ("", "ai.onnx"))

    batch_statistics = False
