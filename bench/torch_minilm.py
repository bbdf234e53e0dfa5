"""The quickstart's model in PyTorch: BERT with the ONNX file's weights, masked mean, a new linear
head.

As a script it compares hidden states and sentence embeddings with onnxruntime's on tweets, to 1e-5.
"""

import argparse
import json
import math

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from transformers import BertConfig, BertModel

import common


class SentenceClassifier(torch.nn.Module):
    """(B, S) ids and mask -> (B, classes) logits."""

    def __init__(self, bert, classes, seed, dropout=0.0):
        super().__init__()
        self.bert = bert
        self.dropout = torch.nn.Dropout(dropout)
        self.head = torch.nn.Linear(bert.config.hidden_size, classes)
        generator = torch.Generator().manual_seed(seed)
        torch.nn.init.normal_(self.head.weight, std=0.02, generator=generator)
        torch.nn.init.zeros_(self.head.bias)

    def hidden(self, ids, mask):
        return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state

    def embed(self, ids, mask):
        weight = mask.unsqueeze(-1).to(torch.float32)
        return (self.hidden(ids, mask) * weight).sum(1) / weight.sum(1).clamp(min=1e-9)

    def forward(self, ids, mask):
        return self.head(self.dropout(self.embed(ids, mask)))


def load_bert(binary, path, attention="sdpa", dropout=0.0):
    """Returns a BertModel with all weights from the ONNX file, found by the names that `check` reports."""
    listed = json.loads(common.run_ours(binary, "check", path, "--json"))["parameters"]
    payload = {t.name: t for t in onnx.load(str(path)).graph.initializer}
    state = {}
    for p in listed:
        if not p["parameter"]:
            continue
        full = p["alias"] or p["name"]
        name = full[min(i for i in (full.find("embeddings."), full.find("encoder.")) if i >= 0) :]
        value = torch.from_numpy(numpy_helper.to_array(payload[p["name"]]).copy())
        if p["alias"]:  # the exporter named it after its MatMul and stored it [in, out]
            value = value.T.contiguous()
        state[name] = value
    words = state["embeddings.word_embeddings.weight"]
    layers = 1 + max(int(n.split(".")[2]) for n in state if n.startswith("encoder.layer."))
    config = BertConfig(
        vocab_size=words.shape[0],
        hidden_size=words.shape[1],
        num_hidden_layers=layers,
        num_attention_heads=12,
        intermediate_size=state["encoder.layer.0.intermediate.dense.weight"].shape[0],
        max_position_embeddings=state["embeddings.position_embeddings.weight"].shape[0],
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        layer_norm_eps=1e-12,
        attn_implementation=attention,
    )
    bert = BertModel(config, add_pooling_layer=False)
    missing, unexpected = bert.load_state_dict(state, strict=False)
    missing = [n for n in missing if not n.endswith(("position_ids", "token_type_ids"))]
    if missing or unexpected:
        raise SystemExit(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    return bert


def load(binary, path, classes=3, seed=42, attention="sdpa", dropout=0.0):
    return SentenceClassifier(load_bert(binary, path, attention, dropout), classes, seed, dropout)


def adamw(model, lr, weight_decay):
    """Returns AdamW with the program's defaults: biases and normalization weights (rank <= 1) have no weight decay."""
    params = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in params if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in params if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.999), eps=1e-8, fused=True)


def linear_schedule(optimizer, warmup, total):
    """Returns Hugging Face's linear schedule with warm-up."""
    warmup = math.ceil(total * warmup) if warmup < 1 else int(warmup)
    factor = lambda s: s / max(1, warmup) if s < warmup else max(0.0, (total - s) / max(1, total - warmup))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def verify(binary, path, rows=64):
    """Returns the largest differences from onnxruntime in hidden states and embedding, over batches of tweets."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    model = load(binary, path).eval()
    tokens = common.tokenize([t for t, _ in common.read_tweets(common.TWEETS / "dev.csv", rows)])
    worst = {"hidden": 0.0, "embedding": 0.0}
    for start in range(0, rows, 16):
        ids, mask = common.pad(tokens[start : start + 16])
        got = dict(zip(names, session.run(None, {"input_ids": ids, "attention_mask": mask})))
        hidden = next(v for v in got.values() if v.ndim == 3)
        embedding = next(v for v in got.values() if v.ndim == 2 and v.dtype == np.float32)
        with torch.no_grad():
            t_ids, t_mask = torch.from_numpy(ids), torch.from_numpy(mask)
            real = mask[..., None]  # values at padded positions are ignored
            worst["hidden"] = max(
                worst["hidden"], float(np.abs((model.hidden(t_ids, t_mask).numpy() - hidden) * real).max())
            )
            worst["embedding"] = max(
                worst["embedding"], float(np.abs(model.embed(t_ids, t_mask).numpy() - embedding).max())
            )
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary")
    parser.add_argument("--model", help="the ONNX file; default: what cmake/fetch_minilm.sh fetches")
    args = parser.parse_args()
    worst = verify(common.find_binary(args.binary), common.find_minilm(args.model))
    print(json.dumps({"largest_difference": worst}))
    if max(worst.values()) > 1e-5:
        raise SystemExit("PyTorch's model is not the file's: the difference is above 1e-5")


if __name__ == "__main__":
    main()
