"""Writes a folder with an int4 decoder of random weights, in the form of onnxruntime-genai's builder (Llama, tied
head): for measurements of memory and time of models whose weights cannot be stored in this repository.

    make_decoder.py OUT --tokenizer tests/data/llm/llama-int4 [--layers 16 --hidden 2048 --ffn 8192 --heads 32
        --kv_heads 8 --vocabulary 128256 --block 32]

The defaults are the sizes of Llama 3.2 1B. --tokenizer: a folder whose tokenizer and template are copied; its tokens
must be fewer than the vocabulary. Needs numpy and onnx."""
import argparse
import json
import pathlib
import shutil

import numpy as np
import onnx
from onnx import TensorProto, helper


class Writer:
    def __init__(self, folder):
        self.data = open(folder / "model.onnx.data", "wb")
        self.nodes, self.tensors = [], []
        self.random = np.random.default_rng(1)

    def external(self, name, array, kind):
        at = self.data.tell()
        array.tofile(self.data)
        t = TensorProto(name=name, data_type=kind, dims=array.shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "model.onnx.data"), ("offset", at), ("length", array.nbytes)):
            t.external_data.add(key=key, value=str(value))
        self.tensors.append(t)

    def node(self, op, inputs, outputs, domain="", **attributes):
        self.nodes.append(helper.make_node(op, inputs, outputs, name="/" + outputs[0], domain=domain, **attributes))

    def weight(self, name, k, n, block):
        """Adds a weight of 4-bit numbers around 8, with a standard deviation of about 1 / sqrt(k) after scaling."""
        self.external(name + ".weight_Q4", self.random.integers(0, 256, (n, k // block, block // 2), np.uint8),
                      TensorProto.UINT8)
        self.external(name + ".weight_scales", np.full((n, k // block), k**-0.5 / 4.6, np.float32), TensorProto.FLOAT)

    def product(self, x, name, k, n, block):
        self.weight(name, k, n, block)
        self.multiply(x, name, name + ".out", k, n, block)
        return name + ".out"

    def multiply(self, x, name, out, k, n, block):
        self.node("MatMulNBits", [x, name + ".weight_Q4", name + ".weight_scales"], [out], "com.microsoft", K=k, N=n,
                  bits=4, block_size=block)


def build(a, folder):
    w = Writer(folder)
    head = a.hidden // a.heads
    positions = 1.0 / 10000 ** (np.arange(0, head, 2) / head)
    angles = np.outer(np.arange(a.positions), positions)
    w.external("cos_cache", np.cos(angles).astype(np.float32), TensorProto.FLOAT)
    w.external("sin_cache", np.sin(angles).astype(np.float32), TensorProto.FLOAT)
    for name, value in (("one", [1]), ("second", 1), ("table_shape", [a.vocabulary, a.hidden // 2])):
        w.tensors.append(helper.make_tensor(name, TensorProto.INT64, np.shape(value), np.ravel(value)))
    w.node("ReduceSum", ["attention_mask", "one"], ["tokens"], keepdims=0)
    w.node("Sub", ["tokens", "one"], ["last"])
    w.node("Cast", ["last"], ["seqlens_k"], to=TensorProto.INT32)
    w.node("Shape", ["attention_mask"], ["mask_shape"])
    w.node("Gather", ["mask_shape", "second"], ["total"], axis=0)
    w.node("Cast", ["total"], ["total_length"], to=TensorProto.INT32)
    w.weight("lm_head", a.hidden, a.vocabulary, a.block)
    w.node("Reshape", ["lm_head.weight_Q4", "table_shape"], ["table"])
    w.node("GatherBlockQuantized", ["table", "input_ids", "lm_head.weight_scales"], ["residual"], "com.microsoft",
           bits=4, block_size=a.block, gather_axis=0, quantize_axis=1)

    def norm(x, y, name):
        w.external(name + ".weight", np.ones(a.hidden, np.float32), TensorProto.FLOAT)
        if y is None:
            w.node("SimplifiedLayerNormalization", [x, name + ".weight"], [name + ".out"], epsilon=1e-5, axis=-1)
            return name + ".out", x
        w.node("SkipSimplifiedLayerNormalization", [x, y, name + ".weight"], [name + ".out", "", "", name + ".sum"],
               "com.microsoft", epsilon=1e-5)
        return name + ".out", name + ".sum"

    residual, added, pasts, presents = "residual", None, [], []
    for i in range(a.layers):
        at = f"model.layers.{i}."
        x, residual = norm(residual, added, at + "input_layernorm")
        qkv = w.product(x, at + "attn.qkv_proj.MatMul", a.hidden, (a.heads + 2 * a.kv_heads) * head, a.block)
        past, present = ([f"{p}.{i}.{kind}" for kind in ("key", "value")] for p in ("past_key_values", "present"))
        pasts += past
        presents += present
        w.node("GroupQueryAttention", [qkv, "", "", *past, "seqlens_k", "total_length", "cos_cache", "sin_cache"],
               [at + "attn.out", *present], "com.microsoft", num_heads=a.heads, kv_num_heads=a.kv_heads, do_rotary=1,
               scale=head**-0.5)
        added = w.product(at + "attn.out", at + "attn.o_proj.MatMul", a.hidden, a.hidden, a.block)
        x, residual = norm(residual, added, at + "post_attention_layernorm")
        gate = w.product(x, at + "mlp.gate_proj.MatMul", a.hidden, a.ffn, a.block)
        up = w.product(x, at + "mlp.up_proj.MatMul", a.hidden, a.ffn, a.block)
        w.node("Sigmoid", [gate], [at + "sigmoid"])
        w.node("Mul", [gate, at + "sigmoid"], [at + "silu"])
        w.node("Mul", [at + "silu", up], [at + "gated"])
        added = w.product(at + "gated", at + "mlp.down_proj.MatMul", a.ffn, a.hidden, a.block)
    x, _ = norm(residual, added, f"model.layers.{a.layers}.final_norm_layernorm")
    w.multiply(x, "lm_head", "logits", a.hidden, a.vocabulary, a.block)
    w.data.close()

    def value(name, dims, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, dims)

    cache = ["batch_size", a.kv_heads]
    inputs = [value("input_ids", ["batch_size", "sequence_length"], TensorProto.INT64),
              value("attention_mask", ["batch_size", "total_sequence_length"], TensorProto.INT64)]
    inputs += [value(p, [*cache, "past_sequence_length", head]) for p in pasts]
    outputs = [value("logits", ["batch_size", "sequence_length", a.vocabulary])]
    outputs += [value(p, [*cache, "total_sequence_length", head]) for p in presents]
    graph = helper.make_graph(w.nodes, "decoder", inputs, outputs, w.tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "model.onnx")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--tokenizer", type=pathlib.Path, required=True)
    for name, default in (("layers", 16), ("hidden", 2048), ("ffn", 8192), ("heads", 32), ("kv_heads", 8),
                          ("vocabulary", 128256), ("block", 32), ("positions", 4096)):
        p.add_argument("--" + name, type=int, default=default)
    a = p.parse_args()
    a.out.mkdir(parents=True)
    for f in a.tokenizer.iterdir():
        if not f.name.startswith(("model.onnx", "reference")) and f.is_file():
            shutil.copy(f, a.out)
    config_path = a.out / "genai_config.json"
    config = json.loads(config_path.read_text())
    decoder = config["model"]["decoder"]
    decoder.update(head_size=a.hidden // a.heads, hidden_size=a.hidden, num_attention_heads=a.heads,
                   num_hidden_layers=a.layers, num_key_value_heads=a.kv_heads)
    config["model"].update(vocab_size=a.vocabulary, context_length=a.positions)
    config["search"]["max_length"] = a.positions
    config_path.write_text(json.dumps(config, indent=1))
    build(a, a.out)


if __name__ == "__main__":
    main()
