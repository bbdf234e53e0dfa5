"""The networks of gpu.py in plain PyTorch (the GPU machine needs only torch), their data, and their
ONNX files.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 30522


class Layer(nn.Module):
    def __init__(self, hidden, heads, wide):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden) for _ in range(4))
        self.up, self.down = nn.Linear(hidden, wide), nn.Linear(wide, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden, 1e-12), nn.LayerNorm(hidden, 1e-12)

    def forward(self, x, seen):
        b, s, h = x.shape
        q, k, v = (f(x).view(b, s, self.heads, h // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).reshape(b, s, h)
        x = self.norm1(x + self.o(a))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """(B, S) ids, (B, S) mask of real tokens or none -> (B, classes) logits; pooler and head as in
    BertForSequenceClassification, no dropout."""

    def __init__(self, layers, hidden, heads, wide, length, classes=2):
        super().__init__()
        self.word, self.position = nn.Embedding(VOCABULARY, hidden), nn.Embedding(length, hidden)
        self.norm = nn.LayerNorm(hidden, 1e-12)
        self.layers = nn.ModuleList(Layer(hidden, heads, wide) for _ in range(layers))
        self.pooler, self.head = nn.Linear(hidden, hidden), nn.Linear(hidden, classes)
        self.register_buffer("places", torch.arange(length))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, mask=None):
        x = self.norm(self.word(ids) + self.position(self.places[: ids.shape[1]]))
        seen = None if mask is None else mask[:, None, None, :] != 0
        for layer in self.layers:
            x = layer(x, seen)
        return self.head(torch.tanh(self.pooler(x[:, 0])))


def twice(a, b):
    return nn.Sequential(
        nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
        nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Module):
    """(B, 3, H, W) -> (B, 1, H, W) logits; 32 to 512 channels: 7.76 M parameters."""

    def __init__(self, width=32):
        super().__init__()
        c = [width << i for i in range(5)]
        self.down = nn.ModuleList(twice(a, b) for a, b in zip([3, *c[:4]], c))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(c[3::-1], c[:0:-1]))
        self.join = nn.ModuleList(twice(2 * a, a) for a in c[3::-1])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([up(x), skip], 1))
        return self.head(x)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def mlp():
    return nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))


def bert_base(classes=2):
    return Bert(12, 768, 12, 3072, 128, classes)


def minilm():
    return Bert(6, 384, 12, 1536, 128)


# attention: also tries the SDPA variants. steps: timed steps per block. goals: see gpu_summary.py.
CASES = {
    "bert_b32": {"what": "BERT-base, S128", "net": bert_base, "batch": 32, "steps": 60, "attention": True,
                 "goals": {"best": (1.10, 1.30), "eager": (2.0, None), "update": (0.8, None), "first_step": (5, None)}},
    "bert_b128": {"what": "BERT-base, S128", "net": bert_base, "batch": 128, "steps": 40, "attention": True,
                  "goals": {"best": (1.0, 1.15), "eager": (2.0, None), "own_fp32": (1.6, None), "memory": (0.65, None)}},
    "tweets": {"what": "BERT-base, tweets of their real lengths", "net": lambda: bert_base(3), "batch": 32, "steps": 180,
               "attention": True, "text": True, "goals": {"best": (1.3, 1.6)}},
    "minilm": {"what": "MiniLM-L6 384, S128", "net": minilm, "batch": 32, "steps": 150, "attention": True,
               "goals": {"best": (1.5, 2.0), "eager": (5.0, None)}},
    "lenet": {"what": "LeNet, 1x28x28", "net": lenet, "batch": 64, "steps": 1000, "shape": (1, 28, 28), "classes": 10,
              "goals": {"best": (1.5, 2.0), "eager": (5.0, None)}},
    "mlp": {"what": "MLP 32-128-128-2", "net": mlp, "batch": 32, "steps": 2000, "shape": (32,), "classes": 2,
            "goals": {"best": (1.5, 2.0), "eager": (5.0, None)}},
    "unet": {"what": "U-Net 7.76 M, 3x256x256", "net": UNet, "batch": 8, "steps": 40, "shape": (3, 256, 256),
             "flags": ["--batchnorm", "train"], "goals": {"best": (1.0, None)}},
}  # fmt: skip


def shrink():
    """Shrinks networks and batches so that a case takes seconds on a CPU. Only tests of the scripts use it."""
    for name, case in CASES.items():
        case["what"] = f"tiny {name}"
        case["steps"] = 8
        if case.get("attention"):
            case["batch"] = 4
            case["net"] = lambda classes=3 if case.get("text") else 2: Bert(1, 32, 2, 64, 128, classes)
        if name == "unet":
            case.update(batch=2, shape=(3, 32, 32), net=lambda: UNet(4))


def build(name):
    torch.manual_seed(1)
    return CASES[name]["net"]()


def loss_of(name, logits, label):
    if name == "unet":
        return F.binary_cross_entropy_with_logits(logits.float(), label)
    return F.cross_entropy(logits.float(), label)


def make_batches(name, steps):
    """Returns batches of a case without texts, in the order that both sides use. Labels are learnable, so that losses
    change."""
    case, rng = CASES[name], np.random.default_rng(0)
    rows = steps * case["batch"]
    if case.get("attention"):
        label = rng.integers(0, 2, rows)
        x = rng.integers(1000, VOCABULARY, (rows, 128))
        x[:, 0] = 101
        x[:, 1:9] = np.where(label[:, None] == 1, 2000, 3000)
    elif name == "unet":
        x = rng.random((rows, *case["shape"]), np.float32)
        label = (x[:, :1] > 0.5).astype(np.float32)
    else:
        label = rng.integers(0, case["classes"], rows)
        x = rng.random((rows, *case["shape"]), np.float32)
        x.reshape(rows, -1)[np.arange(rows), label] += 2
    cut = range(0, rows, case["batch"])
    return [{"x": x[i : i + case["batch"]], "label": label[i : i + case["batch"]]} for i in cut]


def inputs_of(batch):
    return [batch[k] for k in ("x", "mask") if k in batch]


def export(name, path, batch):
    """Writes the ONNX file with the weights that PyTorch starts from."""
    net = build(name)
    training = torch.onnx.TrainingMode.PRESERVE if name == "unet" else torch.onnx.TrainingMode.EVAL
    net.train(name == "unet")
    names = ["input_ids", "attention_mask"] if "mask" in batch else ["x"]
    moving = {0: "batch", 1: "length"} if "mask" in batch else {0: "batch"}
    torch.onnx.export(
        net, tuple(torch.from_numpy(v[:2]) for v in inputs_of(batch)), str(path), dynamo=False, opset_version=17,
        input_names=names, output_names=["logits"], dynamic_axes={n: moving for n in names} | {"logits": {0: "batch"}},
        training=training, do_constant_folding=False,
    )  # fmt: skip
