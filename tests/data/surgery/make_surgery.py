"""Makes inference exports of small models of transformers' architectures, and PyTorch's results for them:

  dropout.json      the nodes whose outputs have dropout in a training-mode export of the same module
  lora.*            ten steps of SGD and AdamW with adapters on query and value, computed in torch
  heads.*           loss and gradients of every kind of head on bert's hidden states and on a feature map

    make_surgery.py        (torch, transformers, onnx, safetensors; writes into this folder)
"""
import json
import warnings
from pathlib import Path

import onnx
import torch
import torch.nn.functional as F
import transformers as tr
from safetensors.torch import save_file

warnings.filterwarnings("ignore")
HERE = Path(__file__).parent
torch.manual_seed(0)
IDS, MASK = torch.randint(3, 50, (4, 6)), torch.ones(4, 6, dtype=torch.int64)
MASK[1, 4:] = 0
MASK[3, 3:] = 0


def small(cfg, **kw):
    return cfg(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=20,
               num_labels=3, attn_implementation="eager",
               initializer_range=0.25, **kw)


def models():
    p = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    yield "bert", tr.BertForSequenceClassification(small(tr.BertConfig))
    yield "electra", tr.ElectraForSequenceClassification(small(tr.ElectraConfig, embedding_size=8))
    yield "albert", tr.AlbertForSequenceClassification(small(tr.AlbertConfig, embedding_size=8, classifier_dropout_prob=0.1, **p))
    yield "gpt2", tr.GPT2LMHeadModel(tr.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=20, bos_token_id=1, eos_token_id=2,
                                                  attn_implementation="eager"))
    yield "distilbert", tr.DistilBertForSequenceClassification(tr.DistilBertConfig(vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=32,
                                                              max_position_embeddings=20, num_labels=3, attn_implementation="eager"))
    yield "t5_encoder", tr.T5EncoderModel(tr.T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2))
    yield "vit", tr.ViTForImageClassification(tr.ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=8,
                                                          patch_size=4, num_labels=3, attn_implementation="eager", **p))


class Plain(torch.nn.Module):
    def __init__(self, m, image):
        super().__init__()
        self.m, self.image = m, image

    def forward(self, a, b=None):
        o = self.m(pixel_values=a) if self.image else self.m(input_ids=a, attention_mask=b)
        return o.logits if hasattr(o, "logits") else o.last_hidden_state


def export(m, args, names, path, train, image):
    m.train(train)
    torch.onnx.export(m, args, str(path), input_names=names, output_names=["logits"], opset_version=14, dynamo=False, do_constant_folding=not train,
                      training=torch.onnx.TrainingMode.TRAINING if train else torch.onnx.TrainingMode.EVAL,
                      dynamic_axes={n: {0: "batch"} if image else {0: "batch", 1: "sequence"} for n in names})


def dropout_places(path):
    g = onnx.load(path).graph
    made = {o: n.name for n in g.node for o in n.output}
    return [made[n.input[0]] for n in g.node if n.op_type == "Dropout"]


class Adapted(torch.nn.Module):
    """y = W x + alpha / r * B^T A^T x, with A [in, r], B [r, out]."""

    def __init__(self, base, a, scale):
        super().__init__()
        self.base, self.scale = base, scale
        self.a, self.b = torch.nn.Parameter(a.clone()), torch.nn.Parameter(torch.zeros(a.shape[1], base.out_features))

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.a @ self.b)


def lora(bert):
    """Returns the losses of ten steps with sgd and of ten steps with adamw."""
    label = torch.tensor([0, 2, 1, 2])
    tensors = {"input_ids": IDS, "attention_mask": MASK, "label": label}
    out = {"r": 4, "alpha": 8}
    state = {k: v.clone() for k, v in bert.state_dict().items()}
    starts = {}
    for method in ["sgd", "adamw"]:
        bert = tr.BertForSequenceClassification(small(tr.BertConfig))
        bert.load_state_dict(state)
        bert.eval()
        bert.requires_grad_(False)
        parts = []
        for i, layer in enumerate(bert.bert.encoder.layer):
            att = layer.attention.self
            for which in ["query", "value"]:
                name = f"bert.encoder.layer.{i}.attention.self.{which}.weight"
                a = starts.setdefault(name, (torch.rand(16, 4) * 2 - 1) / 4)
                tensors[name + ".lora_A"] = a
                ad = Adapted(getattr(att, which), a, 8 / 4)
                setattr(att, which, ad)
                parts += [ad.a, ad.b]
        opt = torch.optim.SGD(parts, lr=0.2, momentum=0.9) if method == "sgd" else torch.optim.AdamW(parts, lr=0.05, weight_decay=0.01)
        losses = []
        for step in range(11):
            logits = bert(input_ids=IDS, attention_mask=MASK).logits
            loss = F.cross_entropy(logits, label)
            losses.append(loss.item())
            if step == 10:
                tensors["logits_" + method] = logits.detach()
                break
            opt.zero_grad()
            loss.backward()
            opt.step()
        out[method] = losses
    save_file(tensors, HERE / "lora.safetensors")
    return out


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Conv2d(4, 5, 3, padding=1)

    def forward(self, x):
        return F.relu(self.two(F.relu(self.one(x))))


def heads(bert):
    """Returns for each kind of head the loss, the gradients of the head, and the gradient of one weight of the
    trunk."""
    image = torch.randn(2, 3, 8, 8)
    conv = Conv()
    torch.onnx.export(conv, (image,), str(HERE / "conv.onnx"), input_names=["image"], output_names=["features"], opset_version=14, dynamo=False,
                      dynamic_axes={"image": {0: "batch"}})
    bert.eval()
    bert.requires_grad_(True)
    query = bert.bert.encoder.layer[1].attention.self.query.bias
    t = {"input_ids": IDS, "attention_mask": MASK, "image": image}
    out = {}

    def hidden():
        return bert.bert(input_ids=IDS, attention_mask=MASK).last_hidden_state

    def mean():
        m = MASK[:, :, None].float()
        return (hidden() * m).sum(1) / m.sum(1)

    def add(name, x, n, loss, label, trunk):
        features = x().shape[1] if x().dim() == 4 else x().shape[-1]
        w, b = (torch.randn(n, features) * 0.3).requires_grad_(), (torch.randn(n) * 0.1).requires_grad_()
        bert.zero_grad()
        conv.zero_grad()
        v = x()
        y = torch.einsum("bchw,nc->bnhw", v, w) + b[:, None, None] if v.dim() == 4 else v @ w.T + b
        value = loss(y, label)
        value.backward()
        out[name] = {"loss": value.item(), "num_labels": n, "trunk": "bert" if trunk is query else "conv"}
        for key, x in {"w": w, "b": b, "gw": w.grad, "gb": b.grad, "gt": trunk.grad, "label": label}.items():
            t[f"{name}.{key}"] = x.detach().clone().contiguous()

    spans = torch.tensor([[0, 3], [1, 2], [2, 2], [0, 1]])
    tokens = torch.randint(0, 5, (4, 6))
    tokens[MASK == 0] = -100
    add("classification", mean, 3, F.cross_entropy, torch.tensor([0, 2, 1, 1]), query)
    add("regression", mean, 1, F.mse_loss, torch.randn(4, 1), query)
    add("multilabel", mean, 4, F.binary_cross_entropy_with_logits, torch.randint(0, 2, (4, 4)).float(), query)
    add("token", hidden, 5, lambda y, l: F.cross_entropy(y.reshape(-1, 5), l.reshape(-1)), tokens, query)
    add("span", hidden, 2, lambda y, l: (F.cross_entropy(y[..., 0], l[:, 0]) + F.cross_entropy(y[..., 1], l[:, 1])) / 2, spans, query)
    add("segmentation", lambda: conv(image), 3, F.cross_entropy, torch.randint(0, 3, (2, 8, 8)), conv.one.bias)
    add("global", lambda: conv(image).mean([2, 3]), 3, F.cross_entropy, torch.tensor([2, 0]), conv.one.bias)
    save_file(t, HERE / "heads.safetensors")
    return out


def main():
    places, bert = {}, None
    for name, m in models():
        with torch.no_grad():
            for p in m.parameters():  # otherwise the exporter merges equal tensors
                p.add_(torch.randn_like(p) * 0.05)
        image = name == "vit"
        args = (torch.randn(2, 3, 8, 8),) if image else (IDS[:2], MASK[:2])
        names = ["pixel_values"] if image else ["input_ids", "attention_mask"]
        export(Plain(m, image), args, names, HERE / f"{name}.onnx", False, image)
        export(Plain(m, image), args, names, HERE / "train.tmp", True, image)
        places[name] = dropout_places(HERE / "train.tmp")
        (HERE / "train.tmp").unlink()
        bert = bert or m
    (HERE / "dropout.json").write_text(json.dumps(places, indent=1) + "\n")
    (HERE / "heads.json").write_text(json.dumps(heads(bert), indent=1) + "\n")
    (HERE / "lora.json").write_text(json.dumps(lora(bert), indent=1) + "\n")


main()
