"""Families of the part `test` that PyTorch exports: graphs, symmetry, kernels, flows, attention and
tables. They are small versions of known architectures, as in torch_fit.py.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_exporters import family

BATCH = 4


class ChebNet(nn.Module):
    """Chebyshev graph convolution: the polynomials of the scaled Laplacian are a buffer."""

    def __init__(self, nodes=10, k=3, cin=2, hidden=12):
        super().__init__()
        a = torch.rand(nodes, nodes) * (torch.rand(nodes, nodes) < 0.4)
        a = (a + a.t()) / 2
        d = (a.sum(1) + 1e-6).rsqrt()
        lap = -(d[:, None] * a * d)
        polys = [torch.eye(nodes), lap]
        for _ in range(k - 2):
            polys.append(2 * lap @ polys[-1] - polys[-2])
        self.register_buffer("cheb_polynomials", torch.stack(polys))
        self.theta1, self.theta2 = nn.Parameter(torch.randn(k, cin, hidden) * 0.3), nn.Parameter(torch.randn(k, hidden, hidden) * 0.2)
        self.b1, self.node_emb = nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.randn(nodes, hidden) * 0.1)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h = F.relu(torch.einsum("knm,bmc,kco->bno", self.cheb_polynomials, x, self.theta1) + self.b1) + self.node_emb
        h = sum((self.cheb_polynomials[i] @ h) @ self.theta2[i] for i in range(3))
        return self.out(F.relu(h))[..., 0]


@family("test", "ts16 ts13-sim dynamo18")
def cheb_traffic():
    return ChebNet(), {"x": torch.randn(BATCH, 10, 2)}


class GAT(nn.Module):
    """Graph attention over one fixed 0/1 adjacency."""

    def __init__(self, nodes=9, cin=5, hidden=8):
        super().__init__()
        a = ((torch.rand(nodes, nodes) < 0.3).float() + torch.eye(nodes)).clamp(max=1)
        self.register_buffer("adjacency", a)
        self.lin, self.att_src, self.att_dst = (
            nn.Linear(cin, hidden, bias=False),
            nn.Parameter(torch.randn(hidden, 1) * 0.4),
            nn.Parameter(torch.randn(hidden, 1) * 0.4),
        )
        self.bias, self.head = nn.Parameter(torch.zeros(hidden)), nn.Linear(hidden, 2)

    def forward(self, x):
        h = self.lin(x)
        e = F.leaky_relu(h @ self.att_src + (h @ self.att_dst).transpose(1, 2), 0.2)
        p = torch.where(self.adjacency > 0, e, torch.full_like(e, -9e15)).softmax(-1)
        return self.head(F.elu(p @ h + self.bias))


@family("test", "ts14 dynamo18")
def fixed_graph_gat():
    return GAT(), {"x": torch.randn(BATCH, 9, 5)}


class SteerableConv(nn.Module):
    """Filters are trained combinations of fixed circular harmonics (steerable CNNs)."""

    def __init__(self, cin, cout, size=5, rings=2, orders=3):
        super().__init__()
        y, x = torch.meshgrid(*[torch.arange(size) - size // 2.0] * 2, indexing="ij")
        r, phi = torch.sqrt(x**2 + y**2), torch.atan2(y, x)
        basis = [
            torch.exp(-((r - j) ** 2) / 0.5) * f(m * phi)
            for j in range(rings)
            for m in range(orders)
            for f in (torch.cos, torch.sin)
            if m or f is torch.cos
        ]
        self.register_buffer("basis", torch.stack(basis))
        self.coefficients, self.bias = nn.Parameter(torch.randn(cout, cin, len(basis)) * 0.3), nn.Parameter(torch.zeros(cout))

    def forward(self, x):
        return F.conv2d(x, torch.einsum("oib,bhw->oihw", self.coefficients, self.basis), self.bias, padding=2)


class P4Conv(nn.Module):
    """Lifting convolution of the group of quarter turns: one kernel in four rotations."""

    def __init__(self, cin, cout):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cout, cin, 3, 3) * 0.3)

    def forward(self, x):
        turned = self.weight.transpose(2, 3)
        w = torch.cat([self.weight, turned.flip(2), self.weight.flip(2, 3), turned.flip(3)])
        return F.conv2d(x, w, padding=1)


@family("test", "ts16 ts17-nofold dynamo18")
def steerable_cnn():
    return nn.Sequential(
        SteerableConv(3, 8), nn.ReLU(), P4Conv(8, 4), nn.ReLU(), SteerableConv(16, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    ), {"x": torch.randn(BATCH, 3, 12, 12)}


class SchNet(nn.Module):
    """Continuous-filter convolution on all pairs of atoms. The Gaussian centers and the energies of
    the elements are buffers.
    """

    def __init__(self, dim=12, gaussians=16):
        super().__init__()
        self.embedding = nn.Embedding(10, dim)
        self.register_buffer("offset", torch.linspace(0, 5, gaussians))
        self.register_buffer("atomref", torch.randn(10, 1) * 30)
        self.coeff = -0.5 / (5 / (gaussians - 1)) ** 2
        self.filter1, self.filter2 = nn.Linear(gaussians, dim), nn.Linear(dim, dim)
        self.lin1, self.lin2, self.out = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim), nn.Linear(dim, 1)

    def forward(self, z, pos):
        d = (pos[:, :, None] - pos[:, None]).pow(2).sum(-1).add(1e-8).sqrt()
        g = torch.exp(self.coeff * (d[..., None] - self.offset) ** 2)
        w = self.filter2(F.softplus(self.filter1(g)) - math.log(2)) * (0.5 * (torch.cos(d * math.pi / 5) + 1))[..., None]
        h = self.embedding(z)
        h = h + self.lin2((w * self.lin1(h)[:, None]).sum(2))
        return (self.out(h) + F.embedding(z, self.atomref)).sum((1, 2))


@family("test", "ts16 dynamo18", [("atomref", "a fitted reference energy of each element: some trainers fine-tune it")])
def schnet():
    return SchNet(), {"z": torch.randint(1, 10, (BATCH, 6)), "pos": torch.randn(BATCH, 6, 3)}


class Kernels(nn.Module):
    """A radial basis network on raw inputs: centers and widths are trained."""

    def __init__(self):
        super().__init__()
        self.centers, self.log_sigmas, self.linear = nn.Parameter(torch.randn(12, 4)), nn.Parameter(torch.zeros(12)), nn.Linear(12, 3)

    def forward(self, x):
        d = (x[:, None] - self.centers).pow(2).sum(-1)
        return self.linear(torch.exp(-d / (2 * torch.exp(self.log_sigmas) ** 2)))


@family("test", "ts13 dynamo18 ts16-slim")
def rbf_network():
    return Kernels(), {"x": torch.randn(BATCH, 4)}


class KANLayer(nn.Module):
    """Splines on every edge: B-spline bases over a fixed grid, trained coefficients and scales."""

    def __init__(self, i, o, grid=4, order=2):
        super().__init__()
        h = 2 / grid
        self.register_buffer("grid", (torch.arange(-order, grid + order + 1) * h - 1).expand(i, -1).contiguous())
        self.base_weight, self.spline_weight = nn.Parameter(torch.randn(o, i) * 0.5), nn.Parameter(torch.randn(o, i, grid + order) * 0.1)
        self.spline_scaler, self.order = nn.Parameter(torch.rand(o, i)), order

    def forward(self, x):
        g, v = self.grid, x[..., None]
        b = ((v >= g[:, :-1]) & (v < g[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            b = (v - g[:, : -k - 1]) / (g[:, k:-1] - g[:, : -k - 1]) * b[..., :-1] + (g[:, k + 1 :] - v) / (g[:, k + 1 :] - g[:, 1:-k]) * b[..., 1:]
        w = self.spline_weight * self.spline_scaler[..., None]
        return F.linear(F.silu(x), self.base_weight) + F.linear(b.flatten(1), w.flatten(1))


@family("test", "ts16 dynamo18")
def kan():
    return nn.Sequential(KANLayer(3, 6), KANLayer(6, 2)), {"x": torch.rand(BATCH, 3) - 0.5}


class Flow(nn.Module):
    """RealNVP with ActNorm and fixed permutations; couplings use checkerboard masks."""

    def __init__(self, dim=6, hidden=16, steps=2):
        super().__init__()
        self.nets = nn.ModuleList([nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, 2 * dim)) for _ in range(steps)])
        self.log_scale, self.loc = nn.Parameter(torch.zeros(steps, 1, dim)), nn.Parameter(torch.zeros(steps, 1, dim))
        self.scale_factor = nn.Parameter(torch.ones(dim))
        self.register_buffer("mask", (torch.arange(dim) % 2).float())
        self.register_buffer("permutation", torch.eye(dim)[torch.randperm(dim)])

    def forward(self, x):
        total = 0
        for i, net in enumerate(self.nets):
            x = (x + self.loc[i]) * self.log_scale[i].exp()
            s, t = net(x * self.mask).chunk(2, -1)
            s = torch.tanh(s) * self.scale_factor * (1 - self.mask)
            x = x * self.mask + (1 - self.mask) * (x * s.exp() + t)
            x = x @ self.permutation
            total = total + s.sum(-1) + self.log_scale[i].sum()
        return total - 0.5 * (x**2).sum(-1)


@family("test", "ts16 dynamo18 ts13-fresh")
def real_nvp():
    return Flow(), {"x": torch.randn(BATCH, 6)}


class Alibi(nn.Module):
    def __init__(self, dim, heads, length):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        distance = torch.arange(length)[None] - torch.arange(length)[:, None]
        self.register_buffer("alibi", slopes[:, None, None] * distance.tril().float() + torch.full((length, length), -1e4).triu(1))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        p = (q @ k.transpose(-1, -2) / math.sqrt(d // self.heads) + self.alibi).softmax(-1)
        return self.proj((p @ v).transpose(1, 2).reshape(b, n, d))


class AlibiLM(nn.Module):
    def __init__(self, dim=24, vocab=50, length=9):
        super().__init__()
        self.wte, self.norm = nn.Embedding(vocab, dim), nn.LayerNorm(dim)
        self.blocks = nn.ModuleList(
            [
                nn.ModuleDict(
                    {
                        "ln1": nn.LayerNorm(dim),
                        "attn": Alibi(dim, 4, length),
                        "ln2": nn.LayerNorm(dim),
                        "fc": nn.Linear(dim, 48),
                        "proj": nn.Linear(48, dim),
                    }
                )
                for _ in range(2)
            ]
        )

    def forward(self, ids):
        h = self.wte(ids)
        for b in self.blocks:
            h = h + b["attn"](b["ln1"](h))
            h = h + b["proj"](F.gelu(b["fc"](b["ln2"](h)), approximate="tanh"))
        return self.norm(h) @ self.wte.weight.t()


@family("test", "ts14 ts17-fresh dynamo18 ts13-slim")
def alibi_lm():
    return AlibiLM(), {"ids": torch.randint(0, 50, (BATCH, 9))}


class ReZero(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.inp, self.head = nn.Linear(5, dim), nn.Linear(dim, 3)
        self.attn = nn.ModuleList([nn.MultiheadAttention(dim, 2, batch_first=True) for _ in range(2)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, dim)) for _ in range(2)])
        self.resweight = nn.ParameterList([nn.Parameter(torch.zeros(1)) for _ in range(4)])

    def forward(self, x):
        h = self.inp(x)
        for i in range(2):
            h = h + self.resweight[2 * i] * self.attn[i](h, h, h, need_weights=False)[0]
            h = h + self.resweight[2 * i + 1] * self.ff[i](h)
        return self.head(h.mean(1))


@family("test", "ts14 ts17-fresh dynamo18 ts14-sim")
def rezero_transformer():
    return ReZero(), {"x": torch.randn(BATCH, 7, 5)}


class SlotAttention(nn.Module):
    def __init__(self, dim=12, slots=4):
        super().__init__()
        self.slots_mu, self.norm = nn.Parameter(torch.randn(1, slots, dim)), nn.LayerNorm(dim)
        self.inp, self.k, self.v, self.q = (
            nn.Linear(6, dim),
            nn.Linear(dim, dim, bias=False),
            nn.Linear(dim, dim, bias=False),
            nn.Linear(dim, dim, bias=False),
        )
        self.gru, self.out = nn.GRUCell(dim, dim), nn.Linear(dim, 2)

    def forward(self, x):
        h = self.norm(self.inp(x))
        k, v, s = self.k(h), self.v(h), self.slots_mu.expand(x.shape[0], -1, -1)
        for _ in range(2):
            a = (self.q(s) @ k.transpose(1, 2) * 12**-0.5).softmax(1)
            u = (a / (a.sum(-1, keepdim=True) + 1e-8)) @ v
            s = self.gru(u.reshape(-1, 12), s.reshape(-1, 12)).view(-1, 4, 12)
        return self.out(s)


@family("test", "ts16 dynamo18")
def slot_attention():
    return SlotAttention(), {"x": torch.randn(BATCH, 8, 6)}


class Mixture(nn.Module):
    """Experts as stacked weights, and a router with LoRA."""

    def __init__(self, dim=12, experts=3):
        super().__init__()
        self.router, self.lora_A, self.lora_B = (
            nn.Linear(dim, experts),
            nn.Parameter(torch.randn(2, dim) * 0.2),
            nn.Parameter(torch.zeros(experts, 2)),
        )
        self.w1, self.b1 = nn.Parameter(torch.randn(experts, dim, 20) * 0.3), nn.Parameter(torch.zeros(experts, 1, 20))
        self.w2, self.scale, self.head = nn.Parameter(torch.randn(experts, 20, dim) * 0.2), nn.Parameter(torch.ones(dim)), nn.Linear(dim, 2)

    def forward(self, x):
        gate = (self.router(x) + x @ self.lora_A.t() @ self.lora_B.t() * 2.0).softmax(-1)
        h = torch.bmm(F.gelu(torch.bmm(x[None].expand(3, -1, -1), self.w1) + self.b1), self.w2)
        return self.head(x + self.scale * torch.einsum("be,ebd->bd", gate, h))


@family("test", "ts14 dynamo18 ts17-fresh")
def mixture_of_experts():
    return Mixture(), {"x": torch.randn(BATCH, 12)}


class Tagger(nn.Module):
    """Embeddings, a bidirectional LSTM with trained initial states, and a CRF's transition scores.
    """

    def __init__(self, vocab=60, tags=5):
        super().__init__()
        self.emb, self.lstm = nn.Embedding(vocab, 10), nn.LSTM(10, 8, bidirectional=True, batch_first=True)
        self.h0, self.c0 = nn.Parameter(torch.randn(2, 1, 8) * 0.1), nn.Parameter(torch.randn(2, 1, 8) * 0.1)
        self.fc, self.transitions, self.start = nn.Linear(16, tags), nn.Parameter(torch.randn(tags, tags)), nn.Parameter(torch.randn(tags))

    def forward(self, ids):
        b = ids.shape[0]
        e = self.fc(self.lstm(self.emb(ids), (self.h0.repeat(1, b, 1), self.c0.repeat(1, b, 1)))[0])
        a = self.start + e[:, 0]
        for t in range(1, 5):
            a = torch.logsumexp(a[:, :, None] + self.transitions, 1) + e[:, t]
        return a


@family("test", "ts14 ts17-nofold dynamo18")
def lstm_crf():
    return Tagger(), {"ids": torch.randint(0, 60, (BATCH, 5))}


class TabTransformer(nn.Module):
    """Category embeddings of all columns in one table, numbers through a scaler and trained
    per-feature vectors.
    """

    def __init__(self, dim=12):
        super().__init__()
        self.register_buffer("category_offsets", torch.tensor([0, 7, 12]))
        self.register_buffer("num_mean", torch.tensor([38.6, 10.1, 1077.6]))
        self.register_buffer("num_std", torch.tensor([13.6, 2.57, 7385.3]))
        self.cat, self.weight, self.bias = nn.Embedding(20, dim), nn.Parameter(torch.randn(3, dim) * 0.3), nn.Parameter(torch.randn(6, dim) * 0.3)
        self.cls = nn.Parameter(torch.randn(dim) * 0.3)
        self.layer = nn.TransformerEncoderLayer(dim, 2, 24, 0.0, batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 1)

    def forward(self, numbers, categories):
        n = ((numbers - self.num_mean) / self.num_std)[..., None] * self.weight
        h = torch.cat([n, self.cat(categories + self.category_offsets)], 1) + self.bias
        h = torch.cat([self.cls.expand(h.shape[0], 1, -1), h], 1)
        for m in (self.layer,):
            a = m.norm1(h)
            h = h + m.self_attn(a, a, a, need_weights=False)[0]
            h = h + m.linear2(F.relu(m.linear1(m.norm2(h))))
        return self.head(F.relu(self.norm(h[:, 0])))


@family("test", "ts13-slim ts16 dynamo18")
def ft_transformer():
    return TabTransformer(), {"numbers": torch.randn(BATCH, 3), "categories": torch.randint(0, 5, (BATCH, 3))}
