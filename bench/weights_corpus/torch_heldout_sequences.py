"""Families of the part `heldout` that PyTorch exports: small models of language, sound and series.
They were written before the rules that they measure (see build.py).
"""

import math

import numpy as np
import torch
import transformers
from torch import nn
from torch.nn import functional as F

from torch_exporters import family

BATCH = 4


class Logits(nn.Module):
    """A Hugging Face model as a function of one tensor."""

    def __init__(self, model, field, name):
        super().__init__()
        self.model, self.field, self.name = model, field, name

    def forward(self, x):
        return getattr(self.model(**{self.name: x}, return_dict=True), self.field)


def ids(vocab, length):
    return torch.randint(1, vocab, (BATCH, length))


@family("heldout", "ts14")
def t5_encoder():
    config = transformers.T5Config(vocab_size=60, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, relative_attention_num_buckets=8)
    return Logits(transformers.T5EncoderModel(config), "last_hidden_state", "input_ids"), {"input_ids": ids(60, 9)}


@family("heldout", "ts14-sim dynamo18")
def albert_topics():
    config = transformers.AlbertConfig(
        vocab_size=60, embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=20
    )
    return Logits(transformers.AlbertForSequenceClassification(config), "logits", "input_ids"), {"input_ids": ids(60, 9)}


@family("heldout", "ts14 ts17-slim")
def deberta_tags():
    config = transformers.DebertaV2Config(
        vocab_size=60,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=20,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
        max_relative_positions=10,
    )
    return Logits(transformers.DebertaV2ForTokenClassification(config), "logits", "input_ids"), {"input_ids": ids(60, 9)}


@family("heldout", "ts17 dynamo18")
def wav2vec_ctc():
    config = transformers.Wav2Vec2Config(
        vocab_size=12,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        conv_dim=(8, 8),
        conv_stride=(4, 2),
        conv_kernel=(8, 3),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
    )
    return Logits(transformers.Wav2Vec2ForCTC(config), "logits", "input_values"), {"input_values": torch.randn(BATCH, 320)}


@family("heldout", "ts14-int4 ts17-palette dynamo18")
def electra_pairs():
    config = transformers.ElectraConfig(
        vocab_size=64, embedding_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=16
    )
    return Logits(transformers.ElectraForSequenceClassification(config), "logits", "input_ids"), {"input_ids": ids(64, 9)}


class BitLinear(nn.Linear):
    pass


class BitBlock(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.norm, self.mix, self.up, self.down = nn.RMSNorm(dim), BitLinear(dim, dim, False), BitLinear(dim, 48, False), BitLinear(48, dim, False)

    def forward(self, x):
        h = self.mix(self.norm(x)).cumsum(1)
        return x + self.down(F.relu(self.up(h)).square())


@family("heldout", "dynamo18-ternary")
def bitnet_lm():
    return nn.Sequential(nn.Embedding(50, 32), BitBlock(), BitBlock(), nn.RMSNorm(32), nn.Linear(32, 50, bias=False)), {"ids": ids(50, 8)}


class Rwkv(nn.Module):
    """Time mixing with learned decays, as a matrix of weights between positions."""

    def __init__(self, dim=16):
        super().__init__()
        self.time_decay, self.time_first = nn.Parameter(torch.linspace(-5, 3, dim)), nn.Parameter(torch.full((dim,), math.log(0.3)))
        self.time_mix_k, self.time_mix_v = nn.Parameter(torch.rand(1, 1, dim)), nn.Parameter(torch.rand(1, 1, dim))
        self.key, self.value, self.receptance, self.output = (nn.Linear(dim, dim, False) for _ in range(4))
        self.ln = nn.LayerNorm(dim)

    def forward(self, x):
        h = self.ln(x)
        last = F.pad(h, (0, 0, 1, -1))
        k, v = self.key(h * self.time_mix_k + last * (1 - self.time_mix_k)), self.value(h * self.time_mix_v + last * (1 - self.time_mix_v))
        n = x.shape[1]
        gap = torch.arange(n)[:, None] - torch.arange(n)[None]
        decay = -(gap - 1).clamp(min=0)[..., None] * self.time_decay.exp() + (gap == 0).float()[..., None] * self.time_first
        w = (decay[None] + k[:, None]).masked_fill((gap < 0)[None, :, :, None], -1e9).softmax(2)
        return x + self.output(torch.sigmoid(self.receptance(h)) * (w * v[:, None]).sum(2))


@family("heldout", "ts17 dynamo18")
def rwkv_lm():
    return nn.Sequential(nn.Embedding(50, 16), nn.LayerNorm(16), Rwkv(), Rwkv(), nn.LayerNorm(16), nn.Linear(16, 50)), {"ids": ids(50, 8)}


class Retention(nn.Module):
    def __init__(self, dim=16, heads=2, length=8):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.qkv, self.gate, self.out, self.norm = nn.Linear(dim, 3 * dim, False), nn.Linear(dim, dim), nn.Linear(dim, dim), nn.GroupNorm(heads, dim)
        gamma = 1 - torch.exp(torch.linspace(math.log(1 / 32), math.log(1 / 512), heads))
        gap = torch.arange(length)[:, None] - torch.arange(length)[None]
        self.register_buffer("decay", torch.where(gap >= 0, gamma[:, None, None] ** gap.clamp(min=0), torch.zeros(())))
        angle = 1.0 / 10000 ** torch.linspace(0, 1, dim // heads // 2)
        turn = torch.arange(length)[:, None] * angle.repeat_interleave(2)
        self.register_buffer("turn_cos", turn.cos())
        self.register_buffer("turn_sin", turn.sin())

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (t.reshape(-1, n, self.heads, self.dim // self.heads).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        spin = lambda t: t * self.turn_cos + torch.stack([-t[..., 1::2], t[..., ::2]], -1).flatten(-2) * self.turn_sin  # noqa: E731
        h = (spin(q) @ spin(k).transpose(-1, -2) * self.decay) @ v
        h = self.norm(h.transpose(1, 2).reshape(-1, self.dim)).reshape(-1, n, self.dim)
        return x + self.out(F.silu(self.gate(x)) * h)


@family("heldout", "ts16 dynamo18")
def retnet_lm():
    return nn.Sequential(nn.Embedding(50, 16), Retention(), Retention(), nn.LayerNorm(16), nn.Linear(16, 50)), {"ids": ids(50, 8)}


class Mamba(nn.Module):
    def __init__(self, dim=12, state=4):
        super().__init__()
        self.in_proj, self.conv1d = nn.Linear(dim, 4 * dim, False), nn.Conv1d(2 * dim, 2 * dim, 3, groups=2 * dim, padding=2)
        self.x_proj, self.dt_proj, self.out_proj = nn.Linear(2 * dim, 1 + 2 * state, False), nn.Linear(1, 2 * dim), nn.Linear(2 * dim, dim, False)
        self.A_log, self.D = nn.Parameter(torch.log(torch.arange(1.0, state + 1)).repeat(2 * dim, 1)), nn.Parameter(torch.ones(2 * dim))

    def forward(self, x):
        n = x.shape[1]
        h, z = self.in_proj(x).chunk(2, -1)
        h = F.silu(self.conv1d(h.transpose(1, 2))[..., :n].transpose(1, 2))
        dt, b, c = self.x_proj(h).split([1, 4, 4], -1)
        dt, a = F.softplus(self.dt_proj(dt)), -self.A_log.exp()
        s, ys = 0, []
        for t in range(5):
            s = s * torch.exp(dt[:, t, :, None] * a) + dt[:, t, :, None] * b[:, t, None] * h[:, t, :, None]
            ys.append((s * c[:, t, None]).sum(-1))
        return x + self.out_proj((torch.stack(ys, 1) + self.D * h) * F.silu(z))


@family("heldout", "dynamo18")
def mamba_series():
    return nn.Sequential(nn.Linear(3, 12), Mamba(), nn.RMSNorm(12), nn.Linear(12, 2)), {"x": torch.randn(BATCH, 5, 3)}


class Performer(nn.Module):
    """Linear attention by random orthogonal features."""

    def __init__(self, dim=16, features=24):
        super().__init__()
        blocks = [torch.linalg.qr(torch.randn(dim, dim))[0] for _ in range(2)]
        self.register_buffer("projection", torch.cat(blocks)[:features] * torch.randn(features, dim).norm(dim=1, keepdim=True))
        self.q, self.k, self.v, self.out, self.norm = *(nn.Linear(dim, dim) for _ in range(4)), nn.LayerNorm(dim)

    def phi(self, x):
        p = (x * 16**-0.25) @ self.projection.t()
        return torch.exp(p - (x * x).sum(-1, keepdim=True) / 8 - p.amax(-1, keepdim=True)) + 1e-4

    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.phi(self.q(h)), self.phi(self.k(h)), self.v(h)
        return x + self.out(q @ (k.transpose(1, 2) @ v) / (q @ k.sum(1)[..., None]))


@family("heldout", "ts16 dynamo18")
def performer_proteins():
    return nn.Sequential(nn.Embedding(24, 16), Performer(), nn.LayerNorm(16), nn.Linear(16, 24)), {"ids": ids(24, 10)}


class Snake(nn.Module):
    """x + sin(a x)^2 / b between two fixed Kaiser low-pass filters (BigVGAN)."""

    def __init__(self, channels):
        super().__init__()
        self.channels, self.alpha, self.beta = channels, nn.Parameter(torch.zeros(channels)), nn.Parameter(torch.zeros(channels))
        n = torch.arange(-6, 6) + 0.5
        taps = torch.kaiser_window(12, beta=4.66, periodic=False) * 0.5 * torch.special.sinc(0.5 * n)
        self.register_buffer("up_filter", (taps / taps.sum())[None, None])
        self.register_buffer("down_filter", (taps / taps.sum())[None, None])

    def forward(self, x):
        c = self.channels
        x = 2 * F.conv_transpose1d(F.pad(x, (5, 5), mode="replicate"), self.up_filter.expand(c, -1, -1), stride=2, groups=c)[..., 15:-15]
        x = x + torch.sin(x * self.alpha.exp()[:, None]).square() / (self.beta.exp()[:, None] + 1e-9)
        return F.conv1d(F.pad(x, (5, 6), mode="replicate"), self.down_filter.expand(c, -1, -1), stride=2, groups=c)


@family("heldout", "ts16 dynamo18 ts14-sim")
def bigvgan():
    wn = torch.nn.utils.parametrizations.weight_norm
    return nn.Sequential(
        wn(nn.Conv1d(10, 16, 7, padding=3)),
        wn(nn.ConvTranspose1d(16, 8, 4, 2, 1)),
        Snake(8),
        wn(nn.Conv1d(8, 8, 3, padding=1)),
        Snake(8),
        wn(nn.Conv1d(8, 1, 7, padding=3)),
        nn.Tanh(),
    ), {"mel": torch.randn(BATCH, 10, 16)}


class Leaf(nn.Module):
    """Learned Gabor filters and learned per-channel compression (Zeghidour 2021)."""

    def __init__(self, filters=8, size=33):
        super().__init__()
        self.center = nn.Parameter(torch.linspace(0.1, 2.8, filters) + 0.02 * torch.randn(filters))
        self.bandwidth = nn.Parameter(torch.linspace(2, 6, filters) + 0.1 * torch.randn(filters))
        self.alpha, self.delta, self.root = (nn.Parameter(torch.full((filters,), v)) for v in (0.96, 2.0, 2.0))
        self.register_buffer("t", torch.arange(-(size // 2), size // 2 + 1).float())

    def forward(self, x):
        envelope = torch.exp(-(self.t**2) / (2 * self.bandwidth[:, None] ** 2)) / self.bandwidth[:, None]
        phase = self.center[:, None] * self.t
        h = [F.conv1d(x[:, None], (envelope * f(phase))[:, None], stride=2) for f in (torch.cos, torch.sin)]
        e = F.avg_pool1d(h[0] ** 2 + h[1] ** 2, 8)
        smooth = e.mean(-1, keepdim=True) + 1e-6
        gain = e / smooth ** self.alpha[:, None] + self.delta[:, None]
        return gain ** (1 / self.root[:, None]) - self.delta[:, None] ** (1 / self.root[:, None])


@family("heldout", "ts17 ts17-nofold dynamo18")
def leaf_birds():
    return nn.Sequential(Leaf(), nn.Conv1d(8, 12, 3), nn.BatchNorm1d(12), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(12, 5)), {
        "wave": torch.randn(BATCH, 400)
    }


class CQT(nn.Module):
    def __init__(self, bins=12, size=96):
        super().__init__()
        n = torch.arange(size) - size / 2
        real, imag = torch.zeros(bins, 1, size), torch.zeros(bins, 1, size)
        for k in range(bins):
            f, length = 0.02 * 2 ** (k / 6), int(size / 2 ** (k / 12))
            window = torch.where(n.abs() < length / 2, 0.5 + 0.5 * torch.cos(2 * math.pi * n / length), torch.zeros(())) / length
            real[k, 0], imag[k, 0] = window * torch.cos(2 * math.pi * f * n), window * torch.sin(2 * math.pi * f * n)
        self.register_buffer("cqt_kernels_real", real)
        self.register_buffer("cqt_kernels_imag", imag)
        self.register_buffer("lengths", torch.tensor([float(int(size / 2 ** (k / 12))) for k in range(bins)]))

    def forward(self, x):
        a, b = F.conv1d(x[:, None], self.cqt_kernels_real, stride=16), F.conv1d(x[:, None], self.cqt_kernels_imag, stride=16)
        return torch.log1p(torch.sqrt(a**2 + b**2 + 1e-8) * self.lengths.sqrt()[:, None])


@family("heldout", "ts13 dynamo18 ts17-slim")
def cqt_chords():
    return nn.Sequential(CQT(), nn.InstanceNorm1d(12, affine=True), nn.Conv1d(12, 16, 3, padding=1), nn.GELU(), nn.Conv1d(16, 10, 1)), {
        "wave": torch.randn(BATCH, 320)
    }


class BandPass(nn.Module):
    """EEG: a windowed-sinc band-pass filter for each electrode, then learned temporal and spatial
    convolutions.
    """

    def __init__(self, channels=6, taps=25):
        super().__init__()
        n = np.arange(taps) - taps // 2
        fir = (2 * 0.25 * np.sinc(2 * 0.25 * n) - 2 * 0.03 * np.sinc(2 * 0.03 * n)) * np.hamming(taps)
        self.register_buffer("fir", torch.tensor(fir, dtype=torch.float32).repeat(channels, 1, 1))
        self.channels = channels

    def forward(self, x):
        return F.conv1d(x, self.fir, padding=12, groups=self.channels)[:, None]


@family("heldout", "ts14 dynamo18")
def eeg_filter_net():
    return nn.Sequential(
        BandPass(),
        nn.Conv2d(1, 8, (1, 9), padding=(0, 4), bias=False),
        nn.BatchNorm2d(8),
        nn.Conv2d(8, 16, (6, 1), groups=8, bias=False),
        nn.BatchNorm2d(16),
        nn.ELU(),
        nn.AvgPool2d((1, 8)),
        nn.Flatten(),
        nn.Linear(128, 2),
    ), {"eeg": torch.randn(BATCH, 6, 64)}


class Prophet(nn.Module):
    """A forecast: a trend with changepoints, Fourier seasonality and autoregression. The grids are fixed, the
    coefficients are learned.
    """

    def __init__(self):
        super().__init__()
        self.k0, self.m0, self.deltas = nn.Parameter(torch.randn(1)), nn.Parameter(torch.randn(1)), nn.Parameter(0.1 * torch.randn(7))
        self.register_buffer("changepoints_t", torch.linspace(0, 0.8, 8)[1:])
        self.register_buffer("periods", 2 * math.pi * torch.tensor([1.0, 2.0, 3.0, 4.0]) / 0.25)
        self.season_coef, self.ar = nn.Parameter(0.3 * torch.randn(8)), nn.Linear(10, 1, bias=False)
        self.register_buffer("shift", torch.tensor(213.37))
        self.register_buffer("scale", torch.tensor(58.91))

    def forward(self, t, history):
        past = (t > self.changepoints_t).float()
        trend = (self.k0 + (past * self.deltas).sum(-1, keepdim=True)) * t + self.m0 - (past * self.deltas * self.changepoints_t).sum(-1, keepdim=True)
        angle = t * self.periods
        season = (torch.cat([angle.sin(), angle.cos()], -1) * self.season_coef).sum(-1, keepdim=True)
        return (trend + season + self.ar((history - self.shift) / self.scale)) * self.scale + self.shift


@family("heldout", "ts16 dynamo18")
def neural_prophet():
    return Prophet(), {"t": torch.rand(BATCH, 1), "history": 200 + 50 * torch.randn(BATCH, 10)}


class LMU(nn.Module):
    """Legendre memory: fixed state matrices, learned encoders."""

    def __init__(self, order=6, hidden=10):
        super().__init__()
        q = np.arange(order)
        r = (2 * q + 1)[:, None] / 8.0
        a = np.where(q[:, None] < q[None], -1.0, (-1.0) ** (q[:, None] - q[None] + 1)) * r
        b = ((-1.0) ** q)[:, None] * r
        step = torch.matrix_exp(torch.tensor(a))
        self.register_buffer("A", step.float())
        self.register_buffer("B", torch.linalg.solve(torch.tensor(a), (step - torch.eye(order)) @ torch.tensor(b)).float())
        self.e_x, self.e_h, self.cell, self.out = nn.Linear(3, 1, False), nn.Linear(hidden, 1, False), nn.Linear(3 + order + hidden, hidden), nn.Linear(hidden, 4)
        self.order, self.hidden = order, hidden

    def forward(self, x):
        m, h = torch.zeros(x.shape[0], self.order), torch.zeros(x.shape[0], self.hidden)
        for t in range(5):
            u = self.e_x(x[:, t]) + self.e_h(h)
            m = m @ self.A.T + u @ self.B.T
            h = torch.tanh(self.cell(torch.cat([x[:, t], m, h], -1)))
        return self.out(h)


@family("heldout", "ts14 dynamo18")
def lmu_digits():
    return LMU(), {"x": torch.randn(BATCH, 5, 3)}
