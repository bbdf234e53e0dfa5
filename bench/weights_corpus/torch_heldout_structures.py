"""Families of the part `heldout` that PyTorch exports: small models of images, bodies, graphs and
tables, as in torch_heldout_sequences.py.
"""

import math

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from torch_exporters import family

BATCH = 4


def image(channels=3, side=16):
    return {"image": torch.randn(BATCH, channels, side, side)}


class MeanShift(nn.Conv2d):
    """A 1x1 convolution that subtracts or adds the mean of the data (EDSR). Its parameters are not
    trained.
    """

    def __init__(self, sign):
        super().__init__(3, 3, 1)
        std, mean = torch.tensor([0.2291, 0.2263, 0.2255]), torch.tensor([0.4488, 0.4371, 0.4040])
        self.weight.data = torch.eye(3)[..., None, None] / std[:, None, None, None] if sign < 0 else torch.eye(3)[..., None, None] * std[:, None, None, None]
        self.bias.data = sign * mean / std if sign < 0 else mean
        self.requires_grad_(False)


@family("heldout", "ts13 dynamo18 ts17-nofold")
def edsr_super_resolution():
    body = [nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.Conv2d(12, 12, 3, padding=1), nn.PixelShuffle(2)]
    return nn.Sequential(MeanShift(-1), *body, MeanShift(1)), image()


@family("heldout", "ts17 dynamo18")
def swin_v2():
    return torchvision.models.swin_transformer.SwinTransformer(
        patch_size=[4, 4],
        embed_dim=12,
        depths=[2],
        num_heads=[2],
        window_size=[4, 4],
        num_classes=5,
        block=torchvision.models.swin_transformer.SwinTransformerBlockV2,
    ), image(side=32)


@family("heldout", "ts13-sim ts16-palette dynamo18")
def densenet():
    return torchvision.models.DenseNet(growth_rate=6, block_config=(2, 2), num_init_features=8, bn_size=2, num_classes=4), image(side=32)


@family("heldout", "ts14 ts16-fp16 ts17-fresh")
def shufflenet():
    return torchvision.models.ShuffleNetV2([2, 2, 2], [8, 16, 24, 32, 40], num_classes=4), image(side=32)


@family("heldout", "ts14 dynamo18")
def video_r2plus1d():
    unit = lambda i, m, o: [  # noqa: E731
        nn.Conv3d(i, m, (1, 3, 3), padding=(0, 1, 1), bias=False),
        nn.BatchNorm3d(m),
        nn.ReLU(),
        nn.Conv3d(m, o, (3, 1, 1), padding=(1, 0, 0), bias=False),
        nn.BatchNorm3d(o),
        nn.ReLU(),
    ]
    return nn.Sequential(*unit(3, 6, 8), *unit(8, 10, 12), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(12, 4)), {"clip": torch.randn(BATCH, 3, 4, 8, 8)}


class Deit(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.patch, self.cls_token, self.dist_token = nn.Conv2d(3, dim, 4, 4), nn.Parameter(torch.zeros(1, 1, dim)), nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 18, dim))
        self.block = nn.TransformerEncoderLayer(dim, 2, 32, activation="gelu", batch_first=True, norm_first=True, dropout=0.0)
        self.norm, self.head, self.head_dist = nn.LayerNorm(dim), nn.Linear(dim, 5), nn.Linear(dim, 5)

    def forward(self, x):
        h = self.patch(x).flatten(2).transpose(1, 2)
        h = torch.cat([t.expand(h.shape[0], -1, -1) for t in (self.cls_token, self.dist_token)] + [h], 1) + self.pos_embed
        h = self.norm(self.block(h))
        return (self.head(h[:, 0]) + self.head_dist(h[:, 1])) / 2


@family("heldout", "ts14 ts17-fresh dynamo18")
def deit_distilled():
    return Deit(), image()


class Detr(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.backbone, self.query_embed = nn.Conv2d(3, dim, 4, 4), nn.Embedding(6, dim)
        y, x = torch.meshgrid(torch.arange(1.0, 5), torch.arange(1.0, 5), indexing="ij")
        scale = 10000 ** (2 * torch.div(torch.arange(8), 2, rounding_mode="floor") / 8)
        waves = [p[..., None] / 4 * 2 * math.pi / scale for p in (y, x)]
        self.pos = torch.cat([torch.stack([w[..., ::2].sin(), w[..., 1::2].cos()], -1).flatten(2) for w in waves], -1).flatten(0, 1)[None]
        self.encoder = nn.TransformerEncoderLayer(dim, 2, 24, batch_first=True, dropout=0.0)
        self.decoder = nn.TransformerDecoderLayer(dim, 2, 24, batch_first=True, dropout=0.0)
        self.class_embed, self.bbox_embed = nn.Linear(dim, 4), nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 4))

    def forward(self, x):
        memory = self.encoder(self.backbone(x).flatten(2).transpose(1, 2) + self.pos)
        h = self.decoder(self.query_embed.weight.expand(x.shape[0], -1, -1), memory)
        return torch.cat([self.class_embed(h), self.bbox_embed(h).sigmoid()], -1)


@family("heldout", "ts16 dynamo18")
def detr():
    return Detr(), image()


class Clip(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.visual = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, dim, bias=False))
        self.token_embedding, self.positional_embedding, self.ln_final = nn.Embedding(40, 16), nn.Parameter(0.01 * torch.randn(7, 16)), nn.LayerNorm(16)
        self.text_projection, self.logit_scale = nn.Parameter(0.2 * torch.randn(16, dim)), nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, image, text):
        a = F.normalize(self.visual(image), dim=-1)
        h = self.ln_final(self.token_embedding(text) + self.positional_embedding).mean(1)
        return self.logit_scale.exp() * a @ F.normalize(h @ self.text_projection, dim=-1).t()


@family("heldout", "ts17 dynamo18 ts13-sim")
def clip_towers():
    return Clip(), {**image(), "text": torch.randint(0, 40, (BATCH, 7))}


class SoftArgmax(nn.Module):
    """Heat maps to coordinates: the expectation over a fixed grid."""

    def __init__(self, side=16):
        super().__init__()
        self.register_buffer("xs", torch.linspace(-1, 1, side))
        self.register_buffer("ys", torch.linspace(-1, 1, side))

    def forward(self, maps):
        p = maps.flatten(2).softmax(-1).reshape(maps.shape)
        return torch.cat([p.sum(2) @ self.xs[:, None], p.sum(3) @ self.ys[:, None]], -1)


@family("heldout", "ts16 dynamo18")
def pose_soft_argmax():
    return nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 5, 1), SoftArgmax()), image()


class Lpips(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.tensor([-0.030, -0.088, -0.188])[None, :, None, None])
        self.register_buffer("scale", torch.tensor([0.458, 0.448, 0.450])[None, :, None, None])
        self.a, self.b = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), nn.Sequential(nn.Conv2d(8, 12, 3, 2), nn.ReLU())
        self.lin0, self.lin1 = nn.Conv2d(8, 1, 1, bias=False), nn.Conv2d(12, 1, 1, bias=False)

    def forward(self, first, second):
        x, y = ((t - self.shift) / self.scale for t in (first, second))
        total = 0
        for layer, lin in ((self.a, self.lin0), (self.b, self.lin1)):
            x, y = layer(x), layer(y)
            total = total + lin((F.normalize(x, dim=1) - F.normalize(y, dim=1)) ** 2).mean((2, 3))
        return total


@family("heldout", "ts16 dynamo18")
def perceptual_distance():
    return Lpips(), {"first": torch.randn(BATCH, 3, 16, 16), "second": torch.randn(BATCH, 3, 16, 16)}


class Ssim(nn.Module):
    """A restoration net with a fixed Gaussian filter, whose residual is a second input."""

    def __init__(self):
        super().__init__()
        g = torch.exp(-((torch.arange(5) - 2.0) ** 2) / 2)
        g = g / g.sum()
        self.register_buffer("gauss", (g[:, None] * g).repeat(3, 1, 1, 1))
        self.net, self.mix = nn.Sequential(nn.Conv2d(6, 12, 3, padding=1), nn.PReLU(12), nn.Conv2d(12, 3, 3, padding=1)), nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        low = F.conv2d(x, self.gauss, padding=2, groups=3)
        return low + self.mix * self.net(torch.cat([x - low, low], 1))


@family("heldout", "ts14 dynamo18 ts16-slim")
def pyramid_restoration():
    return Ssim(), image()


class Body(nn.Module):
    """A learned regressor of shape and pose, and the fixed bases of a body model, which give the vertices."""

    def __init__(self, vertices=30):
        super().__init__()
        self.regress = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 10))
        self.register_buffer("v_template", torch.randn(vertices, 3))
        self.register_buffer("shapedirs", 0.1 * torch.randn(10, vertices * 3))
        self.register_buffer("J_regressor", torch.softmax(3 * torch.randn(5, vertices), -1))

    def forward(self, x):
        v = self.v_template + (self.regress(x) @ self.shapedirs).reshape(-1, 30, 3)
        return torch.cat([v, self.J_regressor @ v], 1)


@family("heldout", "ts16 dynamo18")
def body_regressor():
    return Body(), {"features": torch.randn(BATCH, 16)}


class Arm(nn.Module):
    """Joint angles to a tool's position by fixed link frames, plus a learned correction."""

    def __init__(self):
        super().__init__()
        self.links = nn.Parameter(torch.tensor([[0.0, 0.0, 0.333], [0.0, -0.316, 0.0], [0.0825, 0.0, 0.0]]), requires_grad=False)
        self.residual = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3))

    def forward(self, q):
        s, c = q.sin(), q.cos()
        return torch.cat([c * self.links[:, 2] - s * self.links[:, 0], self.residual(torch.cat([s, c], -1)) + self.links.sum(0)], -1)


@family("heldout", "ts14 dynamo18")
def arm_dynamics():
    return Arm(), {"q": torch.randn(BATCH, 3)}


class Gin(nn.Module):
    """Molecules as dense adjacency: GIN with its learned epsilon."""

    def __init__(self, dim=16):
        super().__init__()
        self.atom, self.eps = nn.Embedding(12, dim), nn.ParameterList([nn.Parameter(torch.zeros(1)) for _ in range(2)])
        self.mlps = nn.ModuleList([nn.Sequential(nn.Linear(dim, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, dim)) for _ in range(2)])
        self.gate, self.out = nn.Linear(dim, 1), nn.Linear(dim, 2)

    def forward(self, atoms, bonds):
        h = self.atom(atoms)
        for eps, mlp in zip(self.eps, self.mlps):
            z = (1 + eps) * h + bonds @ h
            h = mlp(z.flatten(0, 1)).reshape(z.shape)
        return self.out((self.gate(h).softmax(1) * h).sum(1))


@family("heldout", "ts16")
def gin_molecules():
    bonds = (torch.rand(BATCH, 8, 8) < 0.3).float()
    return Gin(), {"atoms": torch.randint(0, 12, (BATCH, 8)), "bonds": bonds}


def harmonics(v):
    """Returns real spherical harmonics of degree 0 to 2."""
    x, y, z = v.unbind(-1)
    return torch.stack(
        [
            torch.ones_like(x),
            x,
            y,
            z,
            math.sqrt(3) * x * y,
            math.sqrt(3) * y * z,
            0.5 * (3 * z * z - 1),
            math.sqrt(3) * x * z,
            0.5 * math.sqrt(3) * (x * x - y * y),
        ],
        -1,
    )


class Equivariant(nn.Module):
    def __init__(self):
        super().__init__()
        # Couplings of harmonics, by least squares over many directions: a fixed tensor without simple structure.
        v = F.normalize(torch.randn(4000, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
        y = harmonics(v)
        coupling = torch.einsum("ni,nj,nk->ijk", y, y, y) / 4000
        self.register_buffer("w3j", torch.where(coupling.abs() < 0.05, torch.zeros(()), coupling))
        self.embed, self.radial, self.out = nn.Embedding(5, 9), nn.Sequential(nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 9)), nn.Linear(9, 1)
        self.register_buffer("centers", torch.linspace(0, 4, 6))

    def forward(self, kinds, places):
        d = places[:, :, None] - places[:, None]
        r = (d.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        radial = self.radial(torch.exp(-1.5 * (r - self.centers) ** 2))
        h = torch.einsum("bji,bkji,bkjn,inm->bkm", self.embed(kinds), radial, harmonics(d / r), self.w3j)
        return self.out(h).sum(1)


@family("heldout", "ts16 dynamo18")
def equivariant_potential():
    return Equivariant(), {"kinds": torch.randint(0, 5, (BATCH, 6)), "places": torch.randn(BATCH, 6, 3)}


class TabNet(nn.Module):
    def __init__(self, features=8, dim=12):
        super().__init__()
        self.bn, self.shared = nn.BatchNorm1d(features), nn.Linear(features, 2 * dim, bias=False)
        self.steps = nn.ModuleList(
            [nn.ModuleList([nn.Linear(dim, features, bias=False), nn.BatchNorm1d(features), nn.Linear(dim, 2 * dim), nn.BatchNorm1d(2 * dim)]) for _ in range(2)]
        )
        self.fc, self.dim = nn.Linear(dim, 3), dim

    def forward(self, x):
        x = self.bn(x)
        a, prior, total = F.glu(self.shared(x)), torch.ones_like(x), 0
        for att, norm, block, norm2 in self.steps:
            mask = (norm(att(a)) * prior).softmax(-1)
            prior = prior * (1.3 - mask)
            h = F.glu(norm2(block(F.glu(self.shared(mask * x))))) * math.sqrt(0.5)
            total, a = total + h.relu(), h
        return self.fc(total)


@family("heldout", "ts17-slim dynamo18")
def tabnet():
    return TabNet(), {"x": torch.randn(BATCH, 8)}


class DeepFM(nn.Module):
    def __init__(self, fields=5, vocab=50, dim=6):
        super().__init__()
        self.first, self.second, self.bias = nn.Embedding(vocab, 1), nn.Embedding(vocab, dim), nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(nn.Linear(fields * dim, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ids):
        e = self.second(ids)
        pairs = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(-1, keepdim=True)
        return torch.sigmoid(self.bias + self.first(ids).sum(1) + pairs + self.mlp(e.flatten(1)))


@family("heldout", "ts13 dynamo18-fresh")
def deep_fm():
    return DeepFM(), {"ids": torch.randint(0, 50, (BATCH, 5))}


class Siren(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.last = nn.ModuleList([nn.Linear(2, 24), nn.Linear(24, 24)]), nn.Linear(24, 3)

    def forward(self, x):
        for layer in self.layers:
            x = torch.sin(30 * layer(x))
        return self.last(x)


@family("heldout", "ts13 dynamo20-plain")
def siren_field():
    return Siren(), {"xy": torch.rand(BATCH, 2)}


class Whitening(nn.Module):
    """Retrieval: generalized-mean pooling, principal components with whitening, fitted once."""

    def __init__(self):
        super().__init__()
        self.conv, self.p = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 12, 3)), nn.Parameter(torch.tensor([3.0]))
        x = torch.randn(200, 12) @ torch.randn(12, 12)
        _, s, v = torch.linalg.svd(x - x.mean(0), full_matrices=False)
        self.register_buffer("pca_mean", x.mean(0))
        self.register_buffer("pca_proj", v[:8] / s[:8, None] * math.sqrt(200))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        h = self.conv(x).clamp(min=1e-6).pow(self.p).mean((2, 3)).pow(1 / self.p)
        return self.head(F.normalize((h - self.pca_mean) @ self.pca_proj.t(), dim=-1))


@family("heldout", "ts16 dynamo18 ts17-sim")
def retrieval_gem():
    return Whitening(), image()
