"""Ways to break an ONNX model: at the file's bytes and at the fields of its protobuf."""
import random

import onnx
from onnx import AttributeProto, TensorProto

INTS = [-(2**63), -(2**31), -1000, -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 100, 255, 1000, 4096, 65536,
        10**6, 2**24, 2**28, 2**31 - 1, 2**31, 2**33, 2**40, 2**62, 2**63 - 1]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e-30, 1e30, 3.4e38, float("inf"), float("-inf"), float("nan"), 0.5, 1000.0]
TYPES = [TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32,
         TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL, TensorProto.FLOAT16, TensorProto.DOUBLE,
         TensorProto.BFLOAT16, TensorProto.UINT64, TensorProto.COMPLEX64, 0, 99]
WIDTH = {TensorProto.FLOAT: 4, TensorProto.UINT8: 1, TensorProto.INT8: 1, TensorProto.INT16: 2, TensorProto.INT32: 4,
         TensorProto.INT64: 8, TensorProto.BOOL: 1, TensorProto.FLOAT16: 2, TensorProto.DOUBLE: 8,
         TensorProto.BFLOAT16: 2, TensorProto.UINT64: 8, TensorProto.COMPLEX64: 8}
OPERATORS = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""})
WORDS = ["", "SAME_UPPER", "SAME_LOWER", "VALID", "bidirectional", "reverse", "linear", "cubic", "nearest", "floor",
         "align_corners", "asymmetric", "tf_crop_and_resize", "edge", "reflect", "wrap", "mul", "max", "bij,bjk->bik",
         "ii->", "...i,i->...", "sum", "none", "x" * 300]


def flip_bytes(r, data):
    data = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 8, 64])):
        data[r.randrange(len(data))] = r.randrange(256)
    return bytes(data)


def cut(r, data):
    return data[: r.randrange(len(data))]


def insert(r, data):
    at = r.randrange(len(data))
    return data[:at] + bytes(r.randrange(256) for _ in range(r.choice([1, 2, 16]))) + data[at:]


def repeat(r, data):
    a, b = sorted(r.randrange(len(data)) for _ in range(2))
    return data[:b] + data[a:b][:4096] + data[b:]


def graphs(model):
    out = [model.graph]
    for g in out:
        for n in g.node:
            out += [a.g for a in n.attribute if a.HasField("g")]
    return out


def a_graph(r, m):
    return r.choice([g for g in graphs(m)])


def a_node(r, m):
    g = a_graph(r, m)
    return r.choice(g.node) if g.node else None


def tensors(m):
    out = []
    for g in graphs(m):
        out += list(g.initializer)
        for n in g.node:
            out += [a.t for a in n.attribute if a.HasField("t")]
    return out


def a_tensor(r, m):
    all_ = tensors(m)
    small = [t for t in all_ if len(t.dims) < 2 and t.data_type == TensorProto.INT64]  # shapes, axes, indices
    return r.choice(small) if small and r.random() < 0.5 else r.choice(all_) if all_ else None


def an_attribute(r, m, types=None):
    found = [a for g in graphs(m) for n in g.node for a in n.attribute if types is None or a.type in types]
    return r.choice(found) if found else None


def names(m):
    out = []
    for g in graphs(m):
        out += [i.name for i in g.input] + [i.name for i in g.initializer] + [o for n in g.node for o in n.output]
    return out


def change_ints(r, field):
    how = r.randrange(5)
    if how == 0 and len(field):
        del field[r.randrange(len(field))]
    elif how == 1:
        field.insert(r.randrange(len(field) + 1), r.choice(INTS))
    elif how == 2 and len(field) > 1:
        i, j = r.randrange(len(field)), r.randrange(len(field))
        field[i], field[j] = field[j], field[i]
    elif len(field):
        i = r.randrange(len(field))
        field[i] = r.choice(INTS) if r.random() < 0.6 else max(-(2**63), min(2**63 - 1, field[i] + r.choice([-1, 1, 2])))


def tensor_dims(r, m):
    t = a_tensor(r, m)
    if t is not None:
        change_ints(r, t.dims)


def reshaped(r, m):
    """Gives a tensor other dims with the same number of elements: sizes match, ranks do not."""
    t = a_tensor(r, m)
    if t is None:
        return
    n = 1
    for d in t.dims:
        n *= d
    how = r.randrange(4)
    dims = [[n], [1] + list(t.dims), list(t.dims) + [1], [1, n, 1, 1]][how]
    del t.dims[:]
    t.dims.extend(dims)


def tensor_type(r, m):
    t = a_tensor(r, m)
    if t is not None:
        t.data_type = r.choice(TYPES)


def retyped(r, m):
    """Gives a tensor another type, with a matching payload."""
    t = a_tensor(r, m)
    if t is None:
        return
    n = 1
    for d in t.dims:
        n *= max(d, 0)
    if n > 10**6:
        return
    dims, name, kind = list(t.dims), t.name, r.choice(TYPES)
    t.Clear()
    t.name, t.data_type = name, kind
    t.dims.extend(dims)
    if kind == TensorProto.STRING:
        t.string_data.extend([b"a"] * n)
    elif kind in WIDTH:
        t.raw_data = bytes(r.randrange(2) for _ in range(n)) * WIDTH[kind]


def payload(r, m):
    t = a_tensor(r, m)
    if t is None:
        return
    if t.raw_data:
        data = bytearray(t.raw_data)
        if t.data_type == TensorProto.INT64 and len(data) >= 8:
            at = r.randrange(len(data) // 8) * 8
            data[at : at + 8] = r.choice(INTS).to_bytes(8, "little", signed=True)
        else:
            for _ in range(r.choice([1, 4, 64])):
                data[r.randrange(len(data))] = r.randrange(256)
        t.raw_data = bytes(data)
        if r.random() < 0.15:
            t.raw_data = t.raw_data[: r.randrange(len(data))]
    elif len(t.int64_data):
        change_ints(r, t.int64_data)
    elif len(t.float_data):
        t.float_data[r.randrange(len(t.float_data))] = r.choice(FLOATS)


def attribute_value(r, m):
    a = an_attribute(r, m)
    if a is None:
        return
    if a.type == AttributeProto.INT:
        a.i = r.choice(INTS)
    elif a.type == AttributeProto.FLOAT:
        a.f = r.choice(FLOATS)
    elif a.type == AttributeProto.INTS:
        change_ints(r, a.ints)
    elif a.type == AttributeProto.STRING:
        a.s = r.choice(WORDS).encode()
    elif a.type == AttributeProto.STRINGS and len(a.strings):
        a.strings[r.randrange(len(a.strings))] = r.choice(WORDS).encode()


def attribute_kind(r, m):
    a = an_attribute(r, m)
    if a is not None:
        a.type = r.choice([1, 2, 3, 4, 5, 6, 7, 8, 0, 77])


def attribute_gone(r, m):
    n = a_node(r, m)
    if n is not None and n.attribute:
        del n.attribute[r.randrange(len(n.attribute))]


def attribute_added(r, m):
    n = a_node(r, m)
    if n is None:
        return
    schema = [s for s in onnx.defs.get_all_schemas() if s.name == n.op_type and s.attributes]
    if schema:
        name = r.choice(sorted(schema[0].attributes))
        kind = r.randrange(3)
        value = r.choice(INTS) if kind == 0 else [r.choice(INTS) for _ in range(r.randrange(5))] if kind == 1 else r.choice(WORDS)
        old = [i for i, a in enumerate(n.attribute) if a.name == name]
        if old:
            del n.attribute[old[0]]
        n.attribute.append(onnx.helper.make_attribute(name, value, attr_type=[2, 7, 3][kind]))


def operator(r, m):
    n = a_node(r, m)
    if n is not None:
        n.op_type = r.choice(OPERATORS) if r.random() < 0.8 else r.choice(a_graph(r, m).node or [n]).op_type


def rewire(r, m):
    n = a_node(r, m)
    if n is not None and n.input:
        n.input[r.randrange(len(n.input))] = r.choice(names(m) + [""])


def input_count(r, m):
    n = a_node(r, m)
    if n is None:
        return
    if n.input and r.random() < 0.5:
        del n.input[r.randrange(len(n.input))]
    else:
        n.input.insert(r.randrange(len(n.input) + 1), r.choice(names(m) + [""]))


def output_count(r, m):
    n = a_node(r, m)
    if n is None:
        return
    if n.output and r.random() < 0.4:
        del n.output[r.randrange(len(n.output))]
    elif n.output and r.random() < 0.5:
        n.output[r.randrange(len(n.output))] = r.choice(names(m) + ["", "new"])
    else:
        n.output.append(f"extra_{r.randrange(10**9)}")


def node_gone(r, m):
    g = a_graph(r, m)
    if g.node:
        del g.node[r.randrange(len(g.node))]


def node_twice(r, m):
    g = a_graph(r, m)
    if g.node:
        copy = g.node.add()
        copy.CopyFrom(r.choice(g.node[:-1] or [copy]))
        if r.random() < 0.7 and copy.output:
            copy.output[0] = f"copy_{r.randrange(10**9)}"


def node_between(r, m):
    """Inserts a node of any operator before an input."""
    g = a_graph(r, m)
    n = r.choice(g.node) if g.node else None
    if n is None or not n.input:
        return
    i = r.randrange(len(n.input))
    pool = names(m)
    inputs = [n.input[i]] + [r.choice(pool) for _ in range(r.choice([0, 0, 1, 1, 2, 3]))]
    name = f"between_{r.randrange(10**9)}"
    g.node.append(onnx.helper.make_node(r.choice(OPERATORS), inputs, [name]))
    n.input[i] = name


def interface(r, m):
    g = m.graph
    side = r.choice([g.input, g.output])
    if not side:
        return
    v = r.choice(side)
    how = r.randrange(4)
    if how == 0:
        v.name = r.choice(names(m) + ["", "nowhere"])
    elif how == 1:
        v.type.tensor_type.elem_type = r.choice(TYPES)
    elif v.type.tensor_type.shape.dim:
        d = r.choice(v.type.tensor_type.shape.dim)
        d.dim_value = r.choice(INTS)


def versions(r, m):
    if r.random() < 0.2:
        m.ir_version = r.choice([0, 1, 3, 7, 10, 99])
    elif m.opset_import:
        m.opset_import[r.randrange(len(m.opset_import))].version = r.choice([1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 18, 21, 23, 99])


BYTES = [flip_bytes, cut, insert, repeat]
FIELDS = [tensor_dims, reshaped, tensor_type, retyped, payload, payload, attribute_value, attribute_value,
          attribute_kind, attribute_gone, attribute_added, operator, rewire, rewire, input_count, output_count,
          node_gone, node_twice, node_between, interface, versions]


def mutate(seed, data, kinds=None):
    """Returns the mutated file and a description. kinds: names of FIELDS; all if none are given."""
    r = random.Random(seed)
    fields = [f for f in FIELDS if not kinds or f.__name__ in kinds]
    if not kinds and r.random() < 0.1:
        how = r.choice(BYTES)
        return how(r, data), how.__name__
    model = onnx.ModelProto.FromString(data)
    done = []
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        how = r.choice(fields)
        try:
            how(r, model)
        except (ValueError, TypeError, OverflowError):
            continue
        done.append(how.__name__)
    return model.SerializePartialToString(), "+".join(done)
