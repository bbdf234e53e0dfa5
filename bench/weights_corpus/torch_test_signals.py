"""Families of the part `test` that PyTorch exports: sound, series, fixed transforms, state spaces.
They are small versions of known architectures, as in torch_fit.py.
"""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from torch_exporters import family

BATCH = 4


class SincConv(nn.Module):
    """Band-pass filters given by two trained frequencies each (Ravanelli 2018)."""

    def __init__(self, out=8, size=31, rate=8000):
        super().__init__()
        mel = torch.linspace(0, 2595 * math.log10(1 + (rate / 2 - 150) / 700), out + 1)
        hz = 700 * (10 ** (mel / 2595) - 1)
        self.low_hz_, self.band_hz_ = nn.Parameter(hz[:-1, None]), nn.Parameter(hz.diff()[:, None])
        n = torch.linspace(0, size / 2 - 1, size // 2)
        self.register_buffer("window_", 0.54 - 0.46 * torch.cos(2 * math.pi * n / size))
        self.register_buffer("n_", 2 * math.pi * torch.arange(-(size // 2), 0.0)[None] / rate)

    def forward(self, x):
        low = 50 + self.low_hz_.abs()
        high = torch.clamp(low + 50 + self.band_hz_.abs(), 50, 4000)
        left = (torch.sin(high @ self.n_) - torch.sin(low @ self.n_)) / (self.n_ / 2) * self.window_
        filters = torch.cat([left, 2 * (high - low), left.flip(1)], 1) / (2 * (high - low))
        return F.conv1d(x[:, None], filters[:, None], stride=4)


@family("test", "ts17 ts17-nofold dynamo18")
def sincnet():
    return nn.Sequential(
        SincConv(), nn.BatchNorm1d(8), nn.LeakyReLU(0.2), nn.Conv1d(8, 12, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(12, 4)
    ), {"wave": torch.randn(BATCH, 256)}


class DWT(nn.Module):
    """One level of Daubechies-2 wavelets, channel by channel."""

    def __init__(self, channels):
        super().__init__()
        low = torch.tensor([-0.12940952255126037, 0.2241438680420134, 0.8365163037378079, 0.48296291314453416])
        high = torch.tensor([-1.0, 1.0, -1.0, 1.0]) * low.flip(0)
        bank = torch.stack([a[:, None] * b for a in (low, high) for b in (low, high)])
        self.register_buffer("filters", bank[:, None].repeat(channels, 1, 1, 1))
        self.channels = channels

    def forward(self, x):
        return F.conv2d(F.pad(x, (1, 1, 1, 1)), self.filters, stride=2, groups=self.channels)


@family("test", "ts13 ts16-nofold dynamo20 ts14-slim")
def wavelet_denoiser():
    return nn.Sequential(
        DWT(3),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.SiLU(),
        DWT(24),
        nn.Conv2d(96, 16, 1),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 3),
    ), {"x": torch.randn(BATCH, 3, 16, 16)}


class TCN(nn.Module):
    def __init__(self):
        super().__init__()
        wn = torch.nn.utils.parametrizations.weight_norm
        self.conv1, self.bn1 = wn(nn.Conv1d(4, 16, 3, padding=2)), nn.BatchNorm1d(16)
        self.conv2 = wn(nn.Conv1d(16, 16, 3, padding=4, dilation=2))
        self.down, self.fc = nn.Conv1d(4, 16, 1), wn(nn.Linear(16, 3))

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)[..., : x.shape[-1]]))
        h = F.relu(self.conv2(h)[..., : x.shape[-1]]) + self.down(x)
        return self.fc(h[..., -1])


@family("test", "ts14 ts17-nofold dynamo18 dynamo18-fresh")
def weight_norm_tcn():
    return TCN(), {"x": torch.randn(BATCH, 4, 20)}


def mel_matrix():
    """Returns rectangular filters over logarithmic bands, rows that sum to 1."""
    edges = np.unique(np.round(np.geomspace(1, 32, 11)).astype(int))
    fb = np.zeros((33, len(edges) - 1), np.float32)
    for i, (a, b) in enumerate(zip(edges, edges[1:])):
        fb[a:b, i] = 1 / (b - a)
    return torch.from_numpy(fb)


class Vad(nn.Module):
    """Voice activity by torch.stft (an operator of ONNX), bands and a GRU."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hamming_window(64))
        self.register_buffer("bands", mel_matrix())
        self.gru, self.fc = nn.GRU(self.bands.shape[1], 10, batch_first=True), nn.Linear(10, 1)

    def forward(self, x):
        s = torch.stft(x, 64, 32, window=self.window, center=False, return_complex=False, onesided=True)
        p = s.pow(2).sum(-1).transpose(1, 2)
        return self.fc(self.gru(torch.log(p @ self.bands + 1e-5))[0])


@family("test", "ts17 dynamo18")
def stft_vad():
    return Vad(), {"wave": torch.randn(BATCH, 256)}


class Reservoir(nn.Module):
    """Echo state network: the random input and recurrent matrices are constants; the readout, a ridge
    regression, is trained.
    """

    def __init__(self, n=20):
        super().__init__()
        w = torch.randn(n, n) * (torch.rand(n, n) < 0.3)
        self.register_buffer("w_in", torch.rand(3, n) - 0.5)
        self.register_buffer("w_res", (0.9 * w / torch.linalg.eigvals(w).abs().max()).contiguous())
        self.readout = nn.Linear(n, 2)

    def forward(self, x):
        h = torch.zeros_like(x[:, 0] @ self.w_in)
        for t in range(4):
            h = torch.tanh(x[:, t] @ self.w_in + h @ self.w_res)
        return self.readout(h)


@family("test", "ts14 dynamo18", [("w_in", "random by design: only the trainer knows"), ("w_res", "random by design: only the trainer knows")])
def echo_state():
    return Reservoir(), {"x": torch.randn(BATCH, 4, 3)}


class DCT(nn.Module):
    """Mixes tokens by an orthonormal cosine transform, rotates channels by a Hadamard matrix; neither has weights."""

    def __init__(self, n=8, dim=16):
        super().__init__()
        k = torch.arange(n)
        d = torch.cos(math.pi * (2 * k[None] + 1) * k[:, None] / (2 * n)) * math.sqrt(2 / n)
        d[0] /= math.sqrt(2)
        h = torch.tensor([[1.0]])
        while len(h) < dim:
            h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
        self.register_buffer("dct", d)
        self.register_buffer("hadamard", h / math.sqrt(dim))
        self.inp, self.ff, self.norm, self.head = nn.Linear(6, dim), nn.Linear(dim, dim), nn.LayerNorm(dim), nn.Linear(dim, 2)

    def forward(self, x):
        h = self.inp(x) @ self.hadamard
        h = self.norm(h + F.gelu(self.ff(self.dct @ h)))
        return self.head((h @ self.hadamard).mean(1))


@family("test", "ts13 ts17-nofold dynamo18 ts16-sim")
def dct_hadamard_mixer():
    return DCT(), {"x": torch.randn(BATCH, 8, 6)}


class NeRF(nn.Module):
    def __init__(self, random):
        super().__init__()
        self.register_buffer("B", torch.randn(2, 24) * 4 if random else (2.0 ** torch.arange(6))[:, None] * math.pi)
        self.random = random
        width = 48 if random else 24
        self.layers = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3), nn.Sigmoid())

    def forward(self, x):
        a = 2 * math.pi * x @ self.B if self.random else (x[:, None] * self.B).flatten(1)
        return self.layers(torch.cat([a.sin(), a.cos()], -1))


@family("test", "ts13 dynamo18 ts17-sim")
def random_fourier_image():
    return NeRF(True), {"xy": torch.rand(BATCH, 2)}


@family("test", "ts14 dynamo20-plain")
def octave_encoding():
    return NeRF(False), {"xy": torch.rand(BATCH, 2)}


class NBeats(nn.Module):
    """Trend and seasonality blocks: trained coefficients times fixed polynomial and Fourier bases.
    """

    def __init__(self, back=12, ahead=6):
        super().__init__()
        self.fcs = nn.ModuleList([nn.Sequential(nn.Linear(back, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU()) for _ in range(2)])
        self.theta = nn.ModuleList([nn.Linear(20, 6, bias=False), nn.Linear(20, 8, bias=False)])
        t = torch.arange(back + ahead) / ahead
        self.trend = nn.Parameter(torch.stack([t**i for i in range(3)]), requires_grad=False)
        angles = 2 * math.pi * torch.arange(1, 3)[:, None] * t
        self.season = nn.Parameter(torch.cat([angles.cos(), angles.sin()]), requires_grad=False)
        self.back, self.half = back, (3, 4)

    def forward(self, x):
        out = 0
        for fc, theta, basis, n in zip(self.fcs, self.theta, (self.trend, self.season), self.half):
            t = theta(fc(x))
            x = x - t[:, :n] @ basis[:, : self.back]
            out = out + t[:, n:] @ basis[:, self.back :]
        return out


@family("test", "ts13 dynamo18 ts17-nofold")
def nbeats():
    return NBeats(), {"series": torch.randn(BATCH, 12)}


class DLinear(nn.Module):
    """Reversible instance norm, a moving average as a fixed convolution, linear maps of trend and
    rest, Time2Vec.
    """

    def __init__(self, n=16, ahead=4, c=3):
        super().__init__()
        self.affine_weight, self.affine_bias = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c))
        self.register_buffer("kernel", torch.full((c, 1, 5), 0.2))
        self.linear_trend, self.linear_season = nn.Linear(n, ahead), nn.Linear(n, ahead)
        self.w, self.phase = nn.Parameter(torch.randn(1, 4)), nn.Parameter(torch.randn(4))
        self.mix, self.c = nn.Linear(4, ahead), c

    def forward(self, x, t):
        mean, std = x.mean(1, keepdim=True), torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        h = ((x - mean) / std * self.affine_weight + self.affine_bias).transpose(1, 2)
        trend = F.conv1d(F.pad(h, (2, 2), "replicate"), self.kernel, groups=self.c)
        y = self.linear_trend(trend) + self.linear_season(h - trend) + self.mix(torch.sin(t @ self.w + self.phase))[:, None]
        return (y.transpose(1, 2) - self.affine_bias) / (self.affine_weight + 1e-10) * std + mean


@family("test", "ts16 dynamo18 ts14-fresh ts17-sim")
def dlinear_revin():
    return DLinear(), {"x": torch.randn(BATCH, 16, 3), "t": torch.rand(BATCH, 1)}


class S4D(nn.Module):
    """A diagonal state space layer as a convolution over time; A and the step size are trained in
    logarithms.
    """

    def __init__(self, dim=6, state=4, length=12):
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(dim) * 2 - 5)
        self.log_A_real, self.A_imag = nn.Parameter(torch.log(0.5 * torch.ones(dim, state))), nn.Parameter(
            math.pi * torch.arange(state).expand(dim, state).contiguous()
        )
        self.C, self.D = nn.Parameter(torch.randn(dim, state, 2)), nn.Parameter(torch.randn(dim))
        self.inp, self.out, self.length = nn.Linear(3, dim), nn.Linear(dim, 2), length

    def forward(self, x):
        h = self.inp(x).transpose(1, 2)
        dt, t = self.log_dt.exp()[:, None, None], torch.arange(self.length)
        decay = torch.exp(-self.log_A_real.exp()[..., None] * dt * t)
        angle = self.A_imag[..., None] * dt * t
        k = 2 * (decay * (self.C[..., :1] * angle.cos() - self.C[..., 1:] * angle.sin())).sum(1)
        y = F.conv1d(F.pad(h, (self.length - 1, 0)), k.flip(-1)[:, None], groups=6) + self.D[:, None] * h
        return self.out(F.gelu(y).mean(-1))


@family("test", "ts17 dynamo18")
def s4d():
    return S4D(), {"x": torch.randn(BATCH, 12, 3)}


class FSQ(nn.Module):
    """Finite scalar quantization with fixed numbers of levels and a straight-through gradient. A
    residual codebook follows.
    """

    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), nn.Sequential(
            nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 8)
        )
        self.register_buffer("levels", torch.tensor([7.0, 5.0, 5.0]))

    def forward(self, x):
        z = torch.tanh(self.enc(x)) * (self.levels - 1) / 2
        z = z + (z.round() - z).detach()
        return self.dec(z / (self.levels // 2))


@family("test", "ts13 dynamo18")
def fsq_autoencoder():
    return FSQ(), {"x": torch.randn(BATCH, 8)}
