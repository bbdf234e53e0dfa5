"""Families of models of the part `unseen` that PaddlePaddle exports. Like those of
torch_unseen_libraries.py, they were written before the rules that they measure."""

import math

import numpy as np
import paddle
from paddle import nn

from common import floats, tokens
from paddle_exporter import F, family


class ConvBNLayer(nn.Layer):
    def __init__(self, i, o, k, stride=1, groups=1):
        super().__init__()
        self.conv, self.bn = nn.Conv2D(i, o, k, stride, k // 2, groups=groups, bias_attr=False), nn.BatchNorm2D(o)

    def forward(self, x):
        return F.hardswish(self.bn(self.conv(x)))


class LearnableAffine(nn.Layer):
    """PP-HGNet: one scale and one shift for a whole layer."""

    def __init__(self):
        super().__init__()
        self.scale = self.create_parameter([1], default_initializer=nn.initializer.Constant(1.0))
        self.bias = self.create_parameter([1], default_initializer=nn.initializer.Constant(0.0))

    def forward(self, x):
        return self.scale * x + self.bias


class HgNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem, self.lab = ConvBNLayer(3, 8, 3, 2), LearnableAffine()
        self.light, self.squeeze = nn.LayerList([ConvBNLayer(8, 8, 5, groups=8) for _ in range(2)]), ConvBNLayer(24, 12, 1)
        self.fc = nn.Linear(12, 5)

    def forward(self, x):
        parts = [self.lab(self.stem(x))]
        for layer in self.light:
            parts.append(layer(parts[-1]))
        return self.fc(self.squeeze(paddle.concat(parts, 1)).mean([2, 3]))


@family("unseen", "13", "15-constants", "12-raw-fresh")
def paddle_hgnet():
    return HgNet(), {"image": floats(3, 16, 16)}


class Svtr(nn.Layer):
    """Text recognition: learned positions, global mixing with a local mask, CTC head."""

    def __init__(self, dim=16, w=12):
        super().__init__()
        self.patch, self.pos = nn.Conv2D(1, dim, (8, 4), (8, 4)), self.create_parameter([1, w, dim], default_initializer=nn.initializer.TruncatedNormal(std=0.02))
        i = np.arange(w)
        self.mask = paddle.to_tensor(np.where(np.abs(i[:, None] - i) <= 2, 0.0, -1e9).astype("float32")[None, None])
        self.norm1, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norm2, self.fc1, self.fc2, self.head = nn.LayerNorm(dim), nn.Linear(dim, 32), nn.Linear(32, dim), nn.Linear(dim, 20)

    def forward(self, x):
        h = self.patch(x).flatten(2).transpose([0, 2, 1]) + self.pos
        q, k, v = self.qkv(self.norm1(h)).reshape([0, 12, 3, 2, 8]).transpose([2, 0, 3, 1, 4])
        a = F.softmax(q.matmul(k, transpose_y=True) * 8**-0.5 + self.mask, -1).matmul(v)
        h = h + self.proj(a.transpose([0, 2, 1, 3]).reshape([0, 12, 16]))
        return self.head(h + self.fc2(F.gelu(self.fc1(self.norm2(h)))))


@family("unseen", "13", "14-constants")
def paddle_svtr():
    return Svtr(), {"line": floats(1, 8, 48)}


class Rotary(nn.Layer):
    """A language model whose rotary tables and causal mask are made in forward."""

    def __init__(self, dim=16, vocab=50):
        super().__init__()
        self.embed, self.q, self.k, self.v, self.o = nn.Embedding(vocab, dim), *(nn.Linear(dim, dim, bias_attr=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(dim, 24, bias_attr=False), nn.Linear(dim, 24, bias_attr=False), nn.Linear(24, dim, bias_attr=False)
        self.weight = self.create_parameter([dim], default_initializer=nn.initializer.Constant(1.0))
        inv = 1 / 10000 ** (np.arange(0, 8, 2) / 8)
        angle = np.arange(9)[:, None] * np.concatenate([inv, inv])
        self.cos, self.sin = (paddle.to_tensor(f(angle).astype("float32")) for f in (np.cos, np.sin))
        self.mask = paddle.to_tensor(np.triu(np.full((9, 9), -1e4, "float32"), 1))

    def forward(self, ids):
        h = self.embed(ids)
        n = h * paddle.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6) * self.weight
        heads = lambda t: t.reshape([0, 9, 2, 8]).transpose([0, 2, 1, 3])  # noqa: E731
        turn = lambda t: t * self.cos + paddle.concat([-t[..., 4:], t[..., :4]], -1) * self.sin  # noqa: E731
        q, k, v = turn(heads(self.q(n))), turn(heads(self.k(n))), heads(self.v(n))
        a = F.softmax(q.matmul(k, transpose_y=True) / math.sqrt(8) + self.mask, -1).matmul(v)
        h = h + self.o(a.transpose([0, 2, 1, 3]).reshape([0, 9, 16]))
        h = h + self.down(F.silu(self.gate(h)) * self.up(h))
        return h.matmul(self.embed.weight, transpose_y=True)


@family("unseen", "14", "15-raw")
def paddle_rotary_lm():
    return Rotary(), {"ids": tokens(50, 9, np.int64)}
