"""Loss and gradients of PyTorch in float64 for a folder of this directory, written to its reference.safetensors.

make_references.py CHECKPOINT FOLDER (pip install torch transformers onnx safetensors)

CHECKPOINT is the Hugging Face checkpoint that the folder was made from. Its linear maps get the weights of the graph,
so that a quantized folder is compared with its own dequantized weights. Gradients have the names of the graph.
"""
import os
import re
import sys

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM


def dequantized(node, tensors, attributes):
    """Returns the weight [N, K] of a MatMulNBits with 4 bits and without zero points: low bits first, rows of
    whole blocks."""
    packed = tensors[node.input[1]]
    n, k, block = attributes["N"], attributes["K"], attributes["block_size"]
    assert attributes["bits"] == 4 and (len(node.input) < 4 or not node.input[3])
    q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(n, -1).astype(np.float64)
    scales = np.repeat(tensors[node.input[2]].astype(np.float64).reshape(n, -1), block, axis=1)
    return ((q - 8) * scales)[:, :k]


def load_quantized(model, graph, tensors):
    """Copies the graph's linear maps to the model, whose q, k and v are one map in the graph."""
    own = dict(model.named_parameters(remove_duplicate=False))
    for node in graph.node:
        if node.op_type != "MatMulNBits":
            continue
        weight = dequantized(node, tensors, {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute})
        found = re.match(r"/model/layers\.(\d+)/(attn|mlp)/(\w+)/", node.name)
        if not found:
            names = ["lm_head.weight"]
        elif found[3] == "qkv_proj":
            names = [f"model.layers.{found[1]}.self_attn.{x}_proj.weight" for x in "qkv"]
        else:
            part = "self_attn" if found[2] == "attn" else "mlp"
            names = [f"model.layers.{found[1]}.{part}.{found[3]}.weight"]
        at = 0
        for name in names:
            rows = own[name].shape[0]
            own[name].data.copy_(torch.from_numpy(weight[at:at + rows]))
            at += rows
        assert at == weight.shape[0]


def name_in_graph(name, layers, tensors):
    """Returns a parameter's name in the graph. The builder of onnxruntime-genai counts the last norm as a layer."""
    return name if name in tensors else name.replace("model.norm.", f"model.layers.{layers}.final_norm_layernorm.")


def main(checkpoint, folder):
    proto = onnx.load(os.path.join(folder, "model.onnx"))
    tensors = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    model = AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager").double().eval()
    if any(n.op_type == "MatMulNBits" for n in proto.graph.node):
        load_quantized(model, proto.graph, tensors)
    rng = np.random.default_rng(11)
    ids = rng.integers(3, 315, (2, 24))
    ids[1, 19:] = 0
    mask = np.ones((2, 24), np.int64)
    mask[1, 19:] = 0
    labels = np.where(mask == 0, -100, ids)
    labels[0, :6] = labels[1, :4] = -100
    logits = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask), use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]),
                                             torch.from_numpy(labels)[:, 1:].reshape(-1), ignore_index=-100)
    loss.backward()
    out = {"input_ids": ids, "attention_mask": mask, "label": labels, "loss": np.array([loss.item()])}
    if any(i.name == "position_ids" for i in proto.graph.input):
        out["position_ids"] = np.tile(np.arange(24), (2, 1))
    for name, p in model.named_parameters():
        graph_name = name_in_graph(name, model.config.num_hidden_layers, tensors)
        if p.grad is None or graph_name not in tensors or tensors[graph_name].dtype != np.float32:
            continue
        grad = p.grad.numpy()
        out["grad/" + graph_name] = (grad if grad.shape == tensors[graph_name].shape else grad.T).astype(np.float32)
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, os.path.join(folder, "reference.safetensors"))
    print(folder, "loss", loss.item(), len(out), "tensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
