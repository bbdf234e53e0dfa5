"""Cases that JAX exports by jax2onnx: Flax (linen and nnx) and plain functions. The weights are the
parameters of the pytree (nnx: those of kind Param), which have other values in the second export
(common.py). Statistics, tables and filters in the functions' closures are constants.
"""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import jax2onnx
import numpy as np
from flax import nnx

from common import floats, other_values, registrar, tokens, trained_values, write_case

FAMILIES = []
# A family is a function that returns (apply(params, *inputs), params, {input name: array}), or an nnx module.
family = registrar(FAMILIES)


def linen(module, *inputs):
    params = module.init(jax.random.PRNGKey(0), *inputs)
    return lambda p, *x: module.apply(p, *x), params


# --------------------------------------------------------------------------------------- cases of the part fit


class Table(nn.Module):
    mean: tuple = (3.0, -7.5, 120.25, 0.4, 55.0)
    std: tuple = (2.5, 1.25, 37.0, 0.11, 9.5)

    @nn.compact
    def __call__(self, x):
        x = (x - jnp.array(self.mean)) / jnp.array(self.std)
        x = nn.gelu(nn.LayerNorm()(nn.Dense(24)(x)))
        return nn.Dense(1)(x + nn.Dense(24)(x))


@family("fit", "trained", "fresh")
def jax_linen_table():
    x = floats(5)
    return *linen(Table(), x), {"x": x}


class ConvNet(nnx.Module):
    def __init__(self, rngs):
        self.conv1, self.bn1 = nnx.Conv(3, 8, (3, 3), rngs=rngs), nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.conv2, self.bn2 = nnx.Conv(8, 16, (3, 3), strides=2, use_bias=False, rngs=rngs), nnx.BatchNorm(16, use_running_average=True, rngs=rngs)
        self.head = nnx.Linear(16, 5, rngs=rngs)

    def __call__(self, x):
        h = nnx.relu(self.bn1(self.conv1(x)))
        h = nnx.relu(self.bn2(self.conv2(h)))
        return self.head(jnp.mean(h, (1, 2)))


@family("fit", "trained", "fresh")
def jax_nnx_convnet():
    return ConvNet(nnx.Rngs(0)), {"image": floats(12, 12, 3)}


def plain_mlp(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


@family("fit", "trained")
def jax_plain_mlp():
    rng = np.random.default_rng(3)
    sizes = [6, 20, 20, 2]
    params = [(rng.standard_normal((i, o)).astype("f") / math.sqrt(i), np.zeros(o, "f")) for i, o in zip(sizes, sizes[1:])]
    return plain_mlp, params, {"x": floats(6)}


# -------------------------------------------------------------------------------------- cases of the part test


class Block(nnx.Module):
    def __init__(self, dim, rngs):
        self.norm1, self.norm2 = nnx.LayerNorm(dim, rngs=rngs), nnx.LayerNorm(dim, rngs=rngs)
        self.attn = nnx.MultiHeadAttention(2, dim, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(dim, 2 * dim, rngs=rngs), nnx.Linear(2 * dim, dim, rngs=rngs)

    def __call__(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class ViT(nnx.Module):
    def __init__(self, rngs, dim=16):
        self.patch = nnx.Conv(3, dim, (4, 4), strides=4, padding="VALID", rngs=rngs)
        self.cls = nnx.Param(jnp.zeros((1, 1, dim)))
        self.pos = nnx.Param(0.02 * jax.random.normal(jax.random.PRNGKey(4), (1, 17, dim)))
        self.a, self.b = Block(dim, rngs), Block(dim, rngs)
        self.norm, self.head = nnx.LayerNorm(dim, rngs=rngs), nnx.Linear(dim, 6, rngs=rngs)

    def __call__(self, x):
        h = self.patch(x).reshape(x.shape[0], 16, 16)
        h = jnp.concatenate([jnp.broadcast_to(self.cls[...], (x.shape[0], 1, 16)), h], 1) + self.pos[...]
        return self.head(self.norm(self.b(self.a(h)))[:, 0])


@family("test", "trained", "fresh")
def jax_nnx_vit():
    return ViT(nnx.Rngs(0)), {"image": floats(16, 16, 3)}


class Causal(nn.Module):
    """Decoder with rotary positions, RMS norms and a fixed mask."""

    @nn.compact
    def __call__(self, ids):
        n, dim, heads = ids.shape[1], 16, 2
        angle = np.arange(n)[:, None] / 10000 ** (np.arange(0, 8, 2) / 8)
        cos, sin = (jnp.array(np.concatenate([f(angle)] * 2, -1), jnp.float32) for f in (np.cos, np.sin))
        turn = lambda t: t * cos + jnp.concatenate([-t[..., 4:], t[..., :4]], -1) * sin  # noqa: E731
        emb = nn.Embed(40, dim)
        h = emb(ids)
        x = nn.RMSNorm()(h)
        split = lambda name: jnp.swapaxes(nn.Dense(dim, False, name=name)(x).reshape(-1, n, heads, 8), 1, 2)  # noqa: E731
        q, k, v = turn(split("q")), turn(split("k")), split("v")
        p = jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / math.sqrt(8) + jnp.array(np.triu(np.full((n, n), -1e9, "f"), 1)), -1)
        h = h + nn.Dense(dim, False)(jnp.swapaxes(p @ v, 1, 2).reshape(-1, n, dim))
        x = nn.RMSNorm()(h)
        h = h + nn.Dense(dim, False)(nn.silu(nn.Dense(32, False)(x)) * nn.Dense(32, False)(x))
        return nn.RMSNorm()(h) @ self.param("unembed", nn.initializers.normal(0.1), (dim, 40))


@family("test", "trained", "fresh")
def jax_linen_decoder():
    ids = tokens(40, 7)
    return *linen(Causal(), ids), {"ids": ids}


def coordinate_field(b, params, x):
    angle = 2 * jnp.pi * x @ b
    return plain_mlp(params, jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1))


@family("test", "trained")
def jax_coordinate_mlp():
    rng = np.random.default_rng(5)
    sizes = [32, 24, 24, 3]
    params = [(rng.standard_normal((i, o)).astype("f") / math.sqrt(i), np.zeros(o, "f")) for i, o in zip(sizes, sizes[1:])]
    return functools.partial(coordinate_field, (3 * rng.standard_normal((2, 16))).astype("f")), params, {"x": floats(2)}


class ResNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.Conv(12, (3, 3), use_bias=False)(x)
        for _ in range(2):
            r = nn.relu(nn.GroupNorm(3)(h))
            r = nn.Conv(12, (3, 3))(r)
            h = h + self.param(f"skip_gain{_}", nn.initializers.zeros, ()) * r
        return nn.Dense(4)(nn.relu(nn.GroupNorm(3)(h)).mean((1, 2)))


@family("test", "trained")
def jax_linen_resnet():
    x = floats(8, 8, 3)
    return *linen(ResNet(), x), {"x": x}


class Mixer(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.Conv(12, (4, 4), (4, 4))(x).reshape(-1, 16, 12)
        for _ in range(2):
            t = jnp.swapaxes(nn.LayerNorm()(h), 1, 2)
            h = h + jnp.swapaxes(nn.Dense(16)(nn.gelu(nn.Dense(20)(t))), 1, 2)
            h = h + self.param(f"layer_scale{_}", nn.initializers.constant(1e-2), (12,)) * nn.Dense(12)(nn.gelu(nn.Dense(24)(nn.LayerNorm()(h))))
        return nn.Dense(4)(nn.LayerNorm()(h).mean(1))


@family("heldout", "trained", "fresh")
def jax_linen_mixer():
    x = floats(16, 16, 3)
    return *linen(Mixer(), x), {"x": x}


class Unet(nnx.Module):
    """Two scales, with binomial smoothing before each reduction."""

    def __init__(self, rngs):
        self.a, self.b, self.c = (nnx.Conv(i, o, (3, 3), rngs=rngs) for i, o in ((1, 8), (8, 8), (16, 1)))
        self.na, self.nb = nnx.GroupNorm(8, 4, rngs=rngs), nnx.GroupNorm(8, 4, rngs=rngs)

    def __call__(self, x):
        a = nnx.silu(self.na(self.a(x)))
        k = np.array([1.0, 2.0, 1.0], np.float32)
        blur = jnp.asarray(np.tile((np.outer(k, k) / 16)[:, :, None, None], (1, 1, 1, 8)))
        low = jax.lax.conv_general_dilated(a, blur, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=8)
        b = nnx.silu(self.nb(self.b(low)))
        return self.c(jnp.concatenate([a, jnp.repeat(jnp.repeat(b, 2, 1), 2, 2)], -1))


@family("heldout", "trained")
def jax_nnx_unet():
    return Unet(nnx.Rngs(0)), {"image": floats(8, 8, 1)}


def potential(centers, mean, std, params, x):
    d = jnp.sqrt(((x[:, :, None] - x[:, None]) ** 2).sum(-1) + 1e-6)
    basis = jnp.exp(-2.0 * (d[..., None] - centers) ** 2)
    return plain_mlp(params, basis.sum(2)).sum(1) * std + mean


@family("heldout", "trained")
def jax_pair_potential():
    rng = np.random.default_rng(6)
    sizes = [10, 16, 1]
    params = [(rng.standard_normal((i, o)).astype("f") / math.sqrt(i), np.zeros(o, "f")) for i, o in zip(sizes, sizes[1:])]
    centers = np.linspace(0, 3, 10).astype("f")
    return functools.partial(potential, centers, np.float32(-76.4026), np.float32(10.3215)), params, {"places": floats(5, 3)}


def build(root, only, halves):
    for half, ways, make in FAMILIES:
        for way in ways:
            case = f"{make.__name__}_{way}"
            if half not in halves or only and not any(o in case for o in only):
                continue
            rng = np.random.default_rng(sum(map(ord, case)))
            *model, batch = make()

            specs = [("B", *a.shape[1:]) for a in batch.values()]

            def change(how):
                if len(model) == 1:
                    state = nnx.state(model[0], nnx.Param)
                    nnx.update(model[0], jax.tree.map(lambda a: jnp.asarray(how(np.asarray(a), rng)), state))
                else:
                    model[1] = jax.tree.map(lambda a: jnp.asarray(how(np.asarray(a), rng)), model[1])

            def export():
                call = model[0] if len(model) == 1 else lambda *x: model[0](model[1], *x)
                if next(iter(batch.values())).dtype == np.int32:
                    return jax2onnx.to_onnx(call, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in batch.values()])
                return jax2onnx.to_onnx(call, specs)

            try:
                if way == "trained":
                    change(trained_values)
                write_case(root, half, case, "jax2onnx", make.__name__, export, lambda: change(other_values), batch)
            except Exception as error:
                print(f"{half}/{case}: no export: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}")
