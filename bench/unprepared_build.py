"""Makes entries of the corpus of unprepared models: for each named architecture, both exporters'
files and PyTorch's reference. Each runs in a separate process, because an exporter may crash.
"""

import contextlib
import hashlib
import io
import json
import logging
import os
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
import unprepared_models as models
import unprepared_truth as truths
from safetensors.numpy import save_file

EXPORTERS = ("ts", "dyn")
STEPS = 10
SGD = {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.0}
ADAMW = {"lr": 1e-3, "weight_decay": 0.01}
DEFAULT = {"lr": 5e-5, "weight_decay": 0.0, "max_grad_norm": 1.0}  # the program's defaults, with AdamW


def hashed(name):
    return hashlib.sha256(name.encode()).digest()


def half_of(name):
    """Returns the half of an architecture. Rules may be fitted to one half of the architectures; the other half
    evaluates them."""
    return "fit" if hashed(name)[0] % 2 == 0 else "held-out"


class TookTooLong(Exception):
    pass


@contextlib.contextmanager
def limit(seconds):
    def stop(*_):
        raise TookTooLong(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def redraw(module, seed):
    """Draws every parameter near its initialization, with all elements distinct. Also draws BatchNorm's statistics,
    which are the same for every seed, so that only tensors made from parameters change with the seed."""
    g, statistics = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(99)
    with torch.no_grad():
        for p in module.parameters():
            if p.is_floating_point():
                p.copy_(torch.nan_to_num(p) + 0.05 * torch.randn(p.shape, generator=g))
        for m in module.modules():
            if getattr(m, "running_mean", None) is not None:
                m.running_mean.add_(0.1 * torch.randn(m.running_mean.shape, generator=statistics))
                m.running_var.mul_(1 + 0.5 * torch.rand(m.running_var.shape, generator=statistics))
        for _ in range(20):
            if not separate(module, g):
                break


def separate(module, g):
    """Changes elements whose value another one already has; returns their number."""
    parameters = [p for p in module.parameters() if p.is_floating_point()]
    flat = torch.cat([p.reshape(-1) for p in parameters]) if parameters else torch.zeros(0)
    order = torch.argsort(flat)
    same = torch.zeros(flat.numel(), dtype=torch.bool)
    same[order[1:]] = flat[order[1:]] == flat[order[:-1]]
    if same.any():
        flat[same] += 0.02 * torch.randn(int(same.sum()), generator=g)
        at = 0
        for p in parameters:
            p.copy_(flat[at : at + p.numel()].reshape(p.shape))
            at += p.numel()
    return int(same.sum())


def make(name, seed=0):
    torch.manual_seed(0)
    np.random.seed(0)
    module, inputs = models.ARCHITECTURES[name]()
    module.eval()
    module.float()
    redraw(module, 100 + seed)
    return module, inputs


def export(module, inputs, exporter, path):
    names = list(inputs)
    args = tuple(v.clone() for v in inputs.values())
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if exporter == "ts":
            torch.onnx.export(module, args, str(path), dynamo=False, opset_version=17, input_names=names, output_names=["out"])
            return None
        # The first strategy of torch.onnx.export; the others take long to fail.
        captured = torch.export.export(module, args, strict=False)
        program = torch.onnx.export(captured, args, dynamo=True, input_names=names, output_names=["out"], optimize=False, verbose=False)
        unfolded = program.model.clone()
        program.optimize()  # torch.onnx.export does this by default
        program.save(str(path), external_data=False)
        return program, unfolded


def export_other(module, inputs, exporter, made, path):
    """Repeats the export with other parameters; for dynamo only the steps before constants are folded."""
    if exporter == "ts":
        export(module, inputs, exporter, path)
        return
    from onnxscript import ir

    program, unfolded = made
    program.model = unfolded
    for name, p in module.named_parameters(remove_duplicate=False):
        if name in unfolded.graph.initializers:
            unfolded.graph.initializers[name].const_value = ir.tensor(p.detach().numpy(), name=name)
    program.optimize()
    program.save(str(path), external_data=False)


class Reference:
    """Computes PyTorch's loss, gradients and trajectories of a module on one batch."""

    def __init__(self, module, inputs, label):
        self.module, self.inputs, self.label = module, list(inputs.values()), label

    def loss(self, module, dtype):
        given = [v.to(dtype) if v.is_floating_point() else v for v in self.inputs]
        return torch.nn.functional.mse_loss(module(*given), self.label.to(dtype))

    def copy(self, dtype):
        import copy

        return copy.deepcopy(self.module).to(dtype)

    def gradients(self, dtype):
        m = self.copy(dtype)
        loss = self.loss(m, dtype)
        loss.backward()
        return float(loss.detach()), {n: None if p.grad is None else p.grad.double().numpy() for n, p in m.named_parameters()}

    def trajectory(self, kind, dtype, frozen):
        m = self.copy(dtype)
        for n, p in m.named_parameters():
            p.requires_grad_(p.requires_grad and n not in frozen)
        moving = [p for p in m.parameters() if p.requires_grad]
        if not moving:
            return None
        flags = {"sgd": SGD, "adamw": ADAMW, "default": DEFAULT}[kind]
        if kind == "sgd":
            optimizer = torch.optim.SGD(moving, **SGD)
        else:
            optimizer = torch.optim.AdamW(moving, lr=flags["lr"], weight_decay=flags["weight_decay"])
        losses = []
        for step in range(STEPS):
            optimizer.zero_grad(set_to_none=True)
            loss = self.loss(m, dtype)
            losses.append(float(loss.detach()))
            loss.backward()
            if kind == "default":
                torch.nn.utils.clip_grad_norm_(moving, flags["max_grad_norm"])
                for group in optimizer.param_groups:
                    group["lr"] = flags["lr"] * (STEPS - step) / STEPS
            optimizer.step()
        return losses


def frozen_parameters(p, maps, gradients):
    """Returns parameters that the file does not contain exactly once and unchanged: their training cannot be compared
    step by step."""
    count = np.zeros(p.flat.size, np.int64)
    for index in maps.values():
        kept = index[index >= 0]
        whole = np.zeros(p.flat.size, np.int64)
        np.add.at(whole, kept, 1)
        count = np.maximum(count, whole)
    frozen = []
    for i, name in enumerate(p.names):
        part = count[p.offsets[i] : p.offsets[i + 1]]
        g = gradients.get(name)
        if g is None or not np.any(g):
            continue
        used = g.reshape(-1) != 0
        if np.any(part[used] == 0) or np.any(part > 1):
            frozen.append(name)
    return frozen


def exception_line(error):
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300] if text else ''}"


class Architecture:
    def __init__(self, name, folder):
        self.name, self.folder = name, folder

    def note(self, exporter, **fields):
        path = self.folder / f"{self.name}_{exporter}" / "status.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"name": self.name, "exporter": exporter, "half": half_of(self.name), **fields}, indent=1))

    def build(self, exporters, seconds):
        try:
            with limit(seconds):
                self.module, self.inputs = make(self.name)
                with torch.no_grad():
                    out = self.module(*self.inputs.values())
                self.label = out + out.std() * torch.randn(out.shape, generator=torch.Generator().manual_seed(7))
                if not torch.isfinite(self.label).all() or self.label.numel() == 0:
                    raise ValueError("the output is empty or not finite")
                self.reference = Reference(self.module, self.inputs, self.label)
                self.loss, self.grads = self.reference.gradients(torch.float32)
                try:
                    self.loss64, self.grads64 = self.reference.gradients(torch.float64)
                    self.fp64_error = None
                except Exception as error:
                    self.loss64, self.grads64, self.fp64_error = self.loss, self.grads, exception_line(error)
                self.trajectories = {}
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            for exporter in exporters:
                self.note(exporter, state="model", error=f"{exception_line(error)} ({Path(where.filename).name}:{where.lineno})")
            return
        for exporter in exporters:
            start = time.time()
            try:
                with limit(seconds):
                    self.entry(exporter)
                self.note(exporter, state="ok", seconds=round(time.time() - start, 1))
            except Exception as error:
                state = "reference" if (self.folder / f"{self.name}_{exporter}" / "model.onnx").exists() else "export"
                self.note(exporter, state=state, error=exception_line(error))

    def follow(self, frozen):
        key = tuple(frozen)
        if key not in self.trajectories:
            out = {}
            for kind, flags in (("sgd", SGD), ("adamw", ADAMW), ("default", DEFAULT)):
                losses = self.reference.trajectory(kind, torch.float32, frozen)
                exact = losses if self.fp64_error else self.reference.trajectory(kind, torch.float64, frozen)
                out[kind] = {**flags, "losses": losses, "losses_fp64": exact}
            self.trajectories[key] = out
        return self.trajectories[key]

    def entry(self, exporter):
        folder = self.folder / f"{self.name}_{exporter}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "model.onnx"
        # Tracers modify a module, so each export uses a separate one.
        module, inputs = make(self.name)
        partial = folder / "partial.onnx"
        try:
            made = export(module, inputs, exporter, partial)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        partial.rename(path)
        model = onnx.load(str(path))

        def second_draw():
            other, given = make(self.name, seed=1)
            try:
                export_other(other, given, exporter, made, folder / "other.onnx")
                return truths.floating_tensors(onnx.load(str(folder / "other.onnx")))
            except Exception:
                return None
            finally:
                (folder / "other.onnx").unlink(missing_ok=True)

        named = [(n, p.detach().numpy()) for n, p in self.module.named_parameters() if p.is_floating_point()]
        buffers = {n: b.double().numpy() for n, b in self.module.named_buffers() if b.is_floating_point() and b.numel()}
        tensors, maps, p = truths.classify(model, named, buffers, second_draw)
        folded = {n for t in tensors if t["truth"] == "folded" for n in t.get("torch", ())}
        frozen = sorted({*frozen_parameters(p, maps, self.grads), *(n for n in folded if self.grads.get(n) is not None)})
        self.write(folder, model, tensors, maps, p, frozen)

    def write(self, folder, model, tensors, maps, p, frozen):
        """Writes batch, ref.safetensors and ref.json of an entry with an existing model.onnx."""
        kept = {i.name for i in model.graph.input}
        batch = {k: v.numpy() for k, v in self.inputs.items() if k in kept}
        save_file({k: np.ascontiguousarray(v) for k, v in {**batch, "label": self.label.numpy()}.items()}, str(folder / "batch.safetensors"))
        arrays = {f"map/{n}": i.astype(np.int64) for n, i in maps.items()}
        params = []
        for i, name in enumerate(p.names):
            g, g64 = self.grads.get(name), self.grads64.get(name)
            row = {"torch": name, "shape": list(p.arrays[i].shape), "offset": int(p.offsets[i]), "grad": "none" if g is None else "ok"}
            if g is not None:
                arrays["grad/" + name] = g64.astype(np.float64) if g64 is not None else g
                top = float(np.abs(g).max()) if g.size else 0.0
                row["grad_max"] = top
                row["fp32_noise"] = float(np.abs(g - g64).max() / top) if top and g64 is not None else 0.0
            params.append(row)
        arrays["output/out"] = self.reference_output()
        save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, str(folder / "ref.safetensors"))
        ref = {
            "name": folder.name, "architecture": self.name, "half": half_of(self.name), "opset": model.opset_import[0].version,
            "loss_kind": "mse", "loss": self.loss, "loss_fp64": self.loss64, "fp64_error": self.fp64_error,
            "n_params": int(p.flat.size), "params": params, "frozen": frozen, "tensors": tensors,
            "trajectories": {"steps": STEPS, **self.follow(frozen)},
            "versions": {"torch": torch.__version__},
        }  # fmt: skip
        (folder / "ref.json").write_text(json.dumps(ref, indent=1))

    def reference_output(self):
        with torch.no_grad():
            return self.module(*self.inputs.values()).numpy()


def warm_up(folder):
    """Runs both exporters once on a small model, so that their imports are present in every forked process."""
    import timm  # noqa: F401
    import torchvision  # noqa: F401

    for name in ("vit", "bert"):
        module, inputs = make(name)
    for exporter in EXPORTERS:
        export(module, inputs, exporter, folder / "warm.onnx")
    (folder / "warm.onnx").unlink(missing_ok=True)


def forked(job, seconds):
    """Runs a job in a forked process and discards its output; returns None or the reason of a failure."""
    sys.stdout.flush(), sys.stderr.flush()
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1), os.dup2(null, 2)
        try:
            job()
            os._exit(0)
        except BaseException:
            os._exit(1)
    end = time.time() + seconds
    while time.time() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if code == 0 else f"the process ended with {code}"
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"longer than {seconds} s"


def build_all(names, folder, seconds, exporters=EXPORTERS, again=False, after=lambda: None):
    """Builds entries of the named architectures, one process each; existing ones are kept."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warm_up(folder)
    for name in names:
        todo = [e for e in exporters if again or not (folder / f"{name}_{e}" / "status.json").exists()]
        if not todo:
            continue
        start = time.time()
        architecture = Architecture(name, folder)
        for e in todo:
            (folder / f"{name}_{e}" / "status.json").unlink(missing_ok=True)
        fault = forked(lambda: architecture.build(todo, seconds), 4 * seconds)
        for e in todo if fault else ():
            if not (folder / f"{name}_{e}" / "status.json").exists():
                architecture.note(e, state="export", error=fault)
        print(f"{name} {time.time() - start:.1f} s {fault or ''}", file=sys.stderr, flush=True)
        after()
