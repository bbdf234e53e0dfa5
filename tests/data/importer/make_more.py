"""More operators in small models, with onnxruntime's outputs (contrib_more/): sequences, regions, decoder attention, quantized weights.

The layout is that of make_contrib.py. NAME.safetensors also has `parameters`, the number of weights that must train. Models
named q_* round values, so their gradients cannot be checked by finite differences.
Run with onnx, onnxruntime and safetensors installed: python3 make_more.py
"""
import os

import make_contrib as mc
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file

mc.OUT = os.path.join(mc.HERE, "contrib_more")
rng = np.random.default_rng(11)


def f(*dims):
    return rng.standard_normal(dims).astype(np.float32)


def model(name, nodes, feeds, weights, outputs, parameters, opset=21, reference=None, ir=10):
    """Makes a model. nodes: (op, inputs, outputs, attributes); the domain is com.microsoft if op starts with ms:.
    reference: nodes with the same outputs, for operators that onnxruntime's CPU provider does not have."""
    if reference:
        model(name, reference, feeds, weights, outputs, parameters, min(opset, 25))
    made = []
    for op, ins, outs, attrs in nodes:
        domain = {"ms:": "com.microsoft", "ml:": "ai.onnx.ml"}.get(op[:3], "")
        made.append(h.make_node(op[3:] if domain else op, ins, outs, domain=domain, **attrs))
    infos = [h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in feeds.items()]
    outs = [h.make_tensor_value_info(o, t, None) for o, t in outputs.items()]
    graph = h.make_graph(made, name, infos, outs, [numpy_helper.from_array(v, k) for k, v in weights.items()])
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1), h.make_opsetid("ai.onnx.ml", 1)])
    m.ir_version = ir
    onnx.save(m, os.path.join(mc.OUT, name + ".onnx"))
    if reference:
        return
    mc.save(name, feeds)
    path = os.path.join(mc.OUT, name + ".safetensors")
    tensors = load_file(path)
    tensors["parameters"] = np.array([parameters], np.int64)
    save_file(tensors, path)


def i64(*v):
    return np.array(v, np.int64)


def sequences():
    x, w = f(2, 6), 0.5 * f(6, 6)
    model("sequence", [("MatMul", ["x", "w"], ["h"], {}), ("SplitToSequence", ["h", "two"], ["parts"], {"axis": 1}),
                       ("SequenceAt", ["parts", "one"], ["a"], {}), ("SequenceAt", ["parts", "last"], ["b"], {}),
                       ("Mul", ["a", "b"], ["c"], {}), ("SequenceInsert", ["parts", "c", "one"], ["more"], {}),
                       ("SequenceErase", ["more", "last"], ["less"], {}), ("SequenceLength", ["less"], ["n"], {}),
                       ("ConcatFromSequence", ["less"], ["y"], {"axis": 1, "new_axis": 1})],
          {"x": x}, {"w": w, "two": np.array(2, np.int64), "one": np.array(1, np.int64), "last": np.array(-1, np.int64)},
          {"y": T.FLOAT, "n": T.INT64}, 1)
    model("sequence_unbind", [("MatMul", ["x", "w"], ["h"], {}), ("SplitToSequence", ["h"], ["parts"], {"axis": 0, "keepdims": 0}),
                              ("SequenceAt", ["parts", "zero"], ["a"], {}), ("SequenceAt", ["parts", "one"], ["b"], {}),
                              ("SequenceConstruct", ["b", "a", "b"], ["again"], {}),
                              ("ConcatFromSequence", ["again"], ["y"], {"axis": 0})],
          {"x": x}, {"w": w, "zero": np.array(0, np.int64), "one": np.array(1, np.int64)}, {"y": T.FLOAT}, 1)
    body = h.make_graph(
        [h.make_node("Mul", ["h_in", "w"], ["h_out"]), h.make_node("SequenceInsert", ["seq_in", "h_out"], ["seq_out"]),
         h.make_node("Identity", ["go_in"], ["go_out"])], "body",
        [h.make_tensor_value_info("i", T.INT64, []), h.make_tensor_value_info("go_in", T.BOOL, []),
         h.make_tensor_value_info("h_in", T.FLOAT, [2, 6]), h.make_tensor_sequence_value_info("seq_in", T.FLOAT, None)],
        [h.make_tensor_value_info("go_out", T.BOOL, []), h.make_tensor_value_info("h_out", T.FLOAT, [2, 6]),
         h.make_tensor_sequence_value_info("seq_out", T.FLOAT, None)])
    model("sequence_loop", [("SequenceEmpty", [], ["none"], {}), ("Loop", ["three", "yes", "x", "none"], ["h", "all"], {"body": body}),
                            ("ConcatFromSequence", ["all"], ["y"], {"axis": 0, "new_axis": 1})],
          {"x": x}, {"w": f(6), "three": np.array(3, np.int64), "yes": np.array(True)}, {"y": T.FLOAT, "h": T.FLOAT}, 1)
    model("optional", [("Optional", ["x"], ["o"], {}), ("OptionalHasElement", ["o"], ["has"], {}),
                       ("OptionalGetElement", ["o"], ["v"], {}), ("MatMul", ["v", "w"], ["y"], {})],
          {"x": x}, {"w": w}, {"y": T.FLOAT, "has": T.BOOL}, 1)


def regions():
    rois = np.array([[0, 0, 9, 7], [1.3, 2.1, 5.2, 8.8], [-3, -2, 4, 3], [6, 6, 20, 21]], np.float32)
    for name, op, attrs in [("avg", 16, {}), ("max", 16, {"mode": "max", "sampling_ratio": 2}), ("old", 10, {"spatial_scale": 0.5})]:
        model(f"roi_{name}", [("Conv", ["x", "w", "b"], ["h"], {"pads": [1, 1, 1, 1]}),
                              ("RoiAlign", ["h", "rois", "image"], ["y"], {"output_height": 2, "output_width": 3, **attrs})],
              {"x": f(2, 2, 9, 10), "rois": rois, "image": i64(0, 1, 1, 0)}, {"w": 0.4 * f(3, 2, 3, 3), "b": f(3)}, {"y": T.FLOAT}, 2, op)
    model("deform_conv", [("Conv", ["x", "wo", "bo"], ["offset"], {}), ("DeformConv", ["x", "w", "offset", "b", "mask"], ["y"],
                                                                        {"kernel_shape": [3, 2], "offset_group": 2, "group": 2})],
          {"x": f(2, 4, 6, 7), "mask": f(2, 12, 4, 6)}, {"wo": 0.3 * f(24, 4, 3, 2), "bo": f(24), "w": f(6, 2, 3, 2), "b": f(6)},
          {"y": T.FLOAT}, 4, 19)


def attention():
    b, s, n, kv, d = 2, 5, 4, 2, 16
    lens, total = np.array([s - 1] * b, np.int32), np.array(s, np.int32)
    angle = np.arange(8)[:, None] * (10000.0 ** (-np.arange(d // 2) / (d // 2)))[None]
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def gqa(name, packed=False, extra=None, past=False, **attrs):
        feeds, weights = {"x": f(b, s, 12)}, {}
        if packed:
            weights["w"] = 0.3 * f(12, (n + 2 * kv) * d)
            nodes, ins = [("MatMul", ["x", "w"], ["q"], {})], ["q", "", ""]
        else:
            weights |= {"wq": 0.3 * f(12, n * d), "wk": 0.3 * f(12, kv * d), "wv": 0.3 * f(12, kv * d)}
            nodes, ins = [("MatMul", ["x", "w" + k], [k], {}) for k in "qkv"], ["q", "k", "v"]
        count = len(weights)
        if past:
            feeds |= {"past_k": np.zeros((b, kv, 0, d), np.float32), "past_v": np.zeros((b, kv, 0, d), np.float32)}
        ins += ["past_k" if past else "", "past_v" if past else "", "lens", "total"]
        weights |= {"lens": lens, "total": total, "cos": cos, "sin": sin}
        ins += ["cos", "sin"] if attrs.get("do_rotary") else ["", ""]
        ins += ["", ""]
        for k, v in (extra or {}).items():
            feeds[k] = v
        if "bias" in feeds:
            ins[10] = "bias"
        ins += ["sink" if "sink" in feeds else ""]
        while not ins[-1]:
            ins.pop()
        nodes.append(("ms:GroupQueryAttention", ins, ["y", "pk", "pv"], {"num_heads": n, "kv_num_heads": kv, **attrs}))
        model("gqa_" + name, nodes, feeds, weights, {"y": T.FLOAT, "pk": T.FLOAT, "pv": T.FLOAT}, count)

    gqa("plain")
    gqa("past", past=True, scale=0.3)
    gqa("packed_rotary", packed=True, do_rotary=1)
    gqa("interleaved", do_rotary=1, rotary_interleaved=1)
    gqa("window", local_window_size=2)
    gqa("softcap", softcap=3.0, extra={"bias": f(1, n, s, s)})
    gqa("sink", extra={"sink": f(n)})
    gqa("smooth", smooth_softmax=1)
    w = {"w": 0.3 * f(12, 3 * 16)}

    def flatten(names):
        nodes = [("Constant", [], ["flat"], {"value_ints": [2, 5, 16]})]
        return nodes + [("Reshape", [k, "flat"], ["f" + k], {}) for k in names]

    model("mha_packed", [("MatMul", ["x", "w"], ["h"], {}), ("Reshape", ["h", "shape"], ["qkv"], {}),
                         ("ms:MultiHeadAttention", ["qkv"], ["y"], {"num_heads": 2})],
          {"x": f(2, 5, 12)}, {**w, "shape": i64(2, 5, 2, 3, 8)}, {"y": T.FLOAT}, 1,
          reference=[("MatMul", ["x", "w"], ["h"], {}), ("Reshape", ["h", "shape"], ["qkv"], {}),
                     ("Split", ["qkv"], ["a", "b", "c"], {"axis": 3, "num_outputs": 3}), *flatten("abc"),
                     ("ms:MultiHeadAttention", ["fa", "fb", "fc"], ["y"], {"num_heads": 2})])
    model("mha_kv", [("MatMul", ["x", "w"], ["h"], {}), ("Reshape", ["h", "shape"], ["kv"], {}),
                     ("ms:MultiHeadAttention", ["q", "kv"], ["y"], {"num_heads": 2})],
          {"x": f(2, 5, 12), "q": f(2, 3, 16)}, {"w": 0.3 * f(12, 32), "shape": i64(2, 5, 2, 2, 8)}, {"y": T.FLOAT}, 1,
          reference=[("MatMul", ["x", "w"], ["h"], {}), ("Reshape", ["h", "shape"], ["kv"], {}),
                     ("Split", ["kv"], ["b", "c"], {"axis": 3, "num_outputs": 2}), *flatten("bc"),
                     ("ms:MultiHeadAttention", ["q", "fb", "fc"], ["y"], {"num_heads": 2})])
    model("mha_past", [("MatMul", ["x", "w"], ["h"], {}),
                       ("ms:MultiHeadAttention", ["h", "h", "h", "b", "", "", "pk", "pv"], ["y", "nk", "nv"], {"num_heads": 2, "unidirectional": 1})],
          {"x": f(2, 3, 12), "pk": f(2, 2, 4, 8), "pv": f(2, 2, 4, 8)}, {"w": 0.3 * f(12, 16), "b": f(48)},
          {"y": T.FLOAT, "nk": T.FLOAT, "nv": T.FLOAT}, 2)
    model("attention_past", [("ms:Attention", ["x", "w", "b", "", "past"], ["y", "present"], {"num_heads": 2, "unidirectional": 1})],
          {"x": f(2, 3, 12), "past": f(2, 2, 2, 4, 8)}, {"w": 0.3 * f(12, 48), "b": f(48)}, {"y": T.FLOAT, "present": T.FLOAT}, 2)


def tabular():
    x = f(5, 4)
    holes = x.copy()
    holes[1, 2] = holes[3, 0] = np.nan
    tail = [("MatMul", ["h", "w"], ["y"], {})]
    model("ml_scaler", [("MatMul", ["x", "w0"], ["g"], {}), ("ml:Scaler", ["g"], ["h"], {"offset": [0.5, 1, -2, 0.25], "scale": [2.0, 0.5, 1, 3]})] + tail,
          {"x": x}, {"w0": f(4, 4), "w": f(4, 3)}, {"y": T.FLOAT}, 2)
    for norm in ("L1", "L2", "MAX"):
        model("ml_norm_" + norm.lower(), [("MatMul", ["x", "w0"], ["g"], {}), ("ml:Normalizer", ["g"], ["h"], {"norm": norm})] + tail,
              {"x": x}, {"w0": f(4, 4), "w": f(4, 3)}, {"y": T.FLOAT}, 2)
    model("ml_imputer", [("ml:Imputer", ["x"], ["h"], {"imputed_value_floats": [1.0, 2, 3, 4], "replaced_value_float": float("nan")})] + tail,
          {"x": holes}, {"w": f(4, 3)}, {"y": T.FLOAT}, 1)
    model("ml_binarizer", [("ml:Binarizer", ["x"], ["h"], {"threshold": 0.25})] + tail, {"x": x}, {"w": f(4, 3)}, {"y": T.FLOAT}, 1)
    model("ml_vectorizer", [("ml:FeatureVectorizer", ["x", "z"], ["h"], {"inputdimensions": [4, 2]})] + tail, {"x": x, "z": f(5, 2)}, {"w": f(6, 3)}, {"y": T.FLOAT}, 1)


def quantized():
    byte = lambda *d: rng.integers(0, 256, d).astype(np.uint8)
    first = ("MatMul", ["x", "w0"], ["h"], {})
    for bits, zeros, bias in [(4, True, True), (4, False, False), (8, True, False), (2, True, False)]:
        weights = {"w0": 0.2 * f(40, 40), "b": byte(6, 3, 16 * bits // 8), "s": 0.05 * np.abs(f(6, 3)) + 0.01}
        ins = ["h", "b", "s"]
        if zeros:
            weights["z"] = byte(6, (3 * bits + 7) // 8)
            ins.append("z")
        if bias:
            weights["bias"] = f(6)
            ins += [""] * (5 - len(ins)) + ["bias"]
        model(f"nbits_{bits}{'_zero' if zeros else ''}", [first, ("ms:MatMulNBits", ins, ["y"], {"K": 40, "N": 6, "bits": bits, "block_size": 16})],
              {"x": f(2, 3, 40)}, weights, {"y": T.FLOAT}, 2 if bias else 1)
    for kind in (0, 1):
        model(f"bnb4_{'nf4' if kind else 'fp4'}", [first, ("ms:MatMulBnb4", ["h", "b", "s"], ["y"], {"K": 40, "N": 6, "block_size": 16, "quant_type": kind})],
              {"x": f(2, 3, 40)}, {"w0": 0.2 * f(40, 40), "b": byte(120), "s": np.abs(f(15))}, {"y": T.FLOAT}, 1)
    model("gather_quantized", [("ms:GatherBlockQuantized", ["t", "ids", "s", "z"], ["e"], {"bits": 4, "block_size": 16, "quantize_axis": 1, "gather_axis": 0}),
                               ("MatMul", ["e", "w"], ["y"], {})],
          {"ids": rng.integers(0, 7, (2, 3)).astype(np.int64)}, {"t": byte(7, 16), "s": 0.1 * np.abs(f(7, 2)), "z": byte(7, 1), "w": f(32, 4)}, {"y": T.FLOAT}, 1)
    s = lambda v: np.array(v, np.float32)
    z = lambda v: np.array(v, np.uint8)
    head = [("MatMul", ["x", "w0"], ["h"], {}), ("QuantizeLinear", ["h", "s1", "z1"], ["q"], {})]
    weights = {"w0": 0.3 * f(8, 8), "s1": s(0.03), "z1": z(120), "s2": s(0.05), "z2": z(100), "other": byte(8), "s3": s(0.02), "z3": z(99)}
    tail = [("DequantizeLinear", ["r", "s2", "z2"], ["y"], {})]
    other = ["other", "s3", "z3"]
    out = ["s2", "z2"]
    q = ["q", "s1", "z1"]
    for name, op, ins, attrs in [("add", "QLinearAdd", q + other + out, {}), ("mul", "QLinearMul", q + other + out, {}),
                                 ("sigmoid", "QLinearSigmoid", q + out, {}), ("leaky", "QLinearLeakyRelu", q + out, {"alpha": 0.1}),
                                 ("softmax", "QLinearSoftmax", q + out, {"axis": -1, "opset": 13}),
                                 ("concat", "QLinearConcat", out + q + q, {"axis": 1})]:
        used = {k: v for k, v in weights.items() if k in ins + ["w0", "s1", "z1", "s2", "z2"]}
        model("q_" + name, head + [("ms:" + op, ins, ["r"], attrs)] + tail, {"x": f(4, 8)}, used, {"y": T.FLOAT}, 1)
    model("q_pool", [("Conv", ["x", "w"], ["h"], {}), ("QuantizeLinear", ["h", "s1", "z1"], ["q"], {}),
                     ("ms:QLinearGlobalAveragePool", q + out, ["r"], {})] + tail,
          {"x": f(2, 2, 5, 5)}, {"w": f(3, 2, 2, 2), **{k: weights[k] for k in ("s1", "z1", "s2", "z2")}}, {"y": T.FLOAT}, 1)
    gemm = {**weights, "wq": byte(8, 5), "sw": 0.01 + 0.01 * np.abs(f(5)), "zw": np.full(5, 128, np.uint8), "c": rng.integers(-900, 900, 5).astype(np.int32)}
    used = {k: v for k, v in gemm.items() if k not in ("other", "s3", "z3")}
    model("q_gemm", head + [("ms:QGemm", q + ["wq", "sw", "zw", "c", "s2", "z2"], ["r"], {})] + tail, {"x": f(4, 8)}, used, {"y": T.FLOAT}, 1)
    model("q_dynamic", [("MatMul", ["x", "w0"], ["h"], {}), ("ms:DynamicQuantizeMatMul", ["h", "wq", "sw", "zw", "bias"], ["y"], {})],
          {"x": f(4, 8)}, {"w0": weights["w0"], "wq": gemm["wq"], "sw": s(0.02), "zw": z(128), "bias": f(5)}, {"y": T.FLOAT}, 2)
    model("q_integer", [("MatMul", ["x", "w0"], ["h"], {}), ("DynamicQuantizeLinear", ["h"], ["q", "sq", "zq"], {}),
                        ("ms:MatMulIntegerToFloat", ["q", "wq", "sq", "sw", "zq", "zw", "bias"], ["y"], {})],
          {"x": f(4, 8)}, {"w0": weights["w0"], "wq": gemm["wq"], "sw": gemm["sw"], "zw": gemm["zw"], "bias": f(5)}, {"y": T.FLOAT}, 2)
    model("q_attention", [("MatMul", ["x", "w0"], ["h"], {}), ("DynamicQuantizeLinear", ["h"], ["q", "sq", "zq"], {}),
                          ("ms:QAttention", ["q", "wq", "bias", "sq", "sw", "", "zq", "zw"], ["y"], {"num_heads": 2})],
          {"x": f(2, 3, 8)}, {"w0": weights["w0"], "wq": byte(8, 24), "bias": f(24), "sw": s(0.01), "zw": z(128)}, {"y": T.FLOAT}, 2)


def permuted():
    """Columns that are not in order: g_idx is the block of each."""
    r = np.random.default_rng(5)
    for zeros in (False, True):
        weights = {"w0": (0.2 * r.standard_normal((48, 48))).astype(np.float32), "b": r.integers(0, 256, (6, 3, 8)).astype(np.uint8),
                   "s": (0.05 * r.standard_normal((6, 3))).astype(np.float32), "g": r.permutation(np.arange(48) // 16).astype(np.int32)}
        if zeros:
            weights["z"] = r.uniform(5, 10, (6, 3)).astype(np.float32)
        model(f"nbits_4_g_idx{'_zero' if zeros else ''}",
              [("MatMul", ["x", "w0"], ["h"], {}), ("ms:MatMulNBits", ["h", "b", "s", "z" if zeros else "", "g"], ["y"],
                                                     {"K": 48, "N": 6, "bits": 4, "block_size": 16})],
              {"x": r.standard_normal((2, 3, 48)).astype(np.float32)}, weights, {"y": T.FLOAT}, 1)


def distances():
    r = np.random.default_rng(6)
    weights = {"w0": (0.5 * r.standard_normal((3, 4))).astype(np.float32), "rows": r.standard_normal((5, 4)).astype(np.float32)}
    for metric in ("euclidean", "sqeuclidean"):
        model("cdist_" + metric, [("MatMul", ["x", "w0"], ["h"], {}), ("ms:CDist", ["h", "rows"], ["y"], {"metric": metric})],
              {"x": r.standard_normal((2, 3)).astype(np.float32)}, weights, {"y": T.FLOAT}, 1)


def newer_onnx():
    """Opsets 24 to 28, and IR version 14: windows of Attention, causal masks that end at nonpad_kv_seqlen, SwiGLU."""
    r = np.random.default_rng(7)

    def g(*dims):
        return r.standard_normal(dims).astype(np.float32)

    def windows(name, queries, keys, opset=25, lens=None, **attrs):
        feeds, ins = {"x": g(2, queries, 8), "k": g(2, keys, 8), "v": g(2, keys, 8)}, ["q", "k", "v"]
        if lens:
            feeds["lens"] = i64(*lens)
            ins += ["", "", "", "lens"]
        model("window_" + name, [("MatMul", ["x", "w"], ["q"], {}),
                                 ("Attention", ins, ["y"], {"q_num_heads": 2, "kv_num_heads": 2, **attrs})],
              feeds, {"w": 0.5 * g(8, 8)}, {"y": T.FLOAT}, 1, opset)

    windows("causal", 5, 5, is_causal=1, left_window_size=2)
    windows("both", 5, 6, left_window_size=2, right_window_size=1)
    windows("lengths", 4, 7, lens=(5, 6), left_window_size=1, right_window_size=2)
    windows("causal_lengths", 4, 6, 24, (3, 6), is_causal=1)
    model("swiglu", [("MatMul", ["x", "w0"], ["a"], {}), ("MatMul", ["x", "w1"], ["b"], {}), ("SwiGLU", ["a", "b"], ["y"], {"alpha": 1.5})],
          {"x": g(3, 4)}, {"w0": g(4, 6), "w1": g(4, 6)}, {"y": T.FLOAT}, 2, 28, ir=14,
          reference=[("MatMul", ["x", "w0"], ["a"], {}), ("MatMul", ["x", "w1"], ["b"], {}), ("Constant", [], ["alpha"], {"value_float": 1.5}),
                     ("Mul", ["a", "alpha"], ["c"], {}), ("Sigmoid", ["c"], ["s"], {}), ("Mul", ["a", "s"], ["t"], {}), ("Mul", ["t", "b"], ["y"], {})])


if __name__ == "__main__":
    os.makedirs(mc.OUT, exist_ok=True)
    for part in (sequences, regions, attention, tabular, quantized, permuted, distances, newer_onnx):
        part()
