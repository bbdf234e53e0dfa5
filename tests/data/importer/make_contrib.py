"""Makes small models of the com.microsoft operators in optimized files, with onnxruntime's outputs.

Each NAME.onnx has a NAME.safetensors with the inputs by name and the outputs as out/NAME. bert_extended is the zoo's
bert_cls_eager_ts14 after onnxruntime's own optimizer (level "extended"). bert_transformers is the same model after
onnxruntime.transformers.optimizer (Attention, SkipLayerNormalization, EmbedLayerNormalization). All others are built here,
node by node.
Run with onnx, onnxruntime and safetensors installed: python3 make_contrib.py
"""
import os

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper
from onnxruntime.transformers import optimizer
from safetensors.numpy import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "contrib")
rng = np.random.default_rng(4)


def f(*dims):
    return rng.standard_normal(dims).astype(np.float32)


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def save(name, feeds):
    """Saves the inputs, and the outputs as onnxruntime computes them."""
    s = session(os.path.join(OUT, name + ".onnx"))
    outputs = s.run(None, feeds)
    tensors = dict(feeds)
    for o, v in zip(s.get_outputs(), outputs):
        tensors["out/" + o.name] = np.array(v, order="C")
    save_file(tensors, os.path.join(OUT, name + ".safetensors"))


def case(name, op, inputs, outputs=1, domain="com.microsoft", opset=17, **attributes):
    """Makes a model of one node. inputs: (name, array, is_weight) or None for one left out; weights
    become initializers."""
    names, graph_inputs, weights, feeds = [], [], [], {}
    for entry in inputs:
        if entry is None:
            names.append("")
            continue
        n, value, weight = entry
        names.append(n)
        if weight:
            weights.append(numpy_helper.from_array(value, n))
        else:
            feeds[n] = value
            graph_inputs.append(h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(value.dtype), value.shape))
    outs = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    node = h.make_node(op, names, outs, domain=domain, **attributes)
    infos = [h.make_tensor_value_info(o, T.FLOAT, None) for o in outs if o]
    graph = h.make_graph([node], name, graph_inputs, infos, weights)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    onnx.save(model, os.path.join(OUT, name + ".onnx"))
    save(name, feeds)


def main():
    os.makedirs(OUT, exist_ok=True)
    x = f(2, 3, 8)
    w = lambda n, *dims: (n, 0.3 * f(*dims), True)
    case("gelu", "Gelu", [("x", x, False)])
    case("fast_gelu", "FastGelu", [("x", x, False)])
    case("fast_gelu_bias", "FastGelu", [("x", x, False), w("b", 8)])
    case("bias_gelu", "BiasGelu", [("x", x, False), w("b", 8)])
    case("quick_gelu", "QuickGelu", [("x", x, False)], alpha=1.5)
    case("skip_norm", "SkipLayerNormalization",
         [("x", x, False), ("skip", f(2, 3, 8), False), w("gamma", 8), w("beta", 8), w("bias", 8)],
         ["y", "", "", "sum"], epsilon=1e-5)
    case("skip_norm_plain", "SkipLayerNormalization", [("x", x, False), ("skip", f(2, 3, 8), False), w("gamma", 8)])
    case("skip_rms", "SkipSimplifiedLayerNormalization",
         [("x", x, False), ("skip", f(2, 3, 8), False), w("gamma", 8), w("bias", 8)], ["y", "", "", "sum"], epsilon=1e-5)
    case("rms", "SimplifiedLayerNormalization", [("x", x, False), w("scale", 8)], domain="", epsilon=1e-5, axis=-1)
    case("layer_norm_12", "LayerNormalization", [("x", x, False), w("scale", 8), w("bias", 8)], domain="", opset=12,
         epsilon=1e-5)
    ids = rng.integers(0, 11, (2, 3)).astype(np.int32)
    segments = rng.integers(0, 2, (2, 3)).astype(np.int32)
    tables = [w("word", 11, 8), w("position", 5, 8), w("segment", 2, 8), w("gamma", 8), w("beta", 8)]
    mask = np.array([[1, 1, 1], [1, 1, 0]], np.int32)
    case("embed_norm", "EmbedLayerNormalization", [("ids", ids, False), ("segments", segments, False), *tables],
         ["y", ""], epsilon=1e-6)
    case("embed_norm_positions", "EmbedLayerNormalization",
         [("ids", ids, False), None, tables[0], tables[1], None, tables[3], tables[4], None,
          ("positions", np.array([[4, 2, 0]] * 2, np.int32), False)], ["y", ""], epsilon=1e-6)
    qkv = [("x", x, False), w("w", 8, 24), w("b", 24)]
    case("attention", "Attention", qkv, num_heads=2)
    case("attention_lengths", "Attention", [*qkv, ("lengths", np.array([3, 2], np.int32), False)], num_heads=2)
    case("attention_mask", "Attention", [*qkv, ("mask", mask, False)], num_heads=2)
    case("attention_causal", "Attention", qkv, num_heads=2, unidirectional=1, scale=0.4)
    case("attention_bias", "Attention", [*qkv, None, None, ("bias", f(2, 2, 3, 3), False)], num_heads=2)
    case("multi_head", "MultiHeadAttention",
         [("q", x, False), ("k", f(2, 5, 8), False), ("v", f(2, 5, 8), False), w("b", 24)], num_heads=4)
    case("fused_matmul", "FusedMatMul", [("x", f(2, 4, 3), False), w("w", 2, 5, 4)], transA=1, transB=1, alpha=0.5)
    case("fused_matmul_batch", "FusedMatMul", [("x", f(3, 2, 4), False), w("w", 2, 4, 5)], transBatchA=1)
    case("transpose_matmul", "TransposeMatMul", [("x", f(2, 3, 4), False), w("w", 5, 4)], transB=1)
    for act, extra in [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Sigmoid", {}), ("Tanh", {})]:
        case("fused_gemm_" + act.lower(), "FusedGemm", [("x", f(3, 4), False), w("w", 5, 4), w("b", 5)], transB=1,
             alpha=0.7, beta=1.5, activation=act, **extra)
    image = f(2, 3, 6, 6)
    for act, extra in [("Relu", []), ("LeakyRelu", [0.1]), ("Clip", [-0.3, 0.4]), ("HardSigmoid", [0.2, 0.5])]:
        attributes = {"activation_params": extra} if extra else {}
        case("fused_conv_" + act.lower(), "FusedConv", [("x", image, False), w("w", 4, 3, 3, 3), w("b", 4)],
             kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], activation=act, **attributes)
    case("fused_conv_sum", "FusedConv",
         [("x", image, False), w("w", 4, 3, 3, 3), w("b", 4), ("z", f(2, 4, 4, 4), False)], kernel_shape=[3, 3],
         activation="Relu")

    case("inverse", "Inverse", [("x", f(2, 3, 4, 4) + 3 * np.eye(4, dtype=np.float32), False)])
    case("inverse_weight", "Inverse", [("w", f(2, 5, 5) + 3 * np.eye(5, dtype=np.float32), True)])

    zoo = os.path.join(HERE, "..", "zoo", "bert_cls_eager_ts14")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = os.path.join(OUT, "bert_extended.onnx")
    s = ort.InferenceSession(os.path.join(zoo, "model.onnx"), options, providers=["CPUExecutionProvider"])
    batch = load_file(os.path.join(zoo, "batch.safetensors"))
    feeds = {i.name: batch[i.name] for i in s.get_inputs()}
    save("bert_extended", feeds)
    fused = optimizer.optimize_model(os.path.join(zoo, "model.onnx"), "bert", num_heads=4, hidden_size=64)
    fused.save_model_to_file(os.path.join(OUT, "bert_transformers.onnx"))
    save("bert_transformers", feeds)


if __name__ == "__main__":
    main()
