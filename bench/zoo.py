"""Runs every entry of a model zoo (ONNX files with PyTorch's outputs, losses, gradients and ten-
step trajectories) with the program: `predict`, `grad` in fp32 and fp64, training with SGD and
AdamW, and onnxruntime on the exported files. Writes a Markdown table (docs/zoo.md) and exits
with 1 if any entry exceeds a tolerance. README.md describes the columns.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import common
import numpy as np
from safetensors.numpy import load_file

STEPS = 10


def worst_ratio(got, want, tolerance):
    """Returns the largest |got - want| divided by the tolerance; infinite if only one of two numbers is finite."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape:
        return float("inf")
    if got.size == 0:
        return 0.0
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(got - want))
    return float(np.nan_to_num(error, nan=np.inf).max() / tolerance)


def largest(x):
    x = np.asarray(x, np.float64)
    return float(np.abs(x[np.isfinite(x)]).max()) if np.isfinite(x).any() else 0.0


class Entry:
    def __init__(self, binary, folder, scratch):
        self.binary, self.folder, self.scratch = binary, folder, scratch
        self.name = folder.name
        self.model = folder / "model.onnx"
        self.ref = json.loads((folder / "ref.json").read_text())
        self.tensors = load_file(folder / "ref.safetensors")
        self.batch = folder / "batch.safetensors"
        self.flags = []
        if any(t.get("untied") for t in self.ref["tied"]):
            self.flags += ["--tie_weights", "none"]
        for name in self.ref.get("frozen_onnx", []):
            self.flags += ["--freeze", name]
        self.batch_statistics = "batch" in self.ref["batchnorm"]
        self.half = "fp16" in self.name

    def run(self, *args):
        done = subprocess.run([str(self.binary), *map(str, args)], capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise RuntimeError(f"{args[0] if args else ''}: exit {done.returncode}: {lines[0][:160] if lines else ''}")
        return done.stdout

    def norm_flags(self):
        return ["--batchnorm", "train"] if self.batch_statistics else []

    def outputs(self):
        """Returns the error of the outputs against PyTorch's, relative to 1e-5 of the largest element (1e-2 for files
        that compute in fp16)."""
        out = self.scratch / "out.safetensors"
        self.run("predict", self.model, "--inputs", self.batch, "--out", out)
        got, worst = load_file(out), 0.0
        for key, want in self.tensors.items():
            if not key.startswith("output/"):
                continue
            name = key[len("output/") :]
            tolerance = (1e-2 if self.half else 1e-5) * max(largest(want), 1e-30)
            worst = max(worst, worst_ratio(got[name], want, tolerance))
        return worst

    def gradients(self):
        """Returns relative errors of the losses, and the worst gradient relative to its tolerance."""
        out, losses = self.scratch / "grads.safetensors", {}
        for dtype in ("fp64", "fp32"):
            text = self.run(
                "grad", self.model, "--inputs", self.batch, "--loss", self.ref["loss_kind"], "--out", out, "--dtype", dtype,
                *self.norm_flags(), *self.flags,
            )  # fmt: skip
            losses[dtype] = json.loads(text.strip().splitlines()[-1])["loss"]
        got, worst = load_file(out), 0.0
        for p in self.ref["params"]:
            want = self.tensors.get("grad/" + p["onnx"])
            if want is None:
                continue
            if p["onnx"] not in got:
                if largest(want) > 0:
                    raise RuntimeError(f"no gradient of {p['onnx']}")
                continue
            tolerance = max(1e-5, 10 * min(p["fp32_noise"] or 0, 1e-2)) * largest(want) + 1e-7
            worst = max(worst, worst_ratio(got[p["onnx"]], want, tolerance))
        relative = lambda a, b: abs(a - b) / abs(b)
        return relative(losses["fp32"], self.ref["loss"]), relative(losses["fp64"], self.ref["loss_fp64"]), worst

    def trajectory(self, optimizer):
        """Returns the errors of ten losses relative to their tolerance. Keeps the run for the export check."""
        want = self.ref["trajectories"][optimizer]
        out = self.scratch / optimizer
        self.run(
            self.model, "--train", self.batch, "--loss", self.ref["loss_kind"], "--optimizer", optimizer, "--lr", want["lr"],
            "--momentum", want.get("momentum", 0), "--weight_decay", want["weight_decay"], "--decay_exclude", "none",
            "--max_steps", STEPS, "--batch_size", 4096, "--shuffle", "false", "--lr_scheduler", "constant", "--warmup_steps", 0,
            "--max_grad_norm", 0, "--dropout", 0, "--output_dir", out, "--overwrite", "--quiet", *self.norm_flags(), *self.flags,
        )  # fmt: skip
        losses = [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]
        if len(losses) != STEPS:
            return float("inf")
        worst = 0.0
        for got, a, b in zip(losses, want["losses"], want["losses_fp64"]):
            if None in (got, a, b):
                if (got is None) != (a is None):
                    return float("inf")
                continue
            worst = max(worst, abs(got - a) / max(1e-4, 10 * abs(a - b)))
        return worst

    def exported(self):
        """Compares onnxruntime (or onnx.reference) on the trained file with the program's outputs of it. Returns the
        error, and which engine ran the file."""
        model, out = self.scratch / "sgd" / "model.onnx", self.scratch / "exported.safetensors"
        feeds = load_file(self.batch)
        self.run("predict", model, "--inputs", self.batch, "--out", out)
        ours = load_file(out)
        runner, theirs = run_reference(model, feeds)
        worst = 0.0
        for name, want in theirs.items():
            if not isinstance(want, np.ndarray) or want.dtype.kind not in "fiub" or name not in ours:
                continue
            tolerance = (1e-2 if self.half else 1e-4) * max(largest(want), 1e-30)
            worst = max(worst, worst_ratio(ours[name], want, tolerance))
        return worst, runner

    def row(self):
        row = {"entry": self.name, "loss": self.ref["loss_kind"], "parameters": self.ref["n_params"]}
        try:
            row["outputs"] = self.outputs()
            row["loss_error"], row["loss_fp64_error"], row["gradients"] = self.gradients()
            for optimizer in ("sgd", "adamw"):
                row[optimizer] = self.trajectory(optimizer)
            row["export"], row["runner"] = self.exported()
        except (RuntimeError, KeyError) as error:
            row["error"] = str(error)
        limits = ("outputs", "gradients", "sgd", "adamw", "export")
        row["ok"] = "error" not in row and row["loss_error"] <= 1e-6 and all(row[k] <= 1 for k in limits)
        return row


def run_reference(model, feeds):
    import onnxruntime

    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        names = {i.name for i in session.get_inputs()}
        outputs = [o.name for o in session.get_outputs()]
        return "onnxruntime", dict(zip(outputs, session.run(outputs, {k: v for k, v in feeds.items() if k in names})))
    except Exception as error:  # onnxruntime's errors have no common base class
        from onnx.reference import ReferenceEvaluator

        try:
            session = ReferenceEvaluator(str(model))
            inputs = {k: v for k, v in feeds.items() if k in session.input_names}
            return "onnx.reference", dict(zip(session.output_names, session.run(None, inputs)))
        except Exception as second:
            raise RuntimeError(f"neither runs the export: {str(error)[:120]}; {str(second)[:120]}") from second


def table(rows, facts):
    good = sum(r["ok"] for r in rows)
    lines = [
        "# Model zoo: comparison with PyTorch",
        "",
        f"**{good} of {len(rows)} models are within all tolerances.**",
        "",
        *common.prose(
            "The zoo is a set of ONNX files, each with a batch and with the results that PyTorch computes for it. The end of a model's name is its "
            "opset and how the file was made: `ts` by PyTorch's TorchScript exporter, `dyn` by its dynamo exporter, `hand` by a script. Made by "
            f"`bench/zoo.py` with {facts['program'].splitlines()[0]}, commit {facts['commit']}, onnxruntime {facts['versions']['onnxruntime']}. "
            "PyTorch's results were computed once, when a model was added."
        ),
        "",
        *common.prose(
            "outputs, gradients, SGD, AdamW, export: the worst error divided by its tolerance "
            "([bench/README.md](../bench/README.md#zoopy)); 1.00 would just pass. SGD, AdamW: the losses of ten steps.",
            "* ",
        ),
        *common.prose("loss fp32, loss fp64: relative errors of the loss; that in fp32 may be at most 1e-6.", "* "),
        *common.prose("export: outputs of the exported file; run by: the engine that computed them.", "* "),
        "",
        "| model | loss | outputs | loss fp32 | loss fp64 | gradients | SGD | AdamW | export | run by | |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for r in rows:
        if "error" in r:
            lines.append(f"| {r['entry']} | {r['loss']} | | | | | | | | | {r['error']} |")
            continue
        lines.append(
            f"| {r['entry']} | {r['loss']} | {r['outputs']:.2f} | {r['loss_error']:.0e} | {r['loss_fp64_error']:.0e} | {r['gradients']:.2f} "
            f"| {r['sgd']:.2f} | {r['adamw']:.2f} | {r['export']:.2f} | {r['runner']} | {'ok' if r['ok'] else '**short**'} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoo", required=True, type=Path, help="folder of entries: model.onnx, batch.safetensors, ref.json, ref.safetensors")
    parser.add_argument("--binary", help="the program (build/onnx-amp-finetune)")
    parser.add_argument("--only", nargs="*", default=["*"], help="globs of entry names")
    parser.add_argument("--out", type=Path, help="Markdown file; the standard output if not given")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="amp-zoo-") as scratch:
        binary = common.pinned(common.find_binary(args.binary), scratch)
        entries = sorted({f for g in args.only for f in args.zoo.glob(g) if (f / "ref.json").is_file()})
        for folder in entries:
            rows.append(Entry(binary, folder, Path(scratch)).row())
            print(rows[-1], file=sys.stderr, flush=True)
        text = table(rows, common.machine_facts(binary))
    if args.out:
        args.out.write_text(text)
    else:
        print(text)
    sys.exit(0 if all(r["ok"] for r in rows) else 1)


if __name__ == "__main__":
    main()
