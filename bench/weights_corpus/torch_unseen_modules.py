"""Model families of the part `unseen` of the corpus: modules that users write by hand, for physics,
signals, flows, tables and graphs, with the fixed tensors that such modules usually have. The
families were written before the rules of importer/discover that they measure (see build.py).
"""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from torch_exporters import family

BATCH = 4


def mlp(*sizes, act=nn.SiLU):
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), act()]
    return nn.Sequential(*layers[:-1])


class CompressedSensing(nn.Module):
    """Unrolled ISTA: a measurement matrix that was drawn once, learned steps and thresholds."""

    def __init__(self, signal=24, measured=12):
        super().__init__()
        self.register_buffer("phi", torch.randn(measured, signal) / math.sqrt(measured))
        self.step = nn.ParameterList([nn.Parameter(torch.tensor(0.1)) for _ in range(3)])
        self.threshold = nn.ParameterList([nn.Parameter(torch.tensor(0.01)) for _ in range(3)])
        self.denoise = nn.ModuleList([mlp(signal, 32, signal) for _ in range(3)])

    def forward(self, y):
        x = y @ self.phi
        for step, threshold, net in zip(self.step, self.threshold, self.denoise):
            x = x - step * (x @ self.phi.t() - y) @ self.phi
            z = net(x)
            x = x + torch.sign(z) * F.relu(z.abs() - threshold)
        return x


@family("unseen", "ts14 dynamo18")
def unrolled_ista():
    return CompressedSensing(), {"y": torch.randn(BATCH, 12)}


class DeepONet(nn.Module):
    """POD-DeepONet: a branch network times fixed modes of the training data, plus their mean."""

    def __init__(self, points=20, modes=6):
        super().__init__()
        data = torch.cumsum(torch.randn(60, points), 1)
        _, _, v = torch.linalg.svd(data - data.mean(0), full_matrices=False)
        self.register_buffer("pod_modes", v[:modes])
        self.register_buffer("pod_mean", data.mean(0))
        self.branch = mlp(10, 24, modes, act=nn.Tanh)

    def forward(self, u):
        return self.branch(u) @ self.pod_modes + self.pod_mean


@family("unseen", "ts16 dynamo18 ts17-nofold")
def pod_deeponet():
    return DeepONet(), {"u": torch.randn(BATCH, 10)}


class GLOW(nn.Module):
    """Affine coupling and an invertible 1x1 convolution as P L (U + diag(s)), with P and the signs
    fixed.
    """

    def __init__(self, dim=8):
        super().__init__()
        q = torch.linalg.qr(torch.randn(dim, dim))[0]
        p, lower, upper = torch.linalg.lu(q)
        s = upper.diagonal()
        self.register_buffer("p", p)
        self.register_buffer("sign_s", s.sign())
        self.register_buffer("l_mask", torch.tril(torch.ones(dim, dim), -1))
        self.register_buffer("eye", torch.eye(dim))
        self.lower, self.log_s, self.upper = nn.Parameter(lower), nn.Parameter(s.abs().log()), nn.Parameter(upper)
        self.loc, self.log_scale, self.net = nn.Parameter(torch.zeros(1, dim)), nn.Parameter(torch.zeros(1, dim)), mlp(dim // 2, 16, dim)

    def forward(self, x):
        x = (x + self.loc) * self.log_scale.exp()
        low = self.lower * self.l_mask + self.eye
        up = self.upper * self.l_mask.t() + self.eye * (self.sign_s * self.log_s.exp())
        x = x @ (self.p @ low @ up).t()
        a, b = x.chunk(2, -1)
        shift, scale = self.net(a).chunk(2, -1)
        return torch.cat([a, b * torch.sigmoid(scale + 2) + shift], -1)


@family("unseen", "ts16 dynamo18 ts17-nofold")
def glow_flow():
    return nn.Sequential(GLOW(), GLOW()), {"x": torch.randn(BATCH, 8)}


class C51(nn.Module):
    """A categorical value distribution over fixed atoms; dueling heads."""

    def __init__(self, actions=3, atoms=21):
        super().__init__()
        self.body, self.value, self.advantage = nn.Sequential(nn.Linear(6, 24), nn.ReLU()), nn.Linear(24, atoms), nn.Linear(24, actions * atoms)
        self.register_buffer("support", torch.linspace(-10, 10, atoms))
        self.shape = (actions, atoms)

    def forward(self, x):
        h = self.body(x)
        a = self.advantage(h).reshape(-1, *self.shape)
        logits = self.value(h)[:, None] + a - a.mean(1, keepdim=True)
        return (logits.softmax(-1) * self.support).sum(-1)


@family("unseen", "ts14 dynamo18 ts16-slim")
def c51_agent():
    return C51(), {"state": torch.randn(BATCH, 6)}


class NoisyLinear(nn.Module):
    """Noise stays in buffers; inference keeps the last one that was drawn."""

    def __init__(self, i, o):
        super().__init__()
        self.weight_mu, self.weight_sigma = nn.Parameter(torch.randn(o, i) / math.sqrt(i)), nn.Parameter(torch.full((o, i), 0.5 / math.sqrt(i)))
        self.bias_mu, self.bias_sigma = nn.Parameter(torch.zeros(o)), nn.Parameter(torch.full((o,), 0.5 / math.sqrt(o)))
        left, right = torch.randn(o), torch.randn(i)
        self.register_buffer("weight_epsilon", torch.outer(left, right))
        self.register_buffer("bias_epsilon", left)

    def forward(self, x):
        return F.linear(x, self.weight_mu + self.weight_sigma * self.weight_epsilon, self.bias_mu + self.bias_sigma * self.bias_epsilon)


@family("unseen", "ts17 dynamo18")
def noisy_policy():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), NoisyLinear(16, 12), nn.ReLU(), NoisyLinear(12, 4)), {"state": torch.randn(BATCH, 6)}


class LogitAdjusted(nn.Module):
    """A long-tailed classifier: log frequencies of the classes are added to the logits."""

    def __init__(self, classes=7):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(12, classes)
        counts = torch.tensor([5213.0, 1871.0, 902.0, 377.0, 141.0, 58.0, 19.0])
        self.register_buffer("log_prior", (counts / counts.sum()).log())

    def forward(self, x):
        return self.fc(self.net(x)) - self.log_prior


@family("unseen", "ts14 dynamo18 ts17-slim")
def logit_adjustment():
    return LogitAdjusted(), {"image": torch.randn(BATCH, 3, 16, 16)}


class Periodic(nn.Module):
    """Numerical features: learned frequencies for one half, quantile bins for the other."""

    def __init__(self, features=4, k=5):
        super().__init__()
        self.frequencies = nn.Parameter(0.3 * torch.randn(features, k))
        edges = torch.sort(torch.randn(features, k + 1), 1).values
        self.register_buffer("bin_left", edges[:, :-1].clone())
        self.register_buffer("bin_width", (edges[:, 1:] - edges[:, :-1]).clone())
        self.net = nn.Sequential(nn.Linear(features * 3 * k, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, x):
        angle = 2 * math.pi * x[..., None] * self.frequencies
        bins = ((x[..., None] - self.bin_left) / self.bin_width).clamp(0, 1)
        return self.net(torch.cat([angle.cos(), angle.sin(), bins], -1).flatten(1))


@family("unseen", "ts16 dynamo18")
def tabular_embeddings():
    return Periodic(), {"x": torch.randn(BATCH, 4)}


class Bessel(nn.Module):
    """DimeNet's radial basis: frequencies n pi that train, and a polynomial envelope."""

    def __init__(self, n=6):
        super().__init__()
        self.frequencies = nn.Parameter(math.pi * torch.arange(1.0, n + 1))

    def forward(self, d):
        d = d / 5.0
        envelope = 1 / d - 28 * d**5 + 48 * d**6 - 21 * d**7
        return envelope * torch.sin(self.frequencies * d)


class Atoms(nn.Module):
    """Energies of single atoms are added to those of a network (a fitted table that is not trained)."""

    def __init__(self):
        super().__init__()
        self.kinds, self.radial, self.basis = nn.Embedding(5, 12), nn.Linear(6, 12, bias=False), Bessel()
        self.net = mlp(12, 16, 1)
        self.register_buffer("atomref", torch.tensor([[-13.5873], [-1029.4831], [-1485.2752], [-2042.6110], [-2713.4873]]) / 27.2114)

    def forward(self, kinds, places):
        d = ((places[:, :, None] - places[:, None]).square().sum(-1, keepdim=True) + 0.1).sqrt()
        h = self.kinds(kinds)
        h = h + (self.radial(self.basis(d)) * h[:, None]).sum(2)
        return (self.net(h) + self.atomref[kinds]).sum(1)


@family("unseen", "ts16 dynamo18")
def atom_references():
    return Atoms(), {"kinds": torch.randint(0, 5, (BATCH, 6)), "places": torch.randn(BATCH, 6, 3)}


class JpegNet(nn.Module):
    """Restoration in the frequency domain: block DCT, the standard quantization table, a learned
    correction.
    """

    def __init__(self):
        super().__init__()
        k, n = np.arange(8)[:, None], np.arange(8)
        d = np.sqrt(2 / 8) * np.cos((2 * n + 1) * k * np.pi / 16)
        d[0] /= np.sqrt(2)
        basis = np.einsum("ux,vy->uvxy", d, d).reshape(64, 1, 8, 8)
        self.register_buffer("dct_kernel", torch.tensor(basis, dtype=torch.float32))
        table = [16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77,
                 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99]  # fmt: skip
        self.register_buffer("q_table", torch.tensor(table, dtype=torch.float32)[None, :, None, None])
        self.net = nn.Sequential(nn.Conv2d(64, 32, 1), nn.GELU(), nn.Conv2d(32, 32, 3, padding=1), nn.GELU(), nn.Conv2d(32, 64, 1))

    def forward(self, x):
        c = F.conv2d(x, self.dct_kernel, stride=8) / self.q_table
        return F.conv_transpose2d((c + self.net(c)) * self.q_table, self.dct_kernel, stride=8)


@family("unseen", "ts14 dynamo18 ts17-sim")
def jpeg_restoration():
    return JpegNet(), {"luma": torch.randn(BATCH, 1, 32, 32)}


class Noiseprint(nn.Module):
    """Forensics: SRM residual filters before a small network."""

    def __init__(self):
        super().__init__()
        a = torch.zeros(3, 5, 5)
        a[0, 1:4, 1:4] = torch.tensor([[-1.0, 2, -1], [2, -4, 2], [-1, 2, -1]]) / 4
        a[1] = torch.tensor([[-1.0, 2, -2, 2, -1], [2, -6, 8, -6, 2], [-2, 8, -12, 8, -2], [2, -6, 8, -6, 2], [-1, 2, -2, 2, -1]]) / 12
        a[2, 2, 1:4] = torch.tensor([1.0, -2, 1]) / 2
        self.register_buffer("srm", a[:, None].repeat(1, 3, 1, 1) / 3)
        self.net = nn.Sequential(nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.Hardtanh(-3, 3), nn.Conv2d(12, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2))

    def forward(self, x):
        return self.net(F.conv2d(x, self.srm, padding=2))


@family("unseen", "ts16 dynamo18")
def srm_forensics():
    return Noiseprint(), {"image": torch.randn(BATCH, 3, 16, 16)}


class Pqmf(nn.Module):
    """A cosine-modulated filter bank cuts the wave into bands, another joins them."""

    def __init__(self, bands=4, taps=32):
        super().__init__()
        n = torch.arange(taps + 1)
        proto = torch.special.sinc((n - taps / 2) * 0.14) * torch.kaiser_window(taps + 1, periodic=False, beta=9.0) * 0.14
        k = torch.arange(bands)[:, None]
        phase = (2 * k + 1) * math.pi / (2 * bands) * (n - taps / 2)
        turn = (-1.0) ** k * math.pi / 4
        self.register_buffer("analysis", (2 * proto * torch.cos(phase + turn))[:, None])
        self.register_buffer("synthesis", (2 * proto * torch.cos(phase - turn))[None])
        self.bands, self.net = bands, nn.Sequential(nn.Conv1d(bands, 16, 5, padding=2), nn.LeakyReLU(0.1), nn.Conv1d(16, bands, 5, padding=2), nn.Tanh())

    def forward(self, x):
        h = self.net(F.conv1d(x[:, None], self.analysis, padding=16, stride=self.bands))
        return F.conv1d(F.interpolate(h, scale_factor=self.bands) * self.bands, self.synthesis, padding=16)


@family("unseen", "ts16 dynamo18")
def pqmf_vocoder():
    return Pqmf(), {"wave": torch.randn(BATCH, 128)}


class Pcen(nn.Module):
    """Trained per-channel energy normalization over fixed mel energies, smoothed by a fixed decay."""

    def __init__(self, mels=10, bins=33):
        super().__init__()
        centers = torch.linspace(0, 1, mels + 2) ** 1.6 * (bins - 1)
        k = torch.arange(bins)[:, None]
        up, down = (k - centers[:-2]) / (centers[1:-1] - centers[:-2]), (centers[2:] - k) / (centers[2:] - centers[1:-1])
        self.register_buffer("fbanks", torch.minimum(up, down).clamp(min=0))
        steps = torch.arange(12)
        self.register_buffer("smoother", torch.where(steps[:, None] >= steps, 0.025 * 0.975 ** (steps[:, None] - steps).clamp(min=0), torch.zeros(())))
        self.log_alpha, self.log_delta, self.log_r = (nn.Parameter(math.log(v) * torch.ones(mels)) for v in (0.98, 2.0, 0.5))
        self.net = nn.GRU(mels, 12, batch_first=True)
        self.head = nn.Linear(12, 4)

    def forward(self, spectrum):
        e = spectrum.square() @ self.fbanks
        m = self.smoother @ e
        d, r = self.log_delta.exp(), self.log_r.exp()
        h = (e / (1e-6 + m) ** self.log_alpha.exp() + d) ** r - d**r
        return self.head(self.net(h)[0][:, -1])


@family("unseen", "ts14 dynamo18")
def pcen_keywords():
    return Pcen(), {"spectrum": torch.rand(BATCH, 12, 33)}
