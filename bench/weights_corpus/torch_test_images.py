"""Families of the part `test` that PyTorch exports: detection, colors, prototypes, generators,
windows of images. They are small versions of known architectures, as in torch_fit.py.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_exporters import family

BATCH = 4


class Detector(nn.Module):
    """YOLOv8's head: box distances by an expectation over fixed bins (a frozen 1x1 convolution),
    anchor points, strides.
    """

    def __init__(self, bins=8, classes=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, 4, 1, bias=False), nn.BatchNorm2d(12), nn.SiLU())
        self.box, self.cls = nn.Conv2d(12, 4 * bins, 1), nn.Conv2d(12, classes, 1)
        self.dfl = nn.Conv2d(bins, 1, 1, bias=False).requires_grad_(False)
        self.dfl.weight.data[:] = torch.arange(bins).float().view(1, bins, 1, 1)
        y, x = torch.meshgrid(torch.arange(4) + 0.5, torch.arange(4) + 0.5, indexing="ij")
        self.register_buffer("anchors", torch.stack([x.flatten(), y.flatten()])[None])
        self.register_buffer("strides", torch.full((1, 1, 16), 4.0))
        self.bins = bins

    def forward(self, x):
        h = self.stem(x)
        d = self.box(h).view(-1, 4, self.bins, 16).transpose(1, 2).softmax(1)
        lt, rb = self.dfl(d).view(-1, 4, 16).chunk(2, 1)
        a, b = self.anchors - lt, self.anchors + rb
        boxes = torch.cat([(a + b) / 2, b - a], 1) * self.strides
        return torch.cat([boxes, self.cls(h).flatten(2).sigmoid()], 1)


@family("test", "ts12 dynamo18 ts16-slim")
def anchor_detector():
    return Detector(), {"image": torch.randn(BATCH, 3, 16, 16)}


class SSD(nn.Module):
    """Offsets to fixed prior boxes, scaled by variances."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU())
        self.loc, self.conf = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(16, 6, 3, padding=1)
        c = (torch.arange(4) + 0.5) / 4
        cy, cx = torch.meshgrid(c, c, indexing="ij")
        centers = torch.stack([cx, cy], -1).reshape(16, 1, 2).expand(16, 2, 2)
        sizes = torch.tensor([[0.3, 0.3], [0.42, 0.21]]).expand(16, 2, 2)
        self.register_buffer("priors", torch.cat([centers, sizes], -1).reshape(32, 4))
        self.l2 = nn.Parameter(torch.full((16,), 20.0))

    def forward(self, x):
        h = self.body(x)
        h = self.l2[:, None, None] * h / (h.pow(2).sum(1, keepdim=True).sqrt() + 1e-10)
        loc = self.loc(h).permute(0, 2, 3, 1).reshape(-1, 32, 4)
        conf = self.conf(h).permute(0, 2, 3, 1).reshape(-1, 32, 3).softmax(-1)
        xy = self.priors[:, :2] + loc[..., :2] * 0.1 * self.priors[:, 2:]
        wh = self.priors[:, 2:] * torch.exp(loc[..., 2:] * 0.2)
        return torch.cat([xy - wh / 2, xy + wh / 2, conf], -1)


@family("test", "ts13 dynamo18 ts17-nofold")
def prior_box_ssd():
    return SSD(), {"image": torch.randn(BATCH, 3, 16, 16)}


class ColorEdges(nn.Module):
    """RGB to YCbCr and edges by Sobel and a Gaussian, then a trained network."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None])
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225])[:, None, None])
        self.register_buffer("ycc", torch.tensor([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])[..., None, None])
        sx = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
        self.register_buffer("sobel", torch.stack([sx, sx.t()])[:, None])
        g = torch.exp(-((torch.arange(5) - 2.0) ** 2) / 2)
        self.register_buffer("gauss", (g[:, None] * g / g.sum() ** 2)[None, None].repeat(3, 1, 1, 1))
        self.conv1, self.bn, self.conv2, self.fc = nn.Conv2d(5, 12, 3), nn.BatchNorm2d(12), nn.Conv2d(12, 12, 3), nn.Linear(12, 4)

    def forward(self, x):
        x = F.conv2d((x - self.mean) / self.std, self.ycc)
        x = F.conv2d(x, self.gauss, padding=2, groups=3)
        h = torch.cat([x, F.conv2d(x[:, :1], self.sobel, padding=1)], 1)
        h = F.relu(self.conv2(F.relu(self.bn(self.conv1(h)))))
        return self.fc(h.amax((2, 3)))


@family("test", "ts15 ts17-slim dynamo18 ts16-nofold")
def color_edges():
    return ColorEdges(), {"image": torch.rand(BATCH, 3, 14, 14)}


class StyleBlock(nn.Module):
    def __init__(self, c, size, style):
        super().__init__()
        self.affine, self.weight, self.bias = nn.Linear(style, c), nn.Parameter(torch.randn(c, c, 3, 3)), nn.Parameter(torch.zeros(c))
        self.noise_strength = nn.Parameter(torch.zeros([]))
        self.register_buffer("noise_const", torch.randn(size, size))

    def forward(self, x, w):
        s = self.affine(w)
        d = torch.rsqrt(((self.weight[None] * s[:, None, :, None, None]) ** 2).sum((2, 3, 4)) + 1e-8)
        x = F.conv2d(x * s[..., None, None], self.weight, padding=1) * d[..., None, None]
        return F.leaky_relu(x + self.noise_const * self.noise_strength + self.bias[:, None, None], 0.2) * math.sqrt(2)


class StyleGAN(nn.Module):
    def __init__(self, z=8, c=8):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(z, z), nn.LeakyReLU(0.2), nn.Linear(z, z))
        self.register_buffer("w_avg", torch.randn(z) * 0.1)
        self.const, self.b4, self.b8 = nn.Parameter(torch.randn(c, 4, 4)), StyleBlock(c, 4, z), StyleBlock(c, 8, z)
        self.torgb = nn.Conv2d(c, 3, 1)

    def forward(self, z):
        w = self.mapping(z * torch.rsqrt((z**2).mean(1, keepdim=True) + 1e-8))
        w = self.w_avg.lerp(w, 0.7) if False else self.w_avg + 0.7 * (w - self.w_avg)
        x = self.b4(self.const.expand(z.shape[0], -1, -1, -1), w)
        return self.torgb(self.b8(F.interpolate(x, scale_factor=2.0, mode="nearest"), w))


@family("test", "ts17 dynamo18 ts14-nofold")
def style_generator():
    return StyleGAN(), {"z": torch.randn(BATCH, 8)}


class CosineHead(nn.Module):
    """ArcFace's classifier on a small image encoder with GeM pooling and a trained temperature."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.PReLU(16)
        self.p, self.logit_scale = nn.Parameter(torch.ones(1) * 3), nn.Parameter(torch.tensor(2.66))
        self.fc, self.weight = nn.Linear(16, 12), nn.Parameter(torch.randn(7, 12) * 0.2)

    def forward(self, x):
        h = self.act(self.bn(self.conv(x))).abs().clamp(min=1e-6).pow(self.p).mean((2, 3)).pow(1 / self.p)
        return self.logit_scale.exp() * F.linear(F.normalize(self.fc(h)), F.normalize(self.weight))


@family("test", "ts16 dynamo18 ts13-sim")
def arcface():
    return CosineHead(), {"image": torch.randn(BATCH, 3, 12, 12)}


class ProtoNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3, 2, 1), nn.ReLU())
        self.prototypes, self.temperature = nn.Parameter(torch.rand(6, 12, 1, 1)), nn.Parameter(torch.tensor(5.0))

    def forward(self, x):
        h = F.normalize(self.encoder(x), dim=1)
        s = F.conv2d(h, F.normalize(self.prototypes, dim=1))
        return self.temperature * s.flatten(2).max(-1)[0]


@family("test", "ts14 dynamo18 ts17-nofold-fresh")
def prototype_parts():
    return ProtoNet(), {"image": torch.randn(BATCH, 1, 16, 16)}


class Window(nn.Module):
    """Swin's attention of one window: a table of relative biases that is looked up by fixed
    indices, a fixed mask.
    """

    def __init__(self, dim=16, heads=2, size=4):
        super().__init__()
        self.heads, n = heads, size * size
        self.norm, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.relative_position_bias_table = nn.Parameter(0.02 * torch.randn((2 * size - 1) ** 2, heads))
        c = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
        d = c[:, :, None] - c[:, None] + size - 1
        self.register_buffer("relative_position_index", d[0] * (2 * size - 1) + d[1])
        part = (torch.arange(n) // (n // 2)).float()
        self.register_buffer("attn_mask", torch.where(part[:, None] != part, -100.0, 0.0))
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(n, n, -1).permute(2, 0, 1)
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2) * self.logit_scale.clamp(max=4.6).exp()
        p = (s + bias + self.attn_mask).softmax(-1)
        return x + self.proj((p @ v).transpose(1, 2).reshape(b, n, d))


@family("test", "ts16 dynamo18 ts14-nofold ts17-fresh")
def swin_window():
    return nn.Sequential(Window(), Window(), nn.Flatten(), nn.Linear(256, 3)), {"tokens": torch.randn(BATCH, 16, 16)}


class Perceiver(nn.Module):
    """Trained latents attend to an array whose positions are fixed Fourier features. DETR's object
    queries then attend to the latents.
    """

    def __init__(self, dim=16, n=10):
        super().__init__()
        pos = torch.linspace(-1, 1, n)[:, None] * torch.linspace(1, n / 2, 4) * math.pi
        self.register_buffer("position_encoding", torch.cat([pos.sin(), pos.cos()], -1))
        self.latents, self.query_embed = nn.Parameter(torch.randn(5, dim) * 0.02), nn.Embedding(3, dim)
        self.inp, self.read, self.dec, self.norm = (
            nn.Linear(14, dim),
            nn.MultiheadAttention(dim, 2, batch_first=True),
            nn.MultiheadAttention(dim, 2, batch_first=True),
            nn.LayerNorm(dim),
        )
        self.cls = nn.Linear(dim, 4)

    def forward(self, x):
        b = x.shape[0]
        x = self.inp(torch.cat([x, self.position_encoding.expand(b, -1, -1)], -1))
        z = self.norm(self.read(self.latents.expand(b, -1, -1), x, x, need_weights=False)[0])
        q = self.query_embed.weight.expand(b, -1, -1)
        return self.cls(self.dec(q, z, z, need_weights=False)[0])


@family("test", "ts14 dynamo18")
def perceiver_queries():
    return Perceiver(), {"x": torch.randn(BATCH, 10, 6)}
