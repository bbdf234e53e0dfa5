"""Writes second_order.safetensors into entries of this folder: weights after ten steps of second-order optimizers in float64.
timm's Adahessian and pytorch_optimizer's SophiaH differentiate the entry's graph twice by torch (bench/onnx_torch.py). The
SophiaG of its authors uses labels that torch.searchsorted samples. The random numbers are those of trainer/loop/curvature.h
and ops/random.cc: Philox4x32-10, implemented again here. At most 128 elements of every tensor are stored. The metadata have
losses and the largest difference of torch's own float32 run. Needs torch, timm, pytorch_optimizer, sophia-opt, onnxruntime.
"""

import json
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytorch_optimizer
import sophia_opt
import timm.optim
import torch
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bench"))
from fidelity import loss_of  # noqa: E402
from hessian import TwiceGraph  # noqa: E402

SEED, STEPS, KEPT = 42, 10, 128
RUNS = {
    "adahessian": dict(rule="adahessian", lr=0.02, eps=1e-2),
    "adahessian_3": dict(rule="adahessian", lr=0.02, eps=1e-2, hessian_update_interval=3),
    "sophia_h": dict(rule="sophia_h", lr=0.02, eps=1e-2, rho=0.5, hessian_update_interval=2),
}
SOPHIA_G = {"sophia_g": dict(rule="sophia_g", lr=0.02, rho=2.0, hessian_update_interval=2)}
ENTRIES = ["lenet_relu_dyn18", "autoencoder_ts11", "convnext_ts17"]


def philox(seed, high, low):
    """Returns blocks of four random words for an array `low` of 64-bit positions."""
    mask = np.uint64(0xFFFFFFFF)
    words = lambda x: (np.uint64(x) & mask, np.uint64(x) >> np.uint64(32))  # noqa: E731
    c0, c1 = low & mask, low >> np.uint64(32)
    c2, c3 = (np.full_like(low, w) for w in words(high))
    k0, k1 = words(seed)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (b >> np.uint64(32)) ^ c1 ^ k0, b & mask, (a >> np.uint64(32)) ^ c3 ^ k1, a & mask
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    return np.stack([c0, c1, c2, c3], axis=1)


def direction(step, slot, shape, gaussian):
    n = int(np.prod(shape))
    per = 4 if gaussian else 128
    low = (np.uint64(slot) << np.uint64(40)) | np.arange(-(-n // per), dtype=np.uint64)
    blocks = philox(SEED, (0x48757463 << 32) ^ step, low)
    if gaussian:
        u = (blocks >> np.uint64(8)).astype(np.float64) * 2.0**-24
        radius, angle = np.sqrt(-2 * np.log(1 - u[:, 0::2])), 2 * np.pi * u[:, 1::2]
        v = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2).reshape(-1).astype(np.float32)
    else:
        bits = (blocks[:, :, None] >> np.arange(32, dtype=np.uint64)) & np.uint64(1)
        v = bits.reshape(-1).astype(np.float32) * 2 - 1
    return torch.from_numpy(v[:n].reshape(shape))


class Trained(TwiceGraph):
    """Uses the parameters of the optimizer."""

    def forward(self, params, outputs, dtype):
        state = dict(params)

        def tensor(name):
            if name and name not in state:
                t = torch.from_numpy(np.array(self.values[name]))
                state[name] = t.to(dtype) if t.is_floating_point() else t
            return state[name] if name else None

        for n in self.nodes:
            if n.op_type in ("Constant", "Shape", "Size") or not any(i in self.reached for i in n.input):
                continue
            got = self.call(n, [tensor(i) for i in n.input], tensor, dtype)
            for name, t in zip(n.output, got if isinstance(got, (tuple, list)) else [got]):
                state[name] = t
        return [state[o] for o in outputs]


def drawn_labels(logits, step):
    """Returns a class for each row: the first class whose cumulative probability is above a uniform number."""
    rows = torch.arange(len(logits)).numpy().astype(np.uint64)
    words = np.stack([philox(SEED, (0x536F7068 << 32) | step, np.array([r << np.uint64(32)]))[0, 0] for r in rows])
    u = torch.from_numpy((words >> np.uint64(8)).astype(np.float64) * 2.0**-24)
    up_to = torch.softmax(logits.double(), 1).cumsum(1)
    return torch.searchsorted(up_to, u[:, None] * up_to[:, -1:], right=True)[:, 0].clamp(max=logits.shape[1] - 1)


def make(params, rule, lr, eps=None, hessian_update_interval=1, rho=None):
    if rule == "sophia_g":
        return sophia_opt.SophiaG(params, lr=lr, rho=rho, weight_decay=0.0)
    if rule == "adahessian":
        return timm.optim.Adahessian(params, lr=lr, eps=eps, update_each=hessian_update_interval, avg_conv_kernel=True)
    return pytorch_optimizer.SophiaH(params, lr=lr, eps=eps, p=rho, update_period=hessian_update_interval, foreach=False)


def train(folder, run, dtype):
    ref = json.loads((folder / "ref.json").read_text())
    batch = load_file(folder / "batch.safetensors")
    names = [p["onnx"] for p in ref["params"]]
    graph = Trained(folder / "model.onnx", {k: x for k, x in batch.items() if k != "label"}, names)
    params = {n: torch.nn.Parameter(torch.from_numpy(np.array(graph.consts[n])).to(dtype)) for n in graph.trained}
    order = list(params)
    opt = make(list(params.values()), **run)
    losses = []
    for step in range(STEPS):
        outputs = graph.forward(params, ref["outputs"], dtype)
        loss = loss_of(ref["loss_kind"], outputs, batch["label"])
        losses.append(loss.item())
        opt.zero_grad()
        if run["rule"] == "sophia_g":
            rows = len(outputs[0])
            if step % run["hessian_update_interval"] == 0:
                labels = drawn_labels(outputs[0].detach(), step)
                torch.nn.functional.cross_entropy(outputs[0], labels).backward(retain_graph=True)
                opt.update_hessian()
                opt.zero_grad()
            loss.backward()
            opt.step(bs=rows)
            continue
        loss.backward(create_graph=True)
        drawn = iter([direction(step, k, params[n].shape, run["rule"] == "sophia_h") for k, n in enumerate(order)])
        with mock.patch("torch.randint", lambda *a, **k: (next(drawn).to(dtype) + 1) / 2), mock.patch(
            "torch.randn_like", lambda *a, **k: next(drawn).to(dtype)
        ):
            opt.step()
    return {n: p.detach().double().numpy() for n, p in params.items()}, losses


def main():
    for entry in ENTRIES:
        folder, kept, facts = HERE / entry, {}, {}
        classes = json.loads((folder / "ref.json").read_text())["loss_kind"] == "cross_entropy"
        for name, run in (RUNS | SOPHIA_G if classes else RUNS).items():
            want, losses = train(folder, run, torch.float64)
            narrow, _ = train(folder, run, torch.float32)
            noise = max(np.abs(want[n] - narrow[n]).max() for n in want)
            print(entry, name, losses[0], losses[-1], "float32 differs by", noise)
            for n, w in want.items():
                kept[f"{name}/{n}"] = np.ascontiguousarray(w.reshape(-1)[:: -(-w.size // KEPT)].astype(np.float32))
            facts[name] = dict(run, losses=losses, noise=float(noise))
        save_file(kept, folder / "second_order.safetensors", {"runs": json.dumps(facts)})


if __name__ == "__main__":
    main()
