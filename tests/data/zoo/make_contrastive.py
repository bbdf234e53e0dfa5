"""Writes minilm_embed_ts14/contrastive.safetensors: steps of SGD with sentence-transformers' MultipleNegativesRankingLoss on
16 pairs at once (cross-entropy of 20 cos(a_i, b_j), where j = i is the class), by transformers' BertModel with the entry's
weights. Pairs are random ids, padded to one length; their rows alternate. The metadata have the losses in float64 and float32
and the largest differences of the float32 run. Needs torch, transformers, onnx, onnxruntime.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from onnx import numpy_helper
from safetensors.numpy import save_file
from transformers import BertConfig, BertModel

ENTRY = Path(__file__).resolve().parent / "minilm_embed_ts14"
PAIRS, LENGTH, STEPS, LR, KEPT = 16, 10, 5, 0.01, 64
HEADS = 4  # number of attention heads, which the file does not state; main() verifies it
STEM = "bert."


def initializers():
    """Returns for each name in BertModel the name in the file, the weight in BertModel's layout, and whether the
    file has its transpose."""
    graph = onnx.load(ENTRY / "model.onnx").graph
    arrays = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    found = {n[len(STEM) :]: (n, a, False) for n, a in arrays.items() if n.startswith(STEM)}
    bias_of = {}
    for n in graph.node:  # a MatMul, then an Add of the layer's bias
        if n.op_type == "Add":
            for i in n.input:
                if i.startswith(STEM) and i.endswith(".bias"):
                    bias_of[n.input[1 - list(n.input).index(i)]] = i
    for n in graph.node:
        if n.op_type == "MatMul" and n.input[1] in arrays and n.output[0] in bias_of:
            name = bias_of[n.output[0]][len(STEM):].replace(".bias", ".weight")
            found[name] = (n.input[1], arrays[n.input[1]].T, True)
    return found


def model(dtype):
    found = initializers()
    layers = 1 + max(int(n.split(".")[2]) for n in found if n.startswith("encoder.layer."))
    words, places = found["embeddings.word_embeddings.weight"][1], found["embeddings.position_embeddings.weight"][1]
    bert = BertModel(
        BertConfig(
            vocab_size=len(words),
            hidden_size=words.shape[1],
            num_hidden_layers=layers,
            num_attention_heads=HEADS,
            intermediate_size=len(found["encoder.layer.0.intermediate.dense.bias"][1]),
            max_position_embeddings=len(places),
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ),
        add_pooling_layer=False,
    )
    with torch.no_grad():
        for name, p in bert.named_parameters():
            p.copy_(torch.tensor(found[name][1]))
    return bert.to(dtype), found


def embed(bert, ids, mask):
    hidden = bert(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)).last_hidden_state
    wide = mask[..., None].to(hidden.dtype)
    mean = (hidden * wide).sum(1) / wide.sum(1).clamp(min=1e-9)
    return torch.nn.functional.normalize(mean, p=2, dim=1)


def ranking(a, b):
    a, b = torch.nn.functional.normalize(a, p=2, dim=1), torch.nn.functional.normalize(b, p=2, dim=1)
    return torch.nn.functional.cross_entropy(20 * (a @ b.T), torch.arange(len(a)))


def batches():
    random = np.random.default_rng(16)
    ids = random.integers(5, 120, (STEPS, 2 * PAIRS, LENGTH))
    ids[:, 1::2, :4] = ids[:, 0::2, :4]  # the sides of a pair have words in common
    lengths = random.integers(4, LENGTH + 1, (STEPS, 2 * PAIRS))
    mask = (np.arange(LENGTH) < lengths[..., None]).astype(np.int64)
    return ids * mask, mask


def train(dtype):
    bert, found = model(dtype)
    ids, mask = (torch.tensor(x) for x in batches())
    optimizer = torch.optim.SGD(bert.parameters(), lr=LR)
    losses = []
    for i, m in zip(ids, mask):
        optimizer.zero_grad()
        e = embed(bert, i, m)
        loss = ranking(e[0::2], e[1::2])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    kept = {}
    for name, p in bert.named_parameters():
        file, _, transposed = found[name]
        w = (p.detach().T if transposed else p.detach()).reshape(-1)
        kept[file] = w[:: (len(w) + KEPT - 1) // KEPT].double().contiguous().numpy()
    return losses, kept


def main():
    ids, mask = batches()
    session = onnxruntime.InferenceSession(ENTRY / "model.onnx")
    feed = {"input_ids": ids[0], "attention_mask": mask[0], "token_type_ids": 0 * ids[0]}
    with torch.no_grad():
        have = embed(model(torch.float32)[0], torch.tensor(ids[0]), torch.tensor(mask[0])).numpy()
    assert abs(have - session.run(None, feed)[0]).max() < 1e-6, "not the model in the file"
    losses, kept = train(torch.float64)
    narrow, rounded = train(torch.float32)
    run = {
        "lr": LR,
        "losses": losses,
        "losses_fp32": narrow,
        "weights_fp32": max(float(abs(rounded[n] - w).max()) for n, w in kept.items()),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    tensors = {f"after/{n}": w for n, w in kept.items()} | {"input_ids": ids, "attention_mask": mask}
    save_file(tensors, ENTRY / "contrastive.safetensors", metadata={"run": json.dumps(run)})


if __name__ == "__main__":
    main()
