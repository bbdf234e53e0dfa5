"""Families of models of the part `unseen` that JAX exports. Like those of torch_unseen_libraries.py,
they were written before the rules that they measure."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from common import floats, tokens
from jax_exporter import family, linen


class Gated(nn.Module):
    """Language model with gated linear units and a learned position table."""

    @nn.compact
    def __call__(self, ids):
        h = nn.Embed(40, 16)(ids) + self.param("positions", nn.initializers.normal(0.1), (8, 16))
        for _ in range(2):
            n = nn.RMSNorm()(h)
            h = h + nn.Dense(16, use_bias=False)(nn.silu(nn.Dense(24)(n)) * nn.Dense(24)(n))
        return nn.Dense(40)(h.mean(1))


@family("unseen", "trained", "fresh")
def jax_linen_gated():
    ids = tokens(40, 8)
    return *linen(Gated(), ids), {"ids": ids}


def fourier_regressor(b, params, x):
    """Random features that the function captures, and a ridge readout and a network, which are trained."""
    p = x @ b
    f = jnp.concatenate([jnp.sin(p), jnp.cos(p)], -1)
    h = jnp.tanh(f @ params["w1"] + params["b1"])
    return h @ params["w2"] + params["b2"] + x @ params["linear"]


@family("unseen", "trained")
def jax_fourier_regressor():
    rng = np.random.default_rng(7)
    params = {k: 0.3 * rng.standard_normal(s).astype("f") for k, s in {"w1": (32, 20), "b1": (20,), "w2": (20, 2), "b2": (2,), "linear": (4, 2)}.items()}
    b = rng.standard_normal((4, 16)).astype("f")
    return lambda p, x: fourier_regressor(b, p, x), params, {"x": floats(4)}


class SmallResNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.Conv(8, (3, 3))(x)
        for c in (8, 12):
            r = nn.GroupNorm(4)(nn.Conv(c, (3, 3), use_bias=False)(nn.relu(h)))
            h = nn.Conv(c, (1, 1))(h) + r * self.param(f"gate{c}", nn.initializers.zeros, ())
        return nn.Dense(3)(h.mean((1, 2)))


@family("unseen", "trained")
def jax_linen_skip():
    x = floats(12, 12, 3)
    return *linen(SmallResNet(), x), {"x": x}
