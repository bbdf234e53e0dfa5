"""Classifies every floating tensor of an exported file: which PyTorch parameter it is, in which
layout, or something else. Only values are used: unprepared_build.py gives every element of every
parameter a distinct value, so an element identifies its parameter.
"""

import itertools

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

FLOATING = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
# Kinds of tensors that must, may, and must not be trained.
PARAMETER = ("identity", "transposed", "reshaped", "permuted", "slice", "concat")
EITHER = ("gathered", "folded")


def floating_tensors(model):
    """Returns {name: array} of the initializers and Constant nodes of the graph, its subgraphs and its functions."""
    found = {}

    def keep(name, tensor):
        if tensor.data_type in FLOATING:
            found.setdefault(name, numpy_helper.to_array(tensor).astype(np.float64))

    def walk(nodes):
        for node in nodes:
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    graph(a.g)
                elif node.op_type == "Constant" and a.name == "value":
                    keep(node.output[0], a.t)
                elif node.op_type == "Constant" and a.name in ("value_float", "value_floats"):
                    found.setdefault(node.output[0], np.asarray(a.f if a.name == "value_float" else list(a.floats), np.float64))

    def graph(g):
        for t in g.initializer:
            keep(t.name, t)
        walk(g.node)

    graph(model.graph)
    for f in model.functions:
        walk(f.node)
    return found


def live_tensors(model):
    """Returns names of the tensors on which an output of the graph depends; a node with subgraphs depends on all
    tensors that they name."""
    produced = {o: n for n in model.graph.node for o in n.output}
    seen, todo = set(), [o.name for o in model.graph.output]

    used = {i for n in model.graph.node for i in n.input} | {o.name for o in model.graph.output}

    def mentioned(node):
        # The running statistics of a BatchNormalization in training mode only affect its further outputs.
        training = node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i for a in node.attribute)
        yield from node.input[:3] if training and not used.intersection(node.output[1:]) else node.input
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from (t.name for t in a.g.initializer)
                for n in a.g.node:
                    yield from n.output
                    yield from mentioned(n)

    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in produced:
            todo += list(mentioned(produced[name]))
    return seen


class Parameters:
    """The parameters of a module as one vector, searchable by value."""

    def __init__(self, named):
        self.names = [n for n, _ in named]
        self.arrays = [np.asarray(p, np.float64) for _, p in named]
        self.offsets = np.cumsum([0] + [a.size for a in self.arrays])
        flat = np.concatenate([a.reshape(-1) for a in self.arrays]) if self.arrays else np.zeros(0)
        self.flat = flat
        self.order = np.argsort(flat, kind="stable")
        self.sorted = flat[self.order]

    def locate(self, values):
        """Returns the index in the vector of every element, -1 where no parameter has that value."""
        if not self.sorted.size:
            return np.full(values.size, -1)
        at = np.minimum(np.searchsorted(self.sorted, values.reshape(-1)), self.sorted.size - 1)
        return np.where(self.sorted[at] == values.reshape(-1), self.order[at], -1)

    def owner(self, index):
        return np.searchsorted(self.offsets, index, side="right") - 1


def transform_of(array, source):
    if array.size != source.size:
        return "slice"
    if array.shape == source.shape:
        if np.array_equal(array, source):
            return "identity"
    if array.ndim == source.ndim and array.ndim <= 5:
        if any(np.array_equal(array, source.transpose(p)) for p in itertools.permutations(range(array.ndim)) if source.transpose(p).shape == array.shape):
            return "transposed"
    return "reshaped" if np.array_equal(array.reshape(-1), source.reshape(-1)) else "permuted"


def formula(array, p):
    """Returns a formula of one parameter that gives the tensor's values in some order; None if none is known."""
    if array.size == 0 or not np.isfinite(array).all():
        return None
    mine = np.sort(array.reshape(-1))
    with np.errstate(all="ignore"):
        for source, name in zip(p.arrays, p.names):
            if source.size != array.size or not np.isfinite(source).all():
                continue
            theirs = np.sort(source.reshape(-1))
            shapes = {"exp": np.exp(theirs), "-exp": np.sort(-np.exp(theirs)), "sigmoid": 1 / (1 + np.exp(-theirs)), "tanh": np.tanh(theirs), "softplus": np.log1p(np.exp(theirs))}
            for text, values in shapes.items():
                if np.allclose(mine, values, rtol=1e-5, atol=1e-9):
                    return {"torch": [name], "formula": text}
            if array.size < 3:
                continue
            for other in (theirs, theirs[::-1]):  # tries values = a x + b, for a > 0 and for a < 0
                slope = np.dot(mine - mine.mean(), other - other.mean()) / max(other.var() * other.size, 1e-300)
                shift = mine.mean() - slope * other.mean()
                if slope and np.allclose(mine, slope * other + shift, rtol=1e-5, atol=1e-6 * np.abs(mine).max()):
                    return {"torch": [name], "formula": f"{slope:.6g} x + {shift:.6g}"}
    return None


def truth(array, p, buffers):
    """Returns a tensor's truth and, if it consists of parameters' elements, their indices in the parameters' vector."""
    index = p.locate(array)
    hit = index >= 0
    if array.size and hit.mean() >= (0.99 if array.size >= 100 else 1.0):
        owners = np.unique(p.owner(index[hit]))
        row = {"torch": [p.names[o] for o in owners]}
        repeats = np.unique(index[hit]).size < hit.sum()
        if not hit.all() or repeats:
            return {"truth": "gathered", **row}, index
        whole = sum(p.arrays[o].size for o in owners) == array.size
        if len(owners) > 1:
            return {"truth": "concat" if whole else "concat", **row}, index
        return {"truth": transform_of(array, p.arrays[owners[0]]) if whole else "slice", **row}, index
    for name, buffer in buffers.items():
        if buffer.size == array.size and np.array_equal(np.sort(buffer, axis=None), np.sort(array, axis=None)):
            return {"truth": "buffer", "torch": [name]}, None
    known = formula(array, p)
    if known:
        return {"truth": "folded", **known}, None
    for name, buffer in buffers.items():
        if array.size > 1 and np.unique(array).size > 1 and buffer.size > array.size and np.isin(array, buffer).all():
            return {"truth": "buffer", "torch": [name], "part": True}, None
    return {"truth": "unresolved"}, None


def is_plain(array):
    """Returns whether the values cannot come from a parameter: whole numbers, few distinct values, or non-finite
    values."""
    finite = array[np.isfinite(array)]
    few = finite.size > 4 and np.unique(finite).size <= 2
    return finite.size == 0 or few or np.array_equal(finite, np.round(finite))


def classify(model, named_parameters, named_buffers, second_draw):
    """Returns rows for every floating tensor, and {name: indices} of those that consist of parameters' elements.
    `second_draw` returns the tensors of the same export with other parameters: a tensor that changes was computed from
    parameters by constant folding; a tensor that does not change is a constant."""
    p, live = Parameters(named_parameters), live_tensors(model)
    tensors = floating_tensors(model)
    rows, maps, open_ones = {}, {}, []
    for name, array in tensors.items():
        row, index = truth(array, p, named_buffers)
        if row["truth"] == "unresolved":
            row["truth"] = "constant"
            if is_plain(array):
                row["how"] = "plain values"
            else:
                open_ones.append(name)
        if index is not None:
            maps[name] = index
        rows[name] = {"name": name, "shape": list(array.shape), "live": name in live, **row}
    if open_ones:
        other = second_draw()
        for name in open_ones:
            if other is None or name not in other or other[name].shape != tensors[name].shape:
                rows[name]["how"] = "no second draw to compare with"
            elif np.allclose(other[name], tensors[name], rtol=1e-6, atol=1e-9, equal_nan=True):
                rows[name]["how"] = "the same for other parameters"
            else:
                rows[name]["truth"] = "folded"
    return list(rows.values()), maps, p
