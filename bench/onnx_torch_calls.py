"""PyTorch calls for ONNX operators that move values and for recurrent operators: a base class of onnx_torch.Graph."""

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


class MovingCalls:
    """Methods of Graph. self.values has every tensor of a run; self.ints() returns an input or attribute as
    integers."""

    # Moving values about

    def op_Cast(self, n, a, x, dtype):
        floating = a["to"] in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16)
        if not floating:
            raise NotImplementedError("Cast to integers")
        return x[0].to(dtype)  # also for a Cast to 16 bits, because the reference is fp32

    def op_CastLike(self, n, a, x, dtype):
        return x[0].to(x[1].dtype)

    def op_Concat(self, n, a, x, dtype):
        return torch.cat(x, a["axis"])

    def op_Transpose(self, n, a, x, dtype):
        return x[0].permute(a.get("perm", list(reversed(range(x[0].dim())))))

    def op_Expand(self, n, a, x, dtype):
        return x[0].expand(np.asarray(self.values[n.output[0]]).shape)

    def op_Tile(self, n, a, x, dtype):
        return x[0].repeat(self.ints(n, 1))

    def op_Split(self, n, a, x, dtype):
        sizes = [np.asarray(self.values[o]).shape[a.get("axis", 0)] for o in n.output]
        return torch.split(x[0], sizes, a.get("axis", 0))

    def op_Slice(self, n, a, x, dtype):
        starts, ends = self.ints(n, 1, "starts"), self.ints(n, 2, "ends")
        axes, steps = self.ints(n, 3, "axes", list(range(len(starts)))), self.ints(n, 4, None, [1] * len(starts))
        y = x[0]
        for start, end, axis, step in zip(starts, ends, axes, steps):
            size = y.shape[axis]
            index = range(size)[slice(start, end if end > -(1 << 60) else None, step)]
            if step == 1:
                y = y.narrow(axis, index.start, len(index))
            else:
                y = y.index_select(axis, torch.tensor(list(index), dtype=torch.int64))
        return y

    def op_Gather(self, n, a, x, dtype):
        axis = a.get("axis", 0)
        index = x[1].long()
        index = torch.where(index < 0, index + x[0].shape[axis], index)
        if axis == 0 and x[0].dim() == 2 and n.input[0] in self.trained:
            return F.embedding(index, x[0])
        if index.dim() == 0:
            return x[0].select(axis, int(index))
        axis %= x[0].dim()
        y = x[0].index_select(axis, index.reshape(-1))
        return y.reshape(*x[0].shape[:axis], *index.shape, *x[0].shape[axis + 1 :])

    def op_GatherElements(self, n, a, x, dtype):
        axis = a.get("axis", 0)
        index = x[1].long()
        return torch.gather(x[0], axis, torch.where(index < 0, index + x[0].shape[axis], index))

    def op_GatherND(self, n, a, x, dtype):
        if a.get("batch_dims", 0):
            raise NotImplementedError("GatherND with batch_dims")
        return x[0][tuple(x[1].long().unbind(-1))]

    def op_ScatterND(self, n, a, x, dtype):
        if a.get("reduction", b"none") != b"none":
            raise NotImplementedError("ScatterND with a reduction")
        return x[0].index_put(tuple(x[1].long().unbind(-1)), x[2].to(x[0].dtype))

    def op_Pad(self, n, a, x, dtype):
        pads = self.ints(n, 1, "pads")
        rank = len(pads) // 2
        flat = [p for d in reversed(range(rank)) for p in (pads[d], pads[rank + d])]
        mode = a.get("mode", b"constant").decode()
        value = x[2].item() if len(x) > 2 and x[2] is not None else a.get("value", 0.0)
        if mode == "constant":
            return F.pad(x[0], flat, value=value)
        while flat and flat[-2:] == [0, 0]:
            flat = flat[:-2]
        return F.pad(x[0], flat, mode={"edge": "replicate", "reflect": "reflect"}[mode])

    def op_DepthToSpace(self, n, a, x, dtype):
        b, c, h, w = x[0].shape
        s = a["blocksize"]
        if a.get("mode", b"DCR") == b"CRD":
            return F.pixel_shuffle(x[0], s)
        return x[0].reshape(b, s, s, c // s // s, h, w).permute(0, 3, 4, 1, 5, 2).reshape(b, c // s // s, h * s, w * s)

    def op_Resize(self, n, a, x, dtype):
        size = list(np.asarray(self.values[n.output[0]]).shape[2:])
        mode = a.get("mode", b"nearest").decode()
        corners = a.get("coordinate_transformation_mode", b"half_pixel").decode() == "align_corners"
        if mode == "nearest":
            return F.interpolate(x[0], size=size, mode="nearest")
        return F.interpolate(x[0], size=size, mode={"linear": "bilinear", "cubic": "bicubic"}[mode], align_corners=corners)

    # Recurrent operators: PyTorch's kernels, with reordered gates

    def recurrent(self, n, a, x, name, order):
        hidden = a["hidden_size"]
        if len(x) > 4 and x[4] is not None or len(x) > 7 and x[7] is not None or a.get("layout", 0):
            raise NotImplementedError(f"{name} with lengths, peepholes or batch-first layout")
        both = a.get("direction", b"forward") == b"bidirectional"
        if a.get("direction", b"forward") == b"reverse" or "activations" in a and name != "RNN":
            raise NotImplementedError(f"{name} reversed")
        weights = []
        for d in range(2 if both else 1):
            gates = lambda w: torch.cat([w.split(hidden)[g] for g in order])  # noqa: E731
            bias = x[3][d].split(hidden * len(order)) if len(x) > 3 and x[3] is not None else None
            weights += [gates(x[1][d]), gates(x[2][d])] + ([gates(b) for b in bias] if bias else [])
        zeros = torch.zeros(len(x[1]), x[0].shape[1], hidden, dtype=x[0].dtype)
        start = [x[i] if len(x) > i and x[i] is not None else zeros for i in ((5, 6) if name == "LSTM" else (5,))]
        f = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN": torch.rnn_tanh}[name]
        out = f(x[0], start if name == "LSTM" else start[0], weights, len(x) > 3 and x[3] is not None, 1, 0.0, False, both, False)
        y = out[0].reshape(*out[0].shape[:2], len(x[1]), hidden).permute(0, 2, 1, 3)
        return (y, *out[1:])

    def op_LSTM(self, n, a, x, dtype):
        return self.recurrent(n, a, x, "LSTM", [0, 2, 3, 1])

    def op_GRU(self, n, a, x, dtype):
        if not a.get("linear_before_reset", 0):
            raise NotImplementedError("GRU with the reset before the product")
        return self.recurrent(n, a, x, "GRU", [1, 0, 2])

    def op_RNN(self, n, a, x, dtype):
        if [v.decode() for v in a.get("activations", [])] not in ([], ["Tanh"]):
            raise NotImplementedError("RNN with such activations")
        return self.recurrent(n, a, x, "RNN", [0])
