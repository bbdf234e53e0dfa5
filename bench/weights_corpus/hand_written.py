"""Cases in the form of exporters that can no longer be installed, built with onnx.helper. They
have the names, operators and attributes of these exporters, and their peculiarities: initializers
that are also inputs, all tensors in Constant nodes, numbers as names.

To know which tensors are weights, each file is built twice. File.p() adds a parameter, whose values
differ between the two files; File.c() adds a constant, whose values are equal.
"""

import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from common import registrar, write_case

FAMILIES = []
N = "N"


class File:
    def __init__(self, draw, fresh=False):
        self.nodes, self.tensors, self.fresh = [], [], fresh
        self.fixed, self.moving, self.count = np.random.default_rng(11), np.random.default_rng(100 + draw), 0

    def p(self, name, *shape, kind="w"):
        """A parameter: a matrix or kernel "w", a scale "g" around 1, an offset "b" around 0."""
        z = self.moving.standard_normal(shape)
        fan = math.prod(shape[1:]) if len(shape) > 1 else shape[0] if shape else 1
        value = {"w": z / math.sqrt(fan), "g": 1 + 0.15 * z, "b": 0.1 * z}[kind]
        if self.fresh and kind != "w":
            value = np.ones(shape) if kind == "g" else np.zeros(shape)
        return self.c(name, value)

    def c(self, name, value):
        self.tensors.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def stats(self, mean, var, n):
        return self.c(mean, 0.3 * self.fixed.standard_normal(n)), self.c(var, self.fixed.uniform(0.4, 2, n))

    def ints(self, name, values):
        self.tensors.append(numpy_helper.from_array(np.asarray(values, np.int64), name))
        return name

    def node(self, op, *inputs, name=None, **attributes):
        self.count += 1
        out = name or f"{op}_{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=f"{out}_node", **attributes))
        return out

    def model(self, inputs, out, producer, opset, as_inputs=False, constants=False):
        infos = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
        if as_inputs:
            infos += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in self.tensors]
        head = [helper.make_node("Constant", [], [t.name], value=t) for t in self.tensors] if constants else []
        graph = helper.make_graph(
            head + self.nodes, producer, infos, [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)], [] if constants else self.tensors
        )
        return helper.make_model(graph, producer_name=producer, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset > 12 else 5)


# A family is a function (File, way) -> (model, batch).
family = registrar(FAMILIES)


def images(c, size, n=4):
    return np.random.default_rng(1).standard_normal((n, c, size, size)).astype(np.float32)


# --------------------------------------------------------------------------------------- cases of the part fit


@family("fit", "trained", "fresh")
def mxnet_resnet(f, way):
    """Gluon's ResNet: parameters are also inputs of the graph; BatchNorm with fixed gamma in its first layer."""

    def bn(x, prefix, n, fixed=False):
        gamma = f.c(f"{prefix}_gamma", np.ones(n)) if fixed else f.p(f"{prefix}_gamma", n, kind="g")
        beta = f.p(f"{prefix}_beta", n, kind="b")
        return f.node(
            "BatchNormalization", x, gamma, beta, *f.stats(f"{prefix}_running_mean", f"{prefix}_running_var", n), epsilon=1e-5, name=f"{prefix}_fwd"
        )

    conv = lambda x, prefix, i, o, k: f.node(
        "Conv", x, f.p(f"{prefix}_weight", o, i, k, k), kernel_shape=[k, k], pads=[k // 2] * 4, name=f"{prefix}_fwd"
    )  # noqa: E731
    h = f.node("Relu", bn(conv("data", "resnetv10_conv0", 3, 8, 3), "resnetv10_batchnorm0", 8))
    for s in (1, 2):
        r = f.node("Relu", bn(conv(h, f"resnetv10_stage{s}_conv0", 8, 8, 3), f"resnetv10_stage{s}_batchnorm0", 8))
        r = bn(conv(r, f"resnetv10_stage{s}_conv1", 8, 8, 3), f"resnetv10_stage{s}_batchnorm1", 8)
        h = f.node("Relu", f.node("Add", r, h))
    h = f.node("Flatten", f.node("GlobalAveragePool", h))
    out = f.node("Gemm", h, f.p("resnetv10_dense0_weight", 10, 8), f.p("resnetv10_dense0_bias", 10, kind="b"), transB=1, name="resnetv10_dense0_fwd")
    return f.model([("data", TensorProto.FLOAT, [N, 3, 16, 16])], out, "mxnet", 9, as_inputs=True), {"data": images(3, 16)}


@family("fit", "trained")
def matlab_cnn(f, way):
    """MATLAB's exportONNXNetwork: subtracts a mean image from the input, names weights LAYER_W and LAYER_B, and
    transposes before flattening.
    """
    h = f.node("Sub", "imageinput", f.c("imageinput_Mean", f.fixed.uniform(90, 130, (1, 3, 1, 1))))
    for i, (a, b) in enumerate([(3, 8), (8, 12)], 1):
        h = f.node("Conv", h, f.p(f"conv_{i}_W", b, a, 3, 3), f.p(f"conv_{i}_B", b, kind="b"), kernel_shape=[3, 3], pads=[1] * 4)
        h = f.node(
            "BatchNormalization",
            h,
            f.p(f"batchnorm_{i}_scale", b, kind="g"),
            f.p(f"batchnorm_{i}_B", b, kind="b"),
            *f.stats(f"batchnorm_{i}_mean", f"batchnorm_{i}_var", b),
        )
        h = f.node("MaxPool", f.node("Relu", h), kernel_shape=[2, 2], strides=[2, 2])
    h = f.node("Flatten", f.node("Transpose", h, perm=[0, 3, 2, 1]))
    h = f.node("Add", f.node("MatMul", h, f.p("fc_W", 192, 5)), f.p("fc_B", 1, 5, kind="b"))
    return f.model(
        [("imageinput", TensorProto.FLOAT, [N, 3, 16, 16])],
        f.node("Softmax", h, axis=1),
        "MATLAB Deep Learning Toolbox Converter for ONNX Model Format",
        9,
    ), {"imageinput": images(3, 16) * 50 + 110}


@family("fit", "trained")
def numbered_alexnet(f, way):
    """PyTorch 0.4: every tensor is a number, parameters are inputs."""
    h = "0"
    for i, (a, b) in enumerate([(3, 8), (8, 16)]):
        h = f.node(
            "Conv", h, f.p(f"{2 * i + 1}", b, a, 3, 3), f.p(f"{2 * i + 2}", b, kind="b"), kernel_shape=[3, 3], pads=[1] * 4, name=f"{20 + 3 * i}"
        )
        h = f.node("MaxPool", f.node("Relu", h, name=f"{21 + 3 * i}"), kernel_shape=[2, 2], strides=[2, 2], name=f"{22 + 3 * i}")
    h = f.node("Flatten", h, name="30")
    h = f.node("Relu", f.node("Gemm", h, f.p("5", 24, 256), f.p("6", 24, kind="b"), transB=1, name="31"), name="32")
    out = f.node("Gemm", h, f.p("7", 10, 24), f.p("8", 10, kind="b"), transB=1, name="33")
    return f.model([("0", TensorProto.FLOAT, [N, 3, 16, 16])], out, "pytorch", 8, as_inputs=True), {"0": images(3, 16)}


# -------------------------------------------------------------------------------------- cases of the part test


@family("test", "trained")
def cntk_digits(f, way):
    """CNTK's digit classifier of the model zoo: names such as Parameter5 and Plus30, and a factor 1/256 at the input.
    """
    h = f.node("Mul", "Input3", f.c("Constant339", [1 / 256.0]))
    for i, (a, b) in enumerate([(1, 8), (8, 16)]):
        h = f.node(
            "Conv",
            h,
            f.p(f"Parameter{5 + 82 * i}", b, a, 5, 5),
            kernel_shape=[5, 5],
            auto_pad="SAME_UPPER",
            name=f"Convolution{28 + 82 * i}_Output_0",
        )
        h = f.node("Relu", f.node("Add", h, f.p(f"Parameter{6 + 82 * i}", b, 1, 1, kind="b"), name=f"Plus{30 + 82 * i}_Output_0"))
        h = f.node("MaxPool", h, kernel_shape=[2, 2], strides=[2, 2])
    h = f.node("Reshape", h, f.ints("Pooling160_Output_0_reshape0_shape", [-1, 256]))
    w = f.node("Reshape", f.p("Parameter193", 16, 4, 4, 10), f.ints("Parameter193_reshape1_shape", [256, 10]), name="Parameter193_reshape1")
    out = f.node("Add", f.node("MatMul", h, w, name="Times212_Output_0"), f.p("Parameter194", 1, 10, kind="b"), name="Plus214_Output_0")
    return f.model([("Input3", TensorProto.FLOAT, [N, 1, 16, 16])], out, "CNTK", 8), {"Input3": images(1, 16)}


@family("test", "trained")
def caffe2_squeezenet(f, way):
    def conv(x, name, i, o, k):
        return f.node(
            "Relu",
            f.node(
                "Conv", x, f.p(f"{name}_w_0", o, i, k, k), f.p(f"{name}_b_0", o, kind="b"), kernel_shape=[k, k], pads=[k // 2] * 4, name=f"{name}_1"
            ),
            name=f"{name}_2",
        )

    h = f.node("MaxPool", conv("data_0", "conv1", 3, 8, 3), kernel_shape=[2, 2], strides=[2, 2])
    for s in (2, 3):
        q = conv(h, f"fire{s}/squeeze1x1", 8, 4, 1)
        h = f.node("Concat", conv(q, f"fire{s}/expand1x1", 4, 4, 1), conv(q, f"fire{s}/expand3x3", 4, 4, 3), axis=1)
    out = f.node("Flatten", f.node("GlobalAveragePool", conv(h, "conv10", 8, 10, 1)))
    return f.model([("data_0", TensorProto.FLOAT, [N, 3, 16, 16])], out, "onnx-caffe2", 9, as_inputs=True), {"data_0": images(3, 16)}


@family("test", "trained")
def darknet_yolo(f, way):
    """yolov3_to_onnx: names such as 000_convolutional_bn_scale, scales of Upsample as a float tensor, and boxes by a
    fixed grid and anchors.
    """

    def conv(x, i, a, b, k, stride=1, bn=True):
        n = f"{i:03d}_convolutional"
        bias = [] if bn else [f.p(f"{n}_conv_bias", b, kind="b")]
        h = f.node("Conv", x, f.p(f"{n}_conv_weights", b, a, k, k), *bias, kernel_shape=[k, k], pads=[k // 2] * 4, strides=[stride] * 2, name=n)
        if bn:
            h = f.node(
                "BatchNormalization",
                h,
                f.p(f"{n}_bn_scale", b, kind="g"),
                f.p(f"{n}_bn_bias", b, kind="b"),
                *f.stats(f"{n}_bn_mean", f"{n}_bn_var", b),
                name=f"{n}_bn",
            )
            h = f.node("LeakyRelu", h, alpha=0.1, name=f"{n}_lrelu")
        return h

    a = conv("000_net", 1, 3, 8, 3)
    b = conv(a, 2, 8, 12, 3, 2)
    up = f.node("Upsample", conv(b, 4, 12, 8, 1), f.c("005_upsample_scale", [1, 1, 2, 2]), mode="nearest", name="005_upsample")
    h = conv(f.node("Concat", up, a, axis=1), 7, 16, 14, 1, bn=False)
    h = f.node("Reshape", h, f.ints("shape", [-1, 2, 7, 256]))
    xy = f.node("Sigmoid", f.node("Slice", h, axes=[2], starts=[0], ends=[2]))
    wh = f.node("Exp", f.node("Slice", h, axes=[2], starts=[2], ends=[4]))
    rest = f.node("Sigmoid", f.node("Slice", h, axes=[2], starts=[4], ends=[7]))
    grid = np.stack(np.meshgrid(np.arange(16), np.arange(16))).reshape(1, 1, 2, 256)
    xy = f.node("Add", xy, f.c("008_yolo_grid", grid))
    wh = f.node("Mul", wh, f.c("008_yolo_anchor_wh", np.array([[10, 13], [33, 23]]).reshape(1, 2, 2, 1) / 8))
    out = f.node("Concat", xy, wh, rest, axis=2)
    return f.model([("000_net", TensorProto.FLOAT, [N, 3, 16, 16])], out, "NVIDIA TensorRT sample", 9), {"000_net": images(3, 16)}


@family("test", "trained", "fresh")
def matlab_lstm(f, way):
    h = f.node(
        "Div",
        f.node("Sub", "sequenceinput", f.c("sequenceinput_Mean", f.fixed.standard_normal((1, 1, 5)) * 12)),
        f.c("sequenceinput_Std", f.fixed.uniform(2, 9, (1, 1, 5))),
    )
    f.nodes.append(
        helper.make_node(
            "LSTM",
            [h, f.p("lstm_W", 1, 48, 5), f.p("lstm_R", 1, 48, 12), f.p("lstm_B", 1, 96, kind="b")],
            ["lstm_Y", "lstm_Y_h"],
            name="lstm",
            hidden_size=12,
        )
    )
    h = f.node("Squeeze", "lstm_Y_h", axes=[0])
    h = f.node("Relu", f.node("Gemm", h, f.p("fc_1_W", 12, 8), f.p("fc_1_B", 8, kind="b")))
    out = f.node("Gemm", h, f.p("fc_2_W", 8, 3), f.p("fc_2_B", 3, kind="b"))
    return f.model([("sequenceinput", TensorProto.FLOAT, [6, N, 5])], out, "MATLAB Deep Learning Toolbox Converter for ONNX Model Format", 11), {
        "sequenceinput": np.random.default_rng(1).standard_normal((6, 4, 5)).astype(np.float32)
    }


@family("test", "trained")
def mxnet_gluon_lstm(f, way):
    """mx2onnx: an RNN's parameters are concatenated, reshaped and reordered by nodes of the file.
    """
    h = f.node("Gather", f.p("lstmmodel0_embedding0_weight", 40, 8), "data")
    h = f.node("Transpose", h, perm=[1, 0, 2])
    names = []
    for kind, cols in (("i2h", 8), ("h2h", 10)):
        w = f.p(f"lstmmodel0_lstm0_l0_{kind}_weight", 40, cols)
        i, fg, g, o = (f.node("Slice", w, axes=[0], starts=[10 * k], ends=[10 * k + 10]) for k in range(4))
        names.append(f.node("Unsqueeze", f.node("Concat", i, o, fg, g, axis=0), axes=[0]))
    bias = f.node(
        "Unsqueeze",
        f.node("Concat", f.p("lstmmodel0_lstm0_l0_i2h_bias", 40, kind="b"), f.p("lstmmodel0_lstm0_l0_h2h_bias", 40, kind="b"), axis=0),
        axes=[0],
    )
    f.nodes.append(helper.make_node("LSTM", [h, *names, bias], ["lstm_Y", "lstm_h"], name="lstmmodel0_lstm0", hidden_size=10))
    h = f.node("Squeeze", "lstm_h", axes=[0])
    out = f.node("Gemm", h, f.p("lstmmodel0_dense0_weight", 4, 10), f.p("lstmmodel0_dense0_bias", 4, kind="b"), transB=1)
    return f.model([("data", TensorProto.INT64, [N, 9])], out, "mxnet", 9), {"data": np.random.default_rng(1).integers(0, 40, (4, 9))}


@family("test", "trained", "constants")
def nameless_transformer(f, way):
    """An in-house exporter that numbers all tensors: t0, t1, ... Layer norms, a causal mask and
    sinusoids are written as single operators.
    """
    count = iter(range(1000))
    name = lambda: f"t{next(count)}"  # noqa: E731
    dim, n = 16, 8

    def norm(x):
        d = f.node("Sub", x, f.node("ReduceMean", x, axes=[-1]))
        v = f.node("Sqrt", f.node("Add", f.node("ReduceMean", f.node("Pow", d, f.c(name(), 2.0)), axes=[-1]), f.c(name(), 1e-5)))
        return f.node("Add", f.node("Mul", f.node("Div", d, v), f.p(name(), dim, kind="g")), f.p(name(), dim, kind="b"))

    linear = lambda x, i, o: f.node("Add", f.node("MatMul", x, f.p(name(), i, o)), f.p(name(), o, kind="b"))  # noqa: E731
    angle = np.arange(n)[:, None] / 10000 ** (np.arange(0, dim, 2) / dim)
    h = f.node("Add", f.node("Gather", f.p(name(), 50, dim), "ids"), f.c(name(), np.concatenate([np.sin(angle), np.cos(angle)], -1)))
    for _ in range(2):
        x = norm(h)
        q, k, v = linear(x, dim, dim), linear(x, dim, dim), linear(x, dim, dim)
        s = f.node("Mul", f.node("MatMul", q, f.node("Transpose", k, perm=[0, 2, 1])), f.c(name(), dim**-0.5))
        s = f.node("Softmax", f.node("Add", s, f.c(name(), np.triu(np.full((n, n), -1e9), 1))), axis=-1)
        h = f.node("Add", h, linear(f.node("MatMul", s, v), dim, dim))
        x = linear(norm(h), dim, 32)
        g = f.node(
            "Mul", f.node("Mul", x, f.c(name(), 0.5)), f.node("Add", f.node("Erf", f.node("Div", x, f.c(name(), math.sqrt(2)))), f.c(name(), 1.0))
        )
        h = f.node("Add", h, linear(g, 32, dim))
    out = f.node("MatMul", norm(h), f.p(name(), dim, 50))
    return f.model([("ids", TensorProto.INT64, [N, n])], out, "house", 13, constants=way == "constants"), {
        "ids": np.random.default_rng(1).integers(0, 50, (4, n))
    }


@family("heldout", "trained", "fresh")
def keras2onnx_digits(f, way):
    """keras2onnx, the predecessor of tf2onnx: names are LAYER/VARIABLE."""
    x = f.node("Transpose", "conv2d_input", perm=[0, 3, 1, 2], name="adjusted_input1")
    h = f.node("Conv", x, f.p("conv2d/kernel:0", 8, 1, 3, 3), f.p("conv2d/bias:0", 8, kind="b"), name="convolution_output1", kernel_shape=[3, 3])
    h = f.node("MaxPool", f.node("Relu", h), kernel_shape=[2, 2], strides=[2, 2])
    stats = f.stats("batch_normalization/moving_mean:0", "batch_normalization/moving_variance:0", 8)
    gamma, beta = f.p("batch_normalization/gamma:0", 8, kind="g"), f.p("batch_normalization/beta:0", 8, kind="b")
    h = f.node("Flatten", f.node("BatchNormalization", h, gamma, beta, *stats, epsilon=1e-3))
    h = f.node("Add", f.node("MatMul", h, f.p("dense/kernel:0", 8 * 9, 16)), f.p("dense/bias:0", 16, kind="b"), name="biased_tensor_name1")
    h = f.node("Add", f.node("MatMul", f.node("Relu", h), f.p("dense_1/kernel:0", 16, 5)), f.p("dense_1/bias:0", 5, kind="b"), name="biased_tensor_name")
    return f.model([("conv2d_input", TensorProto.FLOAT, [N, 8, 8, 1])], f.node("Softmax", h), "keras2onnx", 11), {
        "conv2d_input": np.random.default_rng(1).standard_normal((4, 8, 8, 1)).astype("f")
    }


@family("heldout", "trained")
def tf1_frozen_lenet(f, way):
    """A frozen graph of TensorFlow 1: every variable has a read operation, which tf2onnx folded."""
    h = f.node("Conv", "input:0", f.p("conv1/weights/read__7:0", 8, 3, 3, 3), name="conv1/Conv2D:0", kernel_shape=[3, 3])
    h = f.node("Add", h, f.p("conv1/biases/read__9:0", 1, 8, 1, 1, kind="b"), name="conv1/BiasAdd:0")
    h = f.node("Mul", f.node("Sub", f.node("Relu", h), f.c("mean_rgb:0", np.full((1, 1, 1, 1), 0.25))), f.c("scale/y:0", 2.0))
    h = f.node("Flatten", f.node("AveragePool", h, kernel_shape=[2, 2], strides=[2, 2]))
    h = f.node("Add", f.node("MatMul", h, f.p("fc1/weights/read:0", 8 * 9, 12)), f.p("fc1/biases/read:0", 12, kind="b"), name="fc1/BiasAdd:0")
    return f.model([("input:0", TensorProto.FLOAT, [N, 3, 8, 8])], f.node("Softmax", h), "tf2onnx", 9), {
        "input:0": np.random.default_rng(1).standard_normal((4, 3, 8, 8)).astype("f")
    }


@family("heldout", "trained")
def chainer_autoencoder(f, way):
    """Chainer: parameters are named by the path of their link; the norm is written as single operators."""
    linear = lambda x, name, i, o: f.node("Gemm", x, f.p(f"param_{name}_W", o, i), f.p(f"param_{name}_b", o, kind="b"), transB=1)  # noqa: E731
    x = f.node("Div", f.node("Sub", "Input_0", f.c("Const_0", [4.1, 7.25, 0.5, 19.0, 3.75, 2.2])), f.c("Const_1", [1.7, 2.5, 0.25, 6.1, 1.4, 0.9]))
    h = f.node("Tanh", linear(x, "encoder_0", 6, 16))
    h = linear(h, "encoder_1", 16, 4)
    h = f.node("Tanh", f.node("Add", f.node("Mul", h, f.p("param_gain_W", 4, kind="g")), f.p("param_gain_b", 4, kind="b")))
    return f.model([("Input_0", TensorProto.FLOAT, [N, 6])], linear(f.node("Tanh", linear(h, "decoder_0", 4, 16)), "decoder_1", 16, 6), "Chainer", 9), {
        "Input_0": np.random.default_rng(1).standard_normal((4, 6)).astype("f")
    }


def build(root, only, halves):
    for half, ways, make in FAMILIES:
        for way in ways:
            case = f"{make.__name__}_{way}"
            if half not in halves or only and not any(o in case for o in only):
                continue
            draw = iter(range(2))
            batch = make(File(0), way)[1]
            exporter = "hand " + make.__name__.split("_")[0]
            write_case(
                root, half, case, exporter, make.__name__, lambda: make(File(n := next(draw), way == "fresh" and n == 0), way)[0], lambda: None, batch
            )
