"""Writes small ONNX models, also malformed ones, and .safetensors files, with Python's standard library only.

Functions are named after messages of onnx.proto and return their bytes; numbers of fields are those of that file."""
import json
import struct

FLOAT, INT64 = 1, 7  # TensorProto.DataType


def varint(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """Returns the bytes of a field: several fields for a list, none for None. Integers are varints, floats 32 bits,
    others bytes with a length."""
    if value is None:
        return b""
    if isinstance(value, list):
        return b"".join(field(number, v) for v in value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(**fields):
    """Returns a message. Its fields are arguments whose names are numbers: message(_1="x", _8=[...])."""
    return b"".join(field(int(name[1:]), value) for name, value in fields.items())


def tensor(name, dims, values, kind=FLOAT):
    raw = struct.pack(f"<{len(values)}{'f' if kind == FLOAT else 'q'}", *values)
    return message(_1=list(dims), _2=kind, _8=name, _9=raw)


def external(name, dims, entries):
    return message(_1=list(dims), _2=FLOAT, _8=name, _13=[message(_1=k, _2=v) for k, v in entries], _14=1)


def value_info(name, dims, kind=FLOAT):
    shape = message(_1=[message(_2=d) if isinstance(d, str) else message(_1=d) for d in dims])
    return message(_1=name, _2=message(_1=message(_1=kind, _2=shape)))


def sequence_info(name):
    return message(_1=name, _2=message(_4=message(_1=message(_1=message(_1=FLOAT)))))


def attribute(name, value):
    if isinstance(value, list):
        return message(_1=name, _8=value, _20=7)
    if isinstance(value, int):
        return message(_1=name, _3=value, _20=2)
    if isinstance(value, float):
        return message(_1=name, _2=value, _20=1)
    return message(_1=name, _6=value, _20=5)  # a graph


def node(op, inputs, outputs, domain=None, name=None, **attributes):
    return message(_1=list(inputs), _2=list(outputs), _3=name, _4=op, _5=[attribute(k, v) for k, v in attributes.items()], _7=domain)


def graph(nodes, inputs=(), outputs=(), weights=()):
    return message(_1=list(nodes), _2="g", _5=list(weights), _11=list(inputs), _12=list(outputs))


def opset(version, domain=""):
    return message(_1=domain, _2=version)


def function(name, inputs, outputs, nodes, domain="f"):
    return message(_1=name, _4=list(inputs), _5=list(outputs), _7=list(nodes), _9=[opset(17), opset(1, "f")], _10=domain)


def model(nodes, inputs=None, outputs=None, weights=(), version=17, ir_version=8, functions=(), domains=()):
    """Returns a model. By default its input is x (N, 4) and its output y (N, 3), both of floats."""
    inputs = [value_info("x", ["N", 4])] if inputs is None else inputs
    outputs = [value_info("y", ["N", 3])] if outputs is None else outputs
    imports = [opset(version)] + [opset(1, d) for d in domains]
    return message(_1=ir_version, _7=graph(nodes, inputs, outputs, weights), _8=imports, _25=list(functions))


def linear(**changes):
    """Returns the model y = x w. `changes` are arguments of model()."""
    w = [0.01 * i for i in range(12)]
    return model([node("MatMul", ["x", "w"], ["y"])], **{"weights": [tensor("w", [4, 3], w)], **changes})


def safetensors(tensors):
    """Returns the bytes of a .safetensors file. tensors: name -> (dims, values); floats are stored as F32, integers as
    I64."""
    header, data = {}, b""
    for name, (dims, values) in sorted(tensors.items()):
        whole = all(isinstance(v, int) for v in values)
        raw = struct.pack(f"<{len(values)}{'q' if whole else 'f'}", *values)
        header[name] = {"dtype": "I64" if whole else "F32", "shape": list(dims), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data
