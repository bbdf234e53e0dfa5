"""Command lines that fail because of a model file."""
import os

import proto
from kit import case, png, train, vocabulary
from proto import attribute, function, graph, linear, message, model, node, opset, tensor, value_info


def check(folder, file):
    return ["check", folder.write("model.onnx", file)]


@case("E_ONNX_EMPTY")
def _(f):
    return check(f, "")


@case("E_ONNX_2GB")
def _(f):
    f.write("model.onnx", linear())
    os.truncate(os.path.join(f.path, "model.onnx"), 3 * 2**30)  # a sparse file
    return ["check", "model.onnx"]


@case("E_ONNX_DEPTH")
def _(f):
    inner = b""
    for _ in range(120):
        inner = graph([message(_4="If", _5=attribute("then_branch", inner))])
    return check(f, message(_1=8, _7=inner, _8=opset(17)))


@case("E_ONNX_GRAPH")
def _(f):
    return check(f, linear(ir_version=None))


@case("E_ONNX_LFS")
def _(f):
    return check(f, "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n")


@case("E_ONNX_NOT_PROTO")
def _(f):
    return check(f, png(4, 4))


@case("E_ONNX_TRUNCATED")
def _(f):
    return check(f, linear()[:-9])


@case("E_ONNX_WIRE")
def _(f):
    return check(f, linear() + b"\x0f\x0f\x0f")  # wire type 7 does not exist


@case("E_MODEL_OPEN")
def _(f):
    return ["check", "none.onnx"]


@case("E_IR_VERSION")
def _(f):
    newer_node = node("MatMul", ["x", "w"], ["y"]) + message(_99="setting")
    return check(f, model([newer_node], ir_version=99))


@case("E_OPSET")
def _(f):
    return check(f, linear(version=99))


@case("E_ATTR")
def _(f):
    f.batch()
    return ["predict", f.write("model.onnx", model([node("Softmax", ["x"], ["y"], axis=5)])), "--inputs", "batch.safetensors", "--out", "o.npz"]


@case("E_DANGLING")
def _(f):
    return check(f, model([node("MatMul", ["x", "none"], ["y"])]))


@case("E_DIM_NEG")
def _(f):
    return check(f, linear(weights=[tensor("w", [-4, 3], [0.0] * 12)]))


@case("E_DIM_OVERFLOW")
def _(f):
    return check(f, linear(weights=[tensor("w", [2**62, 16], [0.0] * 12)]))


@case("E_DUP_INIT")
def _(f):
    return check(f, linear(inputs=[value_info("x", ["N", 4])] * 2))


@case("E_SSA")
def _(f):
    return check(f, model([node("Relu", ["x"], ["y"]), node("Tanh", ["x"], ["y"])]))


@case("E_GRAPH_CYCLE")
def _(f):
    return check(f, model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]))


@case("E_NAME")
def _(f):
    return check(f, linear(weights=[tensor("a\nb", [4, 3], [0.0] * 12)]))


@case("E_UTF8")
def _(f):
    return check(f, linear(weights=[tensor(b"a\xff", [4, 3], [0.0] * 12)]))


@case("E_SUBGRAPH_DEPTH")
def _(f):
    inner = graph([])
    for _ in range(32):
        inner = graph([node("If", ["c"], ["z"], then_branch=inner)])
    return check(f, model([node("If", ["c"], ["y"], then_branch=inner)]))


@case("E_FUNC_CYCLE")
def _(f):
    functions = [function(a, ["p"], ["q"], [node(b, ["p"], ["q"], domain="f")]) for a, b in (("A", "B"), ("B", "A"))]
    return check(f, model([node("A", ["x"], ["y"], domain="f")], functions=functions, domains=["f"]))


@case("E_FUNC_LIMIT")
def _(f):
    last = function("F101", ["p"], ["q"], [node("Relu", ["p"], ["q"])])
    functions = [function(f"F{i}", ["p"], ["q"], [node(f"F{i + 1}", ["p"], ["q"], domain="f")]) for i in range(101)] + [last]
    return check(f, model([node("F0", ["x"], ["y"], domain="f")], functions=functions, domains=["f"]))


@case("E_EXT_MISSING")
def _(f):
    return check(f, linear(weights=[proto.external("w", [4, 3], [("location", "w.bin")])]))


@case("E_EXT_PATH")
def _(f):
    return check(f, linear(weights=[proto.external("w", [4, 3], [("location", "../w.bin")])]))


@case("E_EXT_KEY")
def _(f):
    f.write("w.bin", b"\0" * 48)
    return check(f, linear(weights=[proto.external("w", [4, 3], [("location", "w.bin"), ("offset", "0"), ("offset", "0")])]))


@case("E_EXT_RANGE")
def _(f):
    f.write("w.bin", b"\0" * 40)
    return check(f, linear(weights=[proto.external("w", [4, 3], [("location", "w.bin")])]))


@case("E_EXT_KIND")
def _(f):
    os.mkfifo(os.path.join(f.path, "w.bin"))
    return check(f, linear(weights=[proto.external("w", [4, 3], [("location", "w.bin")])]))


@case("E_EXT_FILES")
def _(f):
    names = [f"w/{i}" for i in range(10001)]
    for name in names:
        f.write(name, b"\0" * 4)
    return check(f, linear(weights=[proto.external(f"w{i}", [1], [("location", name)]) for i, name in enumerate(names)]))


@case("E_TENSOR_FIELDS")
def _(f):
    return check(f, linear(weights=[tensor("w", [4, 3], [0.0] * 12) + message(_4=[0.5] * 12)]))


@case("E_TENSOR_SEGMENTS")
def _(f):
    return check(f, linear(weights=[tensor("w", [4, 3], [0.0] * 12) + message(_3=message(_1=0, _2=12))]))


@case("E_TENSOR_SIZE")
def _(f):
    return check(f, linear(weights=[tensor("w", [4, 3], [0.0] * 11)]))


@case("E_TENSOR_TYPE")
def _(f):
    return check(f, linear(weights=[tensor("w", [4, 3], [0] * 12, kind=9999)]))


@case("E_RANK")
def _(f):
    f.batch()
    return ["predict", f.linear(weights=[tensor("w", [], [0.0])]), "--inputs", "batch.safetensors", "--out", "o.npz"]


def predict(f, nodes, weights=(), **more):
    f.batch()
    return ["predict", f.write("model.onnx", model(nodes, weights=weights, **more)), "--inputs", "batch.safetensors", "--out", "o.npz"]


@case("E_SHAPE")
def _(f):
    return predict(f, [node("Add", ["x", "w"], ["y"])], [tensor("w", [3], [0.0] * 3)])


@case("E_NODE_TYPE")
def _(f):
    return predict(f, [node("MatMul", ["x", "w"], ["y"])], [tensor("w", [4, 3], [0] * 12, kind=proto.INT64)])


@case("E_TYPE")
def _(f):
    return predict(f, [node("Add", ["x", "w"], ["y"])], [message(_1=[4], _2=8, _6=["a"] * 4, _8="w")])


@case("E_VALUE_TYPE")
def _(f):
    return predict(f, [node("SequenceAt", ["x", "i"], ["y"])], [tensor("i", [], [0], kind=proto.INT64)])


@case("E_SEQUENCE_OUTPUT")
def _(f):
    return predict(f, [node("SequenceConstruct", ["x"], ["y"])], outputs=[proto.sequence_info("y")])


@case("E_INDEX")
def _(f):
    return predict(f, [node("Gather", ["x", "i"], ["y"], axis=1)], [tensor("i", [1], [9], kind=proto.INT64)])


@case("E_OP_UNSUPPORTED")
def _(f):
    f.batch()
    f.write("model.onnx", model([node("This", ["x"], ["h"]), node("That", ["h"], ["y"])]))
    return train()


@case("E_FOLD_BUDGET")
def _(f):
    numbers = [tensor("a", [], [0.0]), tensor("n", [], [1e18]), tensor("s", [], [1.0])]
    return predict(f, [node("Range", ["a", "n", "s"], ["c"]), node("Add", ["x", "c"], ["y"])], numbers)


@case("E_TENSOR_BYTES")
def _(f):
    return predict(f, [node("Expand", ["x", "n"], ["y"])], [tensor("n", [3], [2**32, 1, 1], kind=proto.INT64)])


@case("E_NODES")
def _(f):
    f.batch()
    return ["predict", f.linear(), "--inputs", "batch.safetensors", "--out", "o.npz", "--max_graph_nodes", "1"]


@case("E_DATA_SIZE")
def _(f):
    f.write("batch.safetensors", proto.safetensors({"x": ([1, 1, 4], [0.0] * 4)}))
    m = model([node("MaxPool", ["x"], ["y"], kernel_shape=[7])], [value_info("x", ["N", 1, "W"])], [value_info("y", ["N", 1, "V"])])
    return ["predict", f.write("model.onnx", m), "--inputs", "batch.safetensors", "--out", "o.npz"]


@case("E_DATA_INDEX")
def _(f):
    f.write("batch.safetensors", proto.safetensors({"x": ([1, 4], [0.0] * 4), "i": ([1, 1], [9])}))
    inputs = [value_info("x", ["N", 4]), value_info("i", ["N", 1], proto.INT64)]
    m = model([node("ScatterElements", ["x", "i", "u"], ["y"], axis=1)], inputs, [value_info("y", ["N", 4])], [tensor("u", [1, 1], [1.0])])
    return ["predict", f.write("model.onnx", m), "--inputs", "batch.safetensors", "--out", "o.npz"]


@case("E_DTYPE")
def _(f):
    return predict(f, [node("Cast", ["x"], ["u"], to=12), node("ReduceSum", ["u"], ["y"])], outputs=[value_info("y", [1, 1], 12)])


@case("E_INPUT")
def _(f):
    f.write("batch.safetensors", proto.safetensors({"z": ([2, 4], [0.0] * 8), "label": ([2], [0, 1])}))
    f.linear()
    return ["grad", "model.onnx", "--inputs", "batch.safetensors", "--loss", "cross_entropy", "--out", "o.npz"]


@case("E_CLASSIFIER")
def _(f):
    f.batch()
    w = tensor("w", [4], [0.1] * 4)
    f.write("model.onnx", model([node("Mul", ["x", "w"], ["y"])], weights=[w]))
    return train("--num_labels", "3", "--loss", "cross_entropy")


@case("E_NOTHING_TRAINS")
def _(f):
    f.batch()
    f.linear()
    return train("--freeze", "*")


@case("E_BATCH_ROWS")
def _(f):
    f.write("t.csv", "a,b,c\ngood day,so good,bad\nbad day,so bad,good\n")
    weights = [tensor("e", [10, 4], [0.1 * (i % 5) for i in range(40)]), tensor("one", [1, 4], [1.0] * 4), tensor("n", [2], [2, 4], proto.INT64)]
    nodes = [
        node("Gather", ["e", "input_ids"], ["h"]),
        node("ReduceMean", ["h"], ["m"], axes=[1], keepdims=0),
        node("Expand", ["one", "n"], ["c"]),
        node("Add", ["m", "c"], ["y"]),
    ]
    inputs, outputs = [value_info("input_ids", [2, "S"], proto.INT64)], [value_info("y", [2, 4])]
    f.write("model.onnx", model(nodes, inputs, outputs, weights))
    return ["model.onnx", "--train", "t.csv", "--text_columns", "a,b,c", "--vocab", vocabulary(f), "--loss", "mnr", "--output_dir", "run"]
