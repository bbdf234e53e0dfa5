"""Further families of the part `fit` that PyTorch exports, most of them on images: small versions
of known architectures, as in torch_fit.py.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_exporters import family

BATCH = 4


class Gabor(nn.Module):
    """A bank of fixed Gabor filters in front of a trained classifier."""

    def __init__(self, orientations=6, size=7):
        super().__init__()
        y, x = torch.meshgrid(*[torch.arange(size) - size // 2.0] * 2, indexing="ij")
        bank = []
        for k in range(orientations):
            t = math.pi * k / orientations
            a, b = x * math.cos(t) + y * math.sin(t), y * math.cos(t) - x * math.sin(t)
            bank.append(torch.exp(-(a**2 + 0.25 * b**2) / 8) * torch.cos(2 * math.pi * a / 4))
        self.register_buffer("gabor", torch.stack(bank)[:, None])
        self.register_buffer("gray", torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1))
        self.conv, self.bn, self.fc = nn.Conv2d(orientations, 12, 3), nn.BatchNorm2d(12), nn.Linear(12, 4)

    def forward(self, x):
        h = F.conv2d(F.conv2d(x, self.gray), self.gabor, padding=3).abs()
        return self.fc(F.relu(self.bn(self.conv(h))).mean((2, 3)))


@family("fit", "ts13 ts16-nofold dynamo18")
def gabor_textures():
    return Gabor(), {"image": torch.rand(BATCH, 3, 14, 14)}


class FrozenBatchNorm2d(nn.Module):
    """Frozen BatchNorm as in torchvision's detectors: scale, offset and statistics are buffers."""

    def __init__(self, n):
        super().__init__()
        self.register_buffer("weight", 1 + 0.2 * torch.randn(n))
        self.register_buffer("bias", 0.1 * torch.randn(n))
        self.register_buffer("running_mean", 0.3 * torch.randn(n))
        self.register_buffer("running_var", torch.rand(n) + 0.5)

    def forward(self, x):
        scale = self.weight.reshape(1, -1, 1, 1) * (self.running_var.reshape(1, -1, 1, 1) + 1e-5).rsqrt()
        return x * scale + (self.bias.reshape(1, -1, 1, 1) - self.running_mean.reshape(1, -1, 1, 1) * scale)


class Retina(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 12, 3, 2, 1, bias=False), FrozenBatchNorm2d(12)
        self.conv2, self.bn2 = nn.Conv2d(12, 12, 3, 2, 1, bias=False), FrozenBatchNorm2d(12)
        self.cls, self.reg = nn.Conv2d(12, 6, 3, padding=1), nn.Conv2d(12, 8, 3, padding=1)
        s = torch.arange(4) * 4 + 2.0
        y, x = torch.meshgrid(s, s, indexing="ij")
        c = torch.stack([x, y, x, y], -1).view(16, 1, 4)
        self.register_buffer("cell_anchors", (c + torch.tensor([[-4.0, -4, 4, 4], [-5.6, -2.8, 5.6, 2.8]])).view(32, 4))

    def forward(self, x):
        h = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        d = self.reg(h).permute(0, 2, 3, 1).reshape(-1, 32, 4)
        w, c = self.cell_anchors[:, 2:] - self.cell_anchors[:, :2], (self.cell_anchors[:, 2:] + self.cell_anchors[:, :2]) / 2
        xy, wh = c + d[..., :2] * w, w * d[..., 2:].clamp(max=4.1).exp()
        return torch.cat([xy - wh / 2, xy + wh / 2, self.cls(h).permute(0, 2, 3, 1).reshape(-1, 32, 3).sigmoid()], -1)


@family(
    "fit",
    "ts13 ts17-nofold dynamo18",
    [("*bn?.weight", "a frozen norm's scale: trained before, fixed by choice"), ("*bn?.bias", "a frozen norm's offset: likewise")],
)
def frozen_norm_retina():
    return Retina(), {"image": torch.randn(BATCH, 3, 16, 16)}


class Diffusion(nn.Module):
    """Noise prediction with a sinusoidal embedding of the step, residual gates that start at zero,
    noise schedule tables.
    """

    def __init__(self, c=12):
        super().__init__()
        self.register_buffer("freqs", torch.exp(-math.log(10000) * torch.arange(8) / 8))
        betas = torch.linspace(1e-4, 0.02, 50)
        self.register_buffer("sqrt_alphas_cumprod", torch.cumprod(1 - betas, 0).sqrt())
        self.time, self.inp = nn.Sequential(nn.Linear(16, 24), nn.SiLU(), nn.Linear(24, c)), nn.Conv2d(3, c, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(3, c) for _ in range(2)])
        self.convs = nn.ModuleList([nn.Conv2d(c, c, 3, padding=1) for _ in range(2)])
        self.gate, self.out = nn.ParameterList([nn.Parameter(torch.zeros(1)) for _ in range(2)]), nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x, t):
        a = t.float()[:, None] * self.freqs
        e = self.time(torch.cat([a.cos(), a.sin()], -1))[:, :, None, None]
        h = self.inp(x)
        for n, conv, g in zip(self.norms, self.convs, self.gate):
            h = h + g * conv(F.silu(n(h + e)))
        return self.out(h) * self.sqrt_alphas_cumprod[t][:, None, None, None]


@family("fit", "ts16 dynamo18 ts17-fresh ts14-slim")
def diffusion_unet():
    return Diffusion(), {"x": torch.randn(BATCH, 3, 8, 8), "t": torch.randint(0, 50, (BATCH,))}


class StandardizedConv(nn.Conv2d):
    def forward(self, x):
        w = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return F.conv2d(x, w / (w.std((1, 2, 3), keepdim=True, unbiased=False) + 1e-5), self.bias, self.stride, self.padding)


@family("fit", "ts14 ts17-nofold dynamo18")
def weight_standardization():
    return nn.Sequential(
        StandardizedConv(3, 8, 3, 2, 1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        StandardizedConv(8, 12, 3, 2, 1),
        nn.GroupNorm(3, 12),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(192, 5),
    ), {"image": torch.randn(BATCH, 3, 16, 16)}


class Whitened(nn.Module):
    """Whitens inputs by a fixed matrix and returns their distances to trained centers in the
    whitened space.
    """

    def __init__(self, n=8, k=6):
        super().__init__()
        q, _ = torch.linalg.qr(torch.randn(n, n))
        self.register_buffer("center", torch.randn(n) * 3)
        self.register_buffer("zca", q @ torch.diag(torch.rand(n) + 0.5) @ q.t())
        self.means, self.log_var, self.logits = nn.Parameter(torch.randn(k, n)), nn.Parameter(torch.zeros(k, n)), nn.Parameter(torch.zeros(k))

    def forward(self, x):
        z = (x - self.center) @ self.zca
        d = ((z[:, None] - self.means) ** 2 * torch.exp(-self.log_var)).sum(-1) + self.log_var.sum(-1)
        return self.logits.log_softmax(0) - 0.5 * d


@family("fit", "ts13 dynamo18 ts16-sim")
def whitened_mixture():
    return Whitened(), {"x": torch.randn(BATCH, 8) * 2 + 1}


class Gpt2(nn.Module):
    def __init__(self, dim=24, heads=2, length=10, vocab=50):
        super().__init__()
        self.wte, self.wpe, self.ln_f, self.heads = nn.Embedding(vocab, dim), nn.Embedding(length, dim), nn.LayerNorm(dim), heads
        self.h = nn.ModuleList()
        for _ in range(2):
            self.h.append(
                nn.ModuleDict(
                    {
                        "ln_1": nn.LayerNorm(dim),
                        "c_attn": nn.Linear(dim, 3 * dim),
                        "c_proj": nn.Linear(dim, dim),
                        "ln_2": nn.LayerNorm(dim),
                        "c_fc": nn.Linear(dim, 48),
                        "mlp_proj": nn.Linear(48, dim),
                    }
                )
            )
        self.register_buffer("bias", torch.ones(length, length).tril().view(1, 1, length, length))
        self.register_buffer("masked_bias", torch.tensor(-1e4))

    def forward(self, ids):
        b, n = ids.shape
        h = self.wte(ids) + self.wpe(torch.arange(10))
        for l in self.h:
            q, k, v = l["c_attn"](l["ln_1"](h)).view(b, n, 3, self.heads, 12).permute(2, 0, 3, 1, 4)
            s = q @ k.transpose(-1, -2) / math.sqrt(12)
            s = s * self.bias + self.masked_bias * (1 - self.bias)
            h = h + l["c_proj"]((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, 24))
            h = h + l["mlp_proj"](F.gelu(l["c_fc"](l["ln_2"](h)), approximate="tanh"))
        return self.ln_f(h) @ self.wte.weight.t()


@family("fit", "ts13 dynamo18 ts17-nofold-fresh")
def gpt2_mask():
    return Gpt2(), {"ids": torch.randint(0, 50, (BATCH, 10))}


class Speaker(nn.Module):
    """Classifies speakers: pre-emphasis, a convolution with a fixed gammatone-like filter bank and statistics pooling
    give a vector that is compared with class centers by cosine distance.
    """

    def __init__(self, channels=12, size=33):
        super().__init__()
        t = torch.arange(size) / 8000
        fc = torch.logspace(2, 3.5, channels)[:, None]
        g = t**3 * torch.exp(-2 * math.pi * 0.1 * fc * t) * torch.cos(2 * math.pi * fc * t)
        self.register_buffer("preemphasis", torch.tensor([[[-0.97, 1.0]]]))
        self.register_buffer("gammatone", (g / g.abs().sum(1, keepdim=True))[:, None])
        self.conv, self.bn, self.fc = nn.Conv1d(channels, 16, 5, 2), nn.BatchNorm1d(16), nn.Linear(32, 10)
        self.speakers, self.scale = nn.Parameter(torch.randn(6, 10)), nn.Parameter(torch.tensor(10.0))

    def forward(self, x):
        h = F.conv1d(F.conv1d(x[:, None], self.preemphasis), self.gammatone, stride=4).abs().add(1e-5).log()
        h = F.relu(self.bn(self.conv(h)))
        h = self.fc(torch.cat([h.mean(-1), h.std(-1)], -1))
        return self.scale * F.normalize(h) @ F.normalize(self.speakers).t()


@family("fit", "ts14 dynamo18 ts17-nofold")
def gammatone_speakers():
    return Speaker(), {"wave": torch.randn(BATCH, 400)}
