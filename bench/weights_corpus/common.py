"""Functions that all generators of the weights corpus share: they list the tensors of a file and
determine which of them are weights.

This needs no knowledge of exporters. A model is exported twice. In the second export, every
trainable parameter of the framework has other values, and everything else is equal. A tensor of
the file that changed is a weight, or was computed from one; a tensor that did not change is a
constant. Tensors that no output depends on are listed as "any": bench/weights.py does not count
them. So are a few tensors that a generator declares ambiguous, with a reason.
"""

import fnmatch
import json
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

FLOATING = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}


BATCH = 4  # rows of a case's inputs


def floats(*shape):
    return np.random.default_rng(1).standard_normal((BATCH, *shape)).astype(np.float32)


def tokens(vocab, length, dtype=np.int32):
    return np.random.default_rng(1).integers(1, vocab, (BATCH, length)).astype(dtype)


def registrar(families):
    """Returns the decorator family(half, *ways) of a generator: appends (half, ways, function) to `families`."""

    def family(half, *ways):
        def register(make):
            families.append((half, ways, make))
            return make

        return register

    return family


def floating_tensors(model):
    """Returns [(name, array)] of initializers and Constant nodes, in the graph, its subgraphs and functions, in the
    file's order.
    """
    found = []

    def keep(name, tensor):
        if tensor.data_type in FLOATING:
            found.append((name, numpy_helper.to_array(tensor).astype(np.float64)))

    def nodes_of(nodes):
        for node in nodes:
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    graph(a.g)
                elif node.op_type == "Constant" and a.name == "value":
                    keep(node.output[0], a.t)
                elif node.op_type == "Constant" and a.name in ("value_float", "value_floats"):
                    found.append((node.output[0], np.asarray(a.f if a.name == "value_float" else list(a.floats), np.float64)))

    def graph(g):
        for t in g.initializer:
            keep(t.name, t)
        nodes_of(g.node)

    graph(model.graph)
    for f in model.functions:
        nodes_of(f.node)
    return found


def live_names(model):
    """Returns names that a graph output depends on. A node with subgraphs needs every name that these mention.
    """
    producer = {o: n for n in model.graph.node for o in n.output}

    def mentioned(node):
        yield from node.input
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from (t.name for t in a.g.initializer)
                yield from (o.name for o in a.g.output)
                for inner in a.g.node:
                    yield from inner.output
                    yield from mentioned(inner)

    seen, todo = set(), [o.name for o in model.graph.output]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            if name in producer:
                todo += list(mentioned(producer[name]))
    return seen


def same(a, b):
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-12, equal_nan=True)


def subgraphs(node):
    return [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]


class Walk:
    """Pairs the tensors of two exports of one module: from the outputs back, through nodes of the
    same operators.

    Names and the order of tensors are not used. So the pairs are right even if names are numbered
    (tf2onnx), or if an exporter merged tensors with equal values (fresh parameters). Identity nodes
    are skipped.
    """

    def __init__(self, first, second):
        self.pairs, self.seen, self.differ = {}, set(), []
        self.graphs(first.graph, second.graph, {}, {})

    def graphs(self, a, b, outer_a, outer_b):
        scope_a, scope_b = dict(outer_a), dict(outer_b)
        for g, scope in ((a, scope_a), (b, scope_b)):
            scope.update({i.name: ("input", n) for n, i in enumerate(g.input)})
            scope.update({t.name: ("tensor", t) for t in g.initializer})
            scope.update({o: ("node", n, k, scope) for n in g.node for k, o in enumerate(n.output)})
        for x, y in zip(a.output, b.output):
            self.values(x.name, y.name, scope_a, scope_b)

    def resolve(self, name, scope):
        found = scope.get(name)
        while found and found[0] == "node" and found[1].op_type == "Identity":
            name, scope = found[1].input[0], found[3]
            found = scope.get(name)
        return name, found

    def values(self, x, y, scope_a, scope_b):
        todo = [(x, y, scope_a, scope_b)]
        while todo:
            x, y, scope_a, scope_b = todo.pop()
            (x, p), (y, q) = self.resolve(x, scope_a), self.resolve(y, scope_b)
            if (x, y) in self.seen or not p or not q:
                continue
            self.seen.add((x, y))
            constant_p, constant_q = self.constant(p), self.constant(q)
            if constant_p is not None and constant_q is not None:
                self.pairs.setdefault(x, []).append(constant_q)
            elif p[0] == q[0] == "node" and (p[1].op_type, p[2]) == (q[1].op_type, q[2]):
                todo += [(i, j, p[3], q[3]) for i, j in zip(p[1].input, q[1].input)]
                for g, h in zip(subgraphs(p[1]), subgraphs(q[1])):
                    self.graphs(g, h, p[3], q[3])

            elif q[0] == "node" and q[1].op_type in ("Add", "Mul"):  # the exporter left it out of the first file, where the constant was 0 or 1
                todo += [(x, j, scope_a, q[3]) for j in q[1].input if self.constant(self.resolve(j, q[3])[1] or ("none",)) is None]
            elif "node" in (p[0], q[0]):
                self.differ.append((x, y))

    @staticmethod
    def constant(found):
        if found[0] == "tensor":
            return numpy_helper.to_array(found[1]).astype(np.float64) if found[1].data_type in FLOATING else None
        if found[0] == "node" and found[1].op_type == "Constant":
            a = found[1].attribute[0]
            if a.name == "value":
                return numpy_helper.to_array(a.t).astype(np.float64) if a.t.data_type in FLOATING else None
            return np.asarray(a.f if a.name == "value_float" else list(a.floats), np.float64)
        return None


def only_shapes_read(model):
    """Returns names of tensors of which only the shape is used: training them or not makes no difference.
    """
    uses = {}
    for node in model.graph.node:
        for name in node.input:
            uses.setdefault(name, set()).add(node.op_type)
    return {name for name, ops in uses.items() if ops <= {"Shape", "Size"}}


def truth_of(first, second, ambiguous=()):
    """Returns {tensor name: "weight", "constant" or "any"} of `first`, by what differs from it in `second`. A tensor
    that was merged from a weight and a constant is "any".
    """
    live, walk = live_names(first), Walk(first, second)
    by_name = {} if first.functions else dict(floating_tensors(second))
    aligned = [n for n, _ in floating_tensors(first)] == [n for n, _ in floating_tensors(second)]
    rows, lost, shapes = {}, [], only_shapes_read(first)
    for i, (name, array) in enumerate(floating_tensors(first)):
        partners = walk.pairs.get(name, [])
        if not partners and aligned:
            partners = [floating_tensors(second)[i][1]]
        elif not partners and name in by_name:
            partners = [by_name[name]]
        partners = [p for p in partners if p.shape == array.shape]
        verdicts = {"constant" if same(array, p) else "weight" for p in partners}
        rows[name] = verdicts.pop() if len(verdicts) == 1 else "any"
        if array.size < 1 or name in shapes or name not in live and not first.functions:
            rows[name] = "any"
        elif not partners:
            lost.append(name)
        for pattern, _why in ambiguous:
            if fnmatch.fnmatchcase(name, pattern):
                rows[name] = "any"
    if lost:
        print(f"    no partner in the second export: {lost[:6]}{' ...' if len(lost) > 6 else ''}; the files differ at {walk.differ[:3]}")
    return rows


def write_case(root, half, name, exporter, family, export, redraw, batch, ambiguous=()):
    """Writes ROOT/HALF/NAME. `export()` returns a ModelProto, `redraw()` changes every trainable
    parameter.
    """
    folder = Path(root) / half / name
    if (folder / "truth.json").exists():
        return
    first = export()
    redraw()
    truth = truth_of(first, export(), ambiguous)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(first, folder / "model.onnx")
    known = {t.name for t in first.graph.initializer}
    inputs = [i for i in first.graph.input if i.name not in known]
    if not {i.name for i in inputs} <= set(batch):
        batch = dict(zip([i.name for i in inputs], batch.values()))
    rows = {i.name: i.type.tensor_type.shape.dim[0].dim_value or None for i in inputs}
    np.savez(folder / "batch.npz", **{name: array[: rows.get(name)] for name, array in batch.items()})
    info = {"exporter": exporter, "family": family, "ambiguous": [list(a) for a in ambiguous]}
    (folder / "case.json").write_text(json.dumps(info, indent=1))
    (folder / "truth.json").write_text(json.dumps(truth, indent=1))
    counts = {k: list(truth.values()).count(k) for k in ("weight", "constant", "any")}
    print(f"{half}/{name}: {counts}, {(folder / 'model.onnx').stat().st_size // 1024} KiB")


def other_values(array, rng):
    """Returns values near those of `array`, each different from the original. Positive values, such
    as variances, stay positive.
    """
    array = np.asarray(array)
    spread = float(array.std()) or 0.05
    moved = array * rng.uniform(1.02, 1.4, array.shape) + 0.05 * spread * np.abs(rng.standard_normal(array.shape)) + 1e-3
    return moved.astype(array.dtype)


def trained_values(array, rng):
    """Returns values as a trained parameter has them: the array with another spread, and with noise
    if its elements were all zeros or all ones.
    """
    array = np.asarray(array)
    spread = float(array.std())
    noise = 0.3 * spread if spread > 0 else 0.1 * (abs(float(array.reshape(-1)[0])) or 0.5)
    return (array + noise * rng.standard_normal(array.shape)).astype(array.dtype)
