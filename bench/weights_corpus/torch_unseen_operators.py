"""Model families of the part `unseen` of the corpus: modules that users write by hand, for
observers, operators, fields and forecasts. The families were written before the rules of
importer/discover that they measure (see build.py).
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_exporters import family
from torch_unseen_modules import BATCH, mlp


class Observer(nn.Module):
    """A learned observer of a known linear plant: x' = A x + B u, y = C x, all measured once."""

    def __init__(self):
        super().__init__()
        self.register_buffer("A", torch.tensor([[0.9512, 0.0951, 0.0047], [0.0, 0.9033, 0.0934], [0.0, -0.1401, 0.8566]]))
        self.register_buffer("B", torch.tensor([[0.0002], [0.0048], [0.0942]]))
        self.register_buffer("C", torch.tensor([[1.0, 0.0, 0.0]]))
        self.gain = mlp(5, 16, 3, act=nn.Tanh)

    def forward(self, y, u):
        x = torch.zeros_like(y[:, :1]).repeat(1, 3)
        for t in range(4):
            e = y[:, t : t + 1] - x @ self.C.t()
            x = x @ self.A.t() + u[:, t : t + 1] @ self.B.t() + self.gain(torch.cat([x, e, u[:, t : t + 1]], -1))
        return x


@family("unseen", "ts16 dynamo18")
def kalman_observer():
    return Observer(), {"y": torch.randn(BATCH, 4), "u": torch.randn(BATCH, 4)}


class FourierOperator(nn.Module):
    """FNO in one dimension, its transforms as products with fixed matrices; learned spectral weights."""

    def __init__(self, n=16, modes=5, width=8):
        super().__init__()
        angle = 2 * math.pi * torch.arange(n)[:, None] * torch.arange(modes) / n
        self.register_buffer("dft_re", angle.cos() / n)
        self.register_buffer("dft_im", -angle.sin() / n)
        self.lift, self.local, self.out = nn.Linear(2, width), nn.Conv1d(width, width, 1), nn.Linear(width, 1)
        self.w_re, self.w_im = (nn.Parameter(torch.randn(width, width, modes) / width) for _ in range(2))
        self.register_buffer("grid", torch.linspace(0, 1, n))

    def forward(self, a):
        h = self.lift(torch.stack([a, self.grid.expand_as(a)], -1)).transpose(1, 2)
        re, im = h @ self.dft_re, h @ self.dft_im
        ore = torch.einsum("bim,iom->bom", re, self.w_re) - torch.einsum("bim,iom->bom", im, self.w_im)
        oim = torch.einsum("bim,iom->bom", re, self.w_im) + torch.einsum("bim,iom->bom", im, self.w_re)
        n = a.shape[1]
        back = 2 * n * (ore @ self.dft_re.t() + oim @ self.dft_im.t())
        return self.out(F.gelu(back + self.local(h)).transpose(1, 2))


@family("unseen", "ts16 dynamo18")
def fourier_operator():
    return FourierOperator(), {"a": torch.randn(BATCH, 16)}


class Nerf(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(5))
        self.first, self.second, self.sigma, self.rgb = nn.Linear(3 + 30, 24), nn.Linear(24 + 33, 24), nn.Linear(24, 1), nn.Linear(24, 3)

    def forward(self, p):
        angle = (p[..., None] * self.bands).flatten(1)
        e = torch.cat([p, angle.sin(), angle.cos()], -1)
        h = self.second(torch.cat([self.first(e).relu(), e], -1)).relu()
        return torch.cat([self.rgb(h).sigmoid(), F.softplus(self.sigma(h) - 1)], -1)


@family("unseen", "ts14 dynamo18 ts17-sim")
def nerf_field():
    return Nerf(), {"p": torch.randn(BATCH, 3)}


class PointNet(nn.Module):
    """A transform near the identity, predicted and added to a fixed identity."""

    def __init__(self):
        super().__init__()
        self.local, self.to3 = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU()), nn.Linear(16, 9)
        self.register_buffer("iden", torch.eye(3).flatten())
        self.features, self.head = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 24, 1)), nn.Linear(24, 5)

    def forward(self, x):
        t = (self.to3(self.local(x).amax(-1)) + self.iden).reshape(-1, 3, 3)
        return self.head(self.features((x.transpose(1, 2) @ t).transpose(1, 2)).amax(-1))


@family("unseen", "ts16 dynamo18 ts17-fresh")
def point_net():
    return PointNet(), {"points": torch.randn(BATCH, 3, 20)}


class WeatherNet(nn.Module):
    """A fixed land mask and orography as further channels; fixed latitude weights and deviations scale the residual."""

    def __init__(self, lat=8, lon=12):
        super().__init__()
        angle = torch.deg2rad(torch.linspace(-87.5, 87.5, lat))
        self.register_buffer("lat_weight", (angle.cos() / angle.cos().mean())[None, None, :, None])
        self.register_buffer("land_mask", (torch.rand(1, 1, lat, lon) < 0.3).float())
        self.register_buffer("orography", torch.randn(1, 1, lat, lon).cumsum(-1).abs() * 313.7)
        self.register_buffer("diff_std", torch.tensor([1.2471, 0.0331, 87.4133])[None, :, None, None])
        self.net = nn.Sequential(nn.Conv2d(5, 16, 3, padding=1), nn.GELU(), nn.Conv2d(16, 16, 3, padding=1), nn.GELU(), nn.Conv2d(16, 3, 1))

    def forward(self, x):
        b = x.shape[0]
        static = torch.cat([self.land_mask, self.orography / 1000], 1).expand(b, -1, -1, -1)
        return x + self.net(torch.cat([x, static], 1)) * self.diff_std * self.lat_weight


@family("unseen", "ts16 dynamo18 ts17-slim")
def weather_step():
    return WeatherNet(), {"state": torch.randn(BATCH, 3, 8, 12)}


class Hyena(nn.Module):
    """Long convolutions whose filters a small network makes from positions, with fixed decays."""

    def __init__(self, dim=8, length=10):
        super().__init__()
        t = torch.linspace(0, 1, length)[:, None]
        self.register_buffer("z", torch.cat([t, torch.cos(2 * math.pi * t), torch.sin(2 * math.pi * t)], -1))
        self.register_buffer("deltas", torch.linspace(math.log(1e-2) / 1.5, math.log(1e-2) / 0.3, dim)[None].abs())
        self.register_buffer("t", t)
        self.mix, self.implicit, self.skip, self.out = nn.Linear(dim, 3 * dim), mlp(3, 16, dim), nn.Parameter(torch.randn(dim)), nn.Linear(dim, dim)

    def forward(self, x):
        a, b, v = self.mix(x).chunk(3, -1)
        k = self.implicit(self.z) * torch.exp(-self.t * self.deltas)
        n = x.shape[1]
        u = (a * v).transpose(1, 2)
        y = F.conv1d(F.pad(u, (n - 1, 0)), k.t().flip(-1)[:, None], groups=x.shape[-1]) + u * self.skip[:, None]
        return x + self.out(y.transpose(1, 2) * b)


@family("unseen", "ts16 dynamo18")
def hyena_dna():
    return nn.Sequential(nn.Embedding(6, 8), Hyena(), nn.LayerNorm(8), Hyena(), nn.LayerNorm(8), nn.Linear(8, 6)), {"ids": torch.randint(0, 6, (BATCH, 10))}


class TreeSoftmax(nn.Module):
    """Hierarchical softmax over a fixed tree: path signs and membership of the classes."""

    def __init__(self, dim=16, classes=8):
        super().__init__()
        member, sign = torch.zeros(classes, classes - 1), torch.zeros(classes, classes - 1)
        for c in range(classes):
            node = 0
            for bit in range(2, -1, -1):
                member[c, node], sign[c, node] = 1, 1 - 2 * ((c >> bit) & 1)
                node = 2 * node + 1 + ((c >> bit) & 1)
        self.register_buffer("path", member)
        self.register_buffer("turns", sign)
        self.embed, self.rnn, self.nodes = nn.Embedding(40, dim), nn.LSTM(dim, dim, batch_first=True), nn.Linear(dim, classes - 1)

    def forward(self, ids):
        h = self.nodes(self.rnn(self.embed(ids))[0][:, -1])
        return (F.logsigmoid(h[:, None] * self.turns) * self.path).sum(-1)


@family("unseen", "ts14 dynamo18")
def tree_softmax():
    return TreeSoftmax(), {"ids": torch.randint(0, 40, (BATCH, 7))}


class DinoStudent(nn.Module):
    """A teacher's temperature and centers (DINO), a student's head with weight norm."""

    def __init__(self, dim=12, out=20):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, dim))
        self.last = nn.utils.parametrizations.weight_norm(nn.Linear(dim, out, bias=False))
        self.register_buffer("center", 0.05 * torch.randn(1, out))

    def forward(self, x):
        z = self.last(F.normalize(self.backbone(x), dim=-1))
        return ((z - self.center) / 0.04).softmax(-1)


@family("unseen", "ts17 dynamo18")
def dino_center():
    return DinoStudent(), {"image": torch.randn(BATCH, 3, 16, 16)}


class Quantile(nn.Module):
    """Quantile forecasts of a grouped series that are reconciled by a fixed summing matrix."""

    def __init__(self):
        super().__init__()
        summing = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        self.register_buffer("S", summing)
        self.register_buffer("P", torch.linalg.pinv(summing))
        self.gru, self.head = nn.GRU(7, 16, batch_first=True), nn.Linear(16, 7)
        self.register_buffer("loc", 40 * torch.randn(7))
        self.register_buffer("spread", 10 * torch.rand(7) + 3)

    def forward(self, series):
        h = self.head(self.gru((series - self.loc) / self.spread)[0][:, -1]) * self.spread + self.loc
        return h @ self.P.t() @ self.S.t()


@family("unseen", "ts16 dynamo18")
def hierarchical_forecast():
    return Quantile(), {"series": torch.randn(BATCH, 9, 7)}
