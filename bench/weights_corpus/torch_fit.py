"""Families of the part `fit` that PyTorch exports: small versions of known architectures, with
buffers where other modules have weights.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_exporters import family

BATCH = 4


def mel_filters(bins, mels, rate=8000):
    """Returns triangular filters, HTK scale, as torchaudio and librosa make them: (bins, mels)."""
    to_mel = lambda f: 2595 * math.log10(1 + f / 700)  # noqa: E731
    points = torch.linspace(to_mel(0), to_mel(rate / 2), mels + 2)
    hz = 700 * (10 ** (points / 2595) - 1)
    freqs = torch.linspace(0, rate / 2, bins)
    slopes = hz[None] - freqs[:, None]
    down, up = -slopes[:, :-2] / (hz[1:-1] - hz[:-2]), slopes[:, 2:] / (hz[2:] - hz[1:-1])
    return torch.clamp(torch.minimum(down, up), min=0)


class STFT(nn.Module):
    """Short-time Fourier transform as a convolution with windowed sines and cosines (as
    torchlibrosa, TTS front ends).
    """

    def __init__(self, n_fft=64, hop=32):
        super().__init__()
        n = torch.arange(n_fft)
        k = torch.arange(n_fft // 2 + 1)[:, None]
        window = torch.hann_window(n_fft)
        basis = torch.cat([torch.cos(2 * math.pi * k * n / n_fft), -torch.sin(2 * math.pi * k * n / n_fft)]) * window
        self.register_buffer("forward_basis", basis[:, None])
        self.hop = hop

    def forward(self, x):
        re, im = F.conv1d(x[:, None], self.forward_basis, stride=self.hop).chunk(2, 1)
        return re**2 + im**2


class MelCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.stft = STFT()
        self.register_buffer("fb", mel_filters(33, 16))
        self.register_buffer("mean", torch.randn(16) - 4)
        self.register_buffer("std", torch.rand(16) + 1)
        self.conv1 = nn.Conv1d(16, 24, 3, padding=1)
        self.bn1 = nn.BatchNorm1d(24)
        self.conv2 = nn.Conv1d(24, 24, 3, padding=1)
        self.bn2 = nn.BatchNorm1d(24)
        self.fc = nn.Linear(24, 5)

    def forward(self, x):
        mel = torch.log(self.stft(x).transpose(1, 2) @ self.fb + 1e-6)
        h = ((mel - self.mean) / self.std).transpose(1, 2)
        h = F.relu(self.bn1(self.conv1(h)))
        h = F.relu(self.bn2(self.conv2(h)))
        return self.fc(h.mean(-1))


@family("fit", "ts13 ts17-nofold dynamo18 ts14-sim")
def mel_cnn():
    return MelCNN(), {"wave": torch.randn(BATCH, 512)}


class VQ(nn.Module):
    """Vector quantizer: returns the code that is nearest to each input. The codebook is a buffer if
    it is updated by moving averages, and a parameter otherwise.
    """

    def __init__(self, codes, dim, ema):
        super().__init__()
        table = torch.randn(codes, dim)
        if ema:
            self.register_buffer("embed", table)
            self.register_buffer("cluster_size", torch.rand(codes) * 10)
            self.register_buffer("embed_avg", table.clone() * 10)
        else:
            self.embed = nn.Parameter(table)

    def forward(self, z):
        d = (z**2).sum(-1, keepdim=True) - 2 * z @ self.embed.t() + (self.embed**2).sum(-1)
        return F.embedding(d.argmin(-1), self.embed)


class VQVAE(nn.Module):
    def __init__(self, ema):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 8, 3, 1, 1))
        self.quantize = VQ(32, 8, ema)
        self.dec = nn.Sequential(nn.Conv2d(8, 16, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1))

    def forward(self, x):
        q = self.quantize(self.enc(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.dec(q)


CODEBOOK = "an EMA codebook and a trained one give the same file, and training it by the loss is right in both"


@family("fit", "ts15 dynamo18", [("*quantize.embed", CODEBOOK), ("onnx::MatMul*", CODEBOOK), ("onnx::Add*", CODEBOOK), ("val_*", CODEBOOK)])
def vqvae_ema():
    return VQVAE(True), {"x": torch.randn(BATCH, 3, 16, 16)}


@family("fit", "ts15 ts16-fresh")
def vqvae_learned():
    return VQVAE(False), {"x": torch.randn(BATCH, 3, 16, 16)}


@family("fit", "ts13 ts17-nofold dynamo18")
def spectral_discriminator():
    sn = torch.nn.utils.spectral_norm
    m = nn.Sequential(
        sn(nn.Conv2d(3, 16, 4, 2, 1)), nn.LeakyReLU(0.2), sn(nn.Conv2d(16, 32, 4, 2, 1)), nn.LeakyReLU(0.2), nn.Flatten(), sn(nn.Linear(32 * 16, 1))
    )
    m.train()
    for _ in range(3):
        m(torch.randn(2, 3, 16, 16))
    return m, {"image": torch.randn(BATCH, 3, 16, 16)}


class GCN(nn.Module):
    """Graph convolution on one fixed graph: the normalized adjacency matrix is a buffer."""

    def __init__(self, nodes=12, cin=3, hidden=16, out=2):
        super().__init__()
        a = (torch.rand(nodes, nodes) < 0.3).float()
        a = ((a + a.t()) > 0).float() + torch.eye(nodes)
        a.clamp_(max=1)
        d = a.sum(1).rsqrt()
        self.register_buffer("adj", d[:, None] * a * d)
        self.w1 = nn.Linear(cin, hidden)
        self.w2 = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, out)

    def forward(self, x):
        x = F.relu(self.adj @ self.w1(x))
        return self.head(F.relu(torch.einsum("nm,bmc->bnc", self.adj, self.w2(x))))


@family("fit", "ts13 ts16-nofold dynamo18 ts17-slim")
def traffic_gcn():
    return GCN(), {"x": torch.randn(BATCH, 12, 3)}


class RotaryAttention(nn.Module):
    def __init__(self, dim, heads, length):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.v_proj, self.o_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        inv = 1 / 10000 ** (torch.arange(0, dim // heads, 2) / (dim // heads))
        angles = torch.arange(length)[:, None] * inv
        self.register_buffer("cos_cached", torch.cat([angles, angles], -1).cos(), persistent=False)
        self.register_buffer("sin_cached", torch.cat([angles, angles], -1).sin(), persistent=False)
        self.register_buffer("causal_mask", torch.full((length, length), float("-inf")).triu(1), persistent=False)

    def rotate(self, x):
        a, b = x.chunk(2, -1)
        n = x.shape[2]
        return x * self.cos_cached[:n] + torch.cat([-b, a], -1) * self.sin_cached[:n]

    def forward(self, x):
        b, n, d = x.shape
        split = lambda t: t.view(b, n, self.heads, d // self.heads).transpose(1, 2)  # noqa: E731
        q, k, v = self.rotate(split(self.q_proj(x))), self.rotate(split(self.k_proj(x))), split(self.v_proj(x))
        p = (q @ k.transpose(-1, -2) / math.sqrt(d // self.heads) + self.causal_mask[:n, :n]).softmax(-1)
        return self.o_proj((p @ v).transpose(1, 2).reshape(b, n, d))


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Llama(nn.Module):
    def __init__(self, dim=32, vocab=60, length=12, layers=2):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList()
        for _ in range(layers):
            self.layers.append(
                nn.ModuleDict(
                    {
                        "input_layernorm": RMSNorm(dim),
                        "self_attn": RotaryAttention(dim, 4, length),
                        "post_attention_layernorm": RMSNorm(dim),
                        "gate_proj": nn.Linear(dim, 48, bias=False),
                        "up_proj": nn.Linear(dim, 48, bias=False),
                        "down_proj": nn.Linear(48, dim, bias=False),
                    }
                )
            )
        self.norm = RMSNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        for l in self.layers:
            x = x + l["self_attn"](l["input_layernorm"](x))
            h = l["post_attention_layernorm"](x)
            x = x + l["down_proj"](F.silu(l["gate_proj"](h)) * l["up_proj"](h))
        return self.lm_head(self.norm(x))


@family("fit", "ts14 ts17-nofold-fresh dynamo18 dynamo20-plain ts14-sim")
def llama_rotary():
    return Llama(), {"input_ids": torch.randint(0, 60, (BATCH, 12))}


class BlurPool(nn.Module):
    """Anti-aliased downsampling (Zhang 2019): a depthwise convolution with a fixed binomial
    filter.
    """

    def __init__(self, channels):
        super().__init__()
        a = torch.tensor([1.0, 3.0, 3.0, 1.0])
        filt = a[:, None] * a
        self.register_buffer("filt", (filt / filt.sum())[None, None].repeat(channels, 1, 1, 1))
        self.channels = channels

    def forward(self, x):
        return F.conv2d(F.pad(x, (1, 2, 1, 2), "reflect"), self.filt, stride=2, groups=self.channels)


@family("fit", "ts13 dynamo18 ts17-nofold ts17-sim")
def antialiased_cnn():
    block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), BlurPool(o))  # noqa: E731
    return nn.Sequential(block(3, 12), block(12, 24), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 6)), {
        "image": torch.randn(BATCH, 3, 16, 16)
    }


class Scaled(nn.Module):
    """Tabular regression with the scalers of the data inside: standardized inputs, target in its
    own unit.
    """

    def __init__(self):
        super().__init__()
        self.register_buffer("x_mean", torch.randn(7) * 20)
        self.register_buffer("x_scale", torch.rand(7) * 9 + 1)
        self.register_buffer("y_mean", torch.tensor([153.2, 0.71]))
        self.register_buffer("y_std", torch.tensor([77.3, 0.11]))
        self.net = nn.Sequential(nn.Linear(7, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 2))

    def forward(self, x):
        return self.net((x - self.x_mean) / self.x_scale) * self.y_std + self.y_mean


@family("fit", "ts13 dynamo18 ts16-slim")
def scaled_regressor():
    return Scaled(), {"x": torch.randn(BATCH, 7)}


class LayerNormChannels(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c))

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        return self.weight[:, None, None] * ((x - u) / torch.sqrt(s + 1e-6)) + self.bias[:, None, None]


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(1e-6 * torch.ones(dim))

    def forward(self, x):
        h = self.dwconv(x).permute(0, 2, 3, 1)
        h = self.gamma * self.pwconv2(F.gelu(self.pwconv1(self.norm(h))))
        return x + h.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 4, 4), LayerNormChannels(16))
        self.stage = nn.Sequential(ConvNeXtBlock(16), ConvNeXtBlock(16))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.norm(self.stage(self.stem(x)).mean((2, 3))))


@family("fit", "ts14 ts17-fresh dynamo18 dynamo18-fresh ts13-sim")
def convnext_layer_scale():
    return ConvNeXt(), {"image": torch.randn(BATCH, 3, 32, 32)}
