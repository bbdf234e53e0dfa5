"""Cases that PaddlePaddle exports by paddle2onnx. The weights are the parameters whose stop_gradient
is False, which have other values in the second export (common.py).

A way is an opset and a treatment of the file: "13" folds constants by Polygraphy, as paddle2onnx
does by default; "13-raw" does not; "13-constants" stores weights in Constant nodes, as paddle2onnx
1.x did; "-fresh" keeps initial values.
"""

import math
import os
import tempfile

import numpy as np
import onnx
import paddle
from paddle import nn

from common import floats, other_values, registrar, tokens, trained_values, write_case

F = nn.functional
FAMILIES = []
# A family is a function that returns (layer, {input name: array}).
family = registrar(FAMILIES)


# --------------------------------------------------------------------------------------- cases of the part fit


class Ernie(nn.Layer):
    def __init__(self, dim=24, vocab=70, length=10):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(vocab, dim), nn.Embedding(32, dim)
        self.token_type_embeddings, self.layer_norm = nn.Embedding(2, dim), nn.LayerNorm(dim)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(dim, 3, 40, activation="gelu", dropout=0.0), 2)
        self.pooler, self.classifier = nn.Linear(dim, dim), nn.Linear(dim, 2)

    def forward(self, ids):
        pos = paddle.arange(10).unsqueeze(0)
        kinds = paddle.zeros([1, 10], "int64")
        h = self.word_embeddings(ids) + self.position_embeddings(pos) + self.token_type_embeddings(kinds)
        h = self.encoder(self.layer_norm(h))
        return self.classifier(paddle.tanh(self.pooler(h[:, 0])))


@family("fit", "13", "13-constants", "17-raw")
def paddle_ernie():
    return Ernie(), {"input_ids": tokens(70, 10, np.int64)}


@family("fit", "11", "13-raw-fresh")
def paddle_lenet():
    return nn.Sequential(
        nn.Conv2D(1, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2D(2, 2),
        nn.Conv2D(6, 16, 5),
        nn.BatchNorm2D(16),
        nn.ReLU(),
        nn.MaxPool2D(2, 2),
        nn.Flatten(),
        nn.Linear(16 * 25, 32),
        nn.Linear(32, 10),
    ), {"image": floats(1, 28, 28)}


@family("fit", "12")
def paddle_gelu_table():
    return nn.Sequential(nn.Linear(7, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 24), nn.LayerNorm(24), nn.Silu(), nn.Linear(24, 1)), {
        "x": floats(7)
    }


# -------------------------------------------------------------------------------------- cases of the part test


class SE(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.pool, self.a, self.b = nn.AdaptiveAvgPool2D(1), nn.Conv2D(c, c // 4, 1), nn.Conv2D(c // 4, c, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.b(F.relu(self.a(self.pool(x)))), slope=0.2, offset=0.5)


@family("test", "11", "13-constants", "15-raw-fresh")
def paddle_mobilenetv3():
    unit = lambda i, o, k, g=1: [nn.Conv2D(i, o, k, padding=k // 2, groups=g, bias_attr=False), nn.BatchNorm2D(o), nn.Hardswish()]  # noqa: E731
    return nn.Sequential(
        *unit(3, 8, 3),
        *unit(8, 16, 1),
        *unit(16, 16, 5, 16),
        SE(16),
        *unit(16, 12, 1),
        nn.AdaptiveAvgPool2D(1),
        nn.Flatten(),
        nn.Linear(12, 20),
        nn.Hardswish(),
        nn.Linear(20, 5),
    ), {"x": floats(3, 16, 16)}


class CRNN(nn.Layer):
    """Text recognition: convolutions, a bidirectional LSTM over columns, a CTC head."""

    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2D(3, 8, 3, padding=1),
            nn.BatchNorm2D(8),
            nn.ReLU(),
            nn.MaxPool2D(2),
            nn.Conv2D(8, 12, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2D((4, 1)),
        )
        self.rnn, self.fc = nn.LSTM(12, 10, direction="bidirect", num_layers=2), nn.Linear(20, 11)

    def forward(self, x):
        h = self.cnn(x).squeeze(2).transpose([0, 2, 1])
        return F.softmax(self.fc(self.rnn(h)[0]), 2)


@family("test", "13", "13-constants")
def paddle_crnn():
    return CRNN(), {"x": floats(3, 8, 16)}


class TextCNN(nn.Layer):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(60, 12)
        self.convs = nn.LayerList([nn.Conv1D(12, 8, k) for k in (2, 3, 4)])
        self.fc = nn.Linear(24, 3)

    def forward(self, ids):
        h = self.emb(ids).transpose([0, 2, 1])
        return self.fc(paddle.concat([F.relu(c(h)).max(-1) for c in self.convs], 1))


@family("test", "12", "14-fresh")
def paddle_textcnn():
    return TextCNN(), {"ids": tokens(60, 9, np.int64)}


class Decoder(nn.Layer):
    """Causal transformer with fixed sinusoids and a fixed mask, both buffers."""

    def __init__(self, dim=16, length=8):
        super().__init__()
        angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, dim, 2) / dim)
        pe = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(1, length, dim)
        self.register_buffer("pe", paddle.to_tensor(pe.astype("float32")))
        self.register_buffer("mask", paddle.to_tensor(np.triu(np.full((length, length), -1e4, "float32"), 1)))
        self.emb, self.head = nn.Embedding(50, dim), nn.Linear(dim, 50)
        self.block = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, normalize_before=True)
        self.scale = self.create_parameter([dim], default_initializer=nn.initializer.Constant(1e-2))

    def forward(self, ids):
        h = self.emb(ids) * math.sqrt(16) + self.pe
        return self.head(h + self.scale * self.block(h, self.mask))


@family("test", "13", "16-raw", "11-fresh")
def paddle_decoder():
    return Decoder(), {"ids": tokens(50, 8, np.int64)}


class Unet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.down, self.act, self.norm = nn.Conv2D(1, 8, 3, 2, 1), nn.PReLU(8), nn.GroupNorm(2, 8)
        self.mid, self.up = nn.Conv2D(8, 8, 3, padding=1), nn.Conv2DTranspose(8, 8, 2, 2)
        self.inorm, self.out = nn.InstanceNorm2D(8), nn.Conv2D(8, 1, 1)

    def forward(self, x):
        h = self.norm(self.act(self.down(x)))
        return self.out(self.inorm(self.up(F.swish(self.mid(h)))))


@family("test", "12", "17-constants")
def paddle_unet():
    return Unet(), {"x": floats(1, 16, 16)}


class Gru(nn.Layer):
    def __init__(self):
        super().__init__()
        self.rnn, self.fc = nn.GRU(5, 9), nn.Linear(9, 2)

    def forward(self, x):
        return self.fc(self.rnn(x)[0].mean(1))


@family("test", "13")
def paddle_gru_series():
    return Gru(), {"x": floats(7, 5)}


# ----------------------------------------------------------------------------------- cases of the part heldout


class Ppyoloe(nn.Layer):
    """A detector's head: distances as expectations over bins, by a convolution whose weights are not trained."""

    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2D(3, 16, 3, 2, 1, bias_attr=False), nn.BatchNorm2D(16)
        self.stem2, self.bn2 = nn.Conv2D(16, 16, 3, 2, 1, bias_attr=False), nn.BatchNorm2D(16)
        self.cls, self.reg, self.proj_conv = nn.Conv2D(16, 3, 1), nn.Conv2D(16, 4 * 8, 1), nn.Conv2D(8, 1, 1, bias_attr=False)
        self.proj_conv.weight.set_value(paddle.arange(8, dtype="float32").reshape([1, 8, 1, 1]))
        self.proj_conv.weight.stop_gradient = True

    def forward(self, x):
        h = F.swish(self.bn2(self.stem2(F.swish(self.bn(self.stem(x))))))
        d = self.reg(h).reshape([-1, 4, 8, 16]).transpose([0, 2, 3, 1])
        d = self.proj_conv(F.softmax(d, axis=1)).squeeze(1)
        return paddle.concat([F.sigmoid(self.cls(h).flatten(2).transpose([0, 2, 1])), d], axis=-1)


@family("heldout", "12", "13-constants", "16-raw")
def paddle_ppyoloe():
    return Ppyoloe(), {"image": floats(3, 16, 16)}


class Tagger(nn.Layer):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn, self.fc = nn.Embedding(50, 12), nn.LSTM(12, 8, direction="bidirect"), nn.Linear(16, 5)

    def forward(self, ids):
        return self.fc(self.rnn(self.emb(ids))[0])


@family("heldout", "13", "15-constants")
def paddle_tagger():
    return Tagger(), {"ids": tokens(50, 9, np.int64)}


class PointNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Conv1D(3, 16, 1), nn.BatchNorm1D(16), nn.ReLU(), nn.Conv1D(16, 24, 1), nn.BatchNorm1D(24), nn.ReLU())
        self.align, self.head = nn.Linear(24, 9), nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, points):
        turn = self.align(self.mlp(points).max(-1)).reshape([-1, 3, 3]) + paddle.eye(3)
        return self.head(self.mlp(paddle.matmul(turn, points)).max(-1))


@family("heldout", "12")
def paddle_pointnet():
    return PointNet(), {"points": floats(3, 20)}


class Swin(nn.Layer):
    """Window attention with a learned bias for each offset."""

    def __init__(self, dim=16):
        super().__init__()
        self.patch, self.norm = nn.Conv2D(3, dim, 4, 4), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.table = self.create_parameter([49, 2], default_initializer=nn.initializer.TruncatedNormal(std=0.5))
        p = np.stack(np.meshgrid(range(4), range(4), indexing="ij")).reshape(2, -1)
        d = p[:, :, None] - p[:, None] + 3
        self.register_buffer("index", paddle.to_tensor((d[0] * 7 + d[1]).reshape(-1)))
        self.mlp, self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, dim)), nn.Linear(dim, 4)

    def forward(self, x):
        h = self.patch(x).flatten(2).transpose([0, 2, 1])
        q, k, v = self.qkv(self.norm(h)).reshape([-1, 16, 3, 2, 8]).transpose([2, 0, 3, 1, 4]).unbind(0)
        bias = paddle.gather(self.table, self.index).reshape([16, 16, 2]).transpose([2, 0, 1])
        a = F.softmax(paddle.matmul(q, k, transpose_y=True) * 8**-0.5 + bias.unsqueeze(0), axis=-1)
        h = h + self.proj(paddle.matmul(a, v).transpose([0, 2, 1, 3]).reshape([-1, 16, 16]))
        return self.head((h + self.mlp(h)).mean(1))


@family("heldout", "13", "15-raw-fresh")
def paddle_swin():
    return Swin(), {"image": floats(3, 16, 16)}


def into_constants(model):
    """Turns every initializer into a Constant node of the same name."""
    graph = model.graph
    nodes = [onnx.helper.make_node("Constant", [], [t.name], value=t) for t in graph.initializer]
    rest = list(graph.node)
    del graph.initializer[:], graph.node[:]
    graph.node.extend(nodes + rest)
    return model


def export(layer, batch, way):
    opset, *options = way.split("-")
    spec = [paddle.static.InputSpec([None, *a.shape[1:]], str(a.dtype), n) for n, a in batch.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        paddle.onnx.export(layer, path, input_spec=spec, opset_version=int(opset), optimize_tool="None" if "raw" in options else "polygraphy")
        model = onnx.load(path + ".onnx")
    return into_constants(model) if "constants" in options else model


def train_a_little(layer, rng):
    for p in layer.parameters():
        if not p.stop_gradient:
            p.set_value(trained_values(p.numpy(), rng))
    for name, b in layer.named_buffers():
        if name.endswith("_mean"):
            b.set_value((0.3 * rng.standard_normal(b.shape)).astype("float32"))
        elif name.endswith("_variance"):
            b.set_value(rng.uniform(0.4, 2.0, b.shape).astype("float32"))


def build(root, only, halves):
    for half, ways, make in FAMILIES:
        for way in ways:
            case = f"{make.__name__}_{way}"
            if half not in halves or only and not any(o in case for o in only):
                continue
            paddle.seed(sum(map(ord, case)))
            rng = np.random.default_rng(sum(map(ord, case)))
            layer, batch = make()
            layer.eval()
            if "fresh" not in way:
                train_a_little(layer, rng)

            def redraw():
                for p in layer.parameters():
                    if not p.stop_gradient:
                        p.set_value(other_values(p.numpy(), rng))

            try:
                write_case(root, half, case, "paddle2onnx", make.__name__, lambda: export(layer, batch, way), redraw, batch)
            except Exception as error:
                print(f"{half}/{case}: no export: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}")
