"""How far are mixed-precision gradients from exact ones? Over a model zoo, measures the relative L2
error over all parameters as one vector. Compares the program's gradients in bf16 and fp16 (`grad
--use_bf16`, `--use_fp16`, preset O1) and a node-by-node run of the same graph in torch under CPU
bf16 autocast with `grad --dtype fp64`.

An entry counts as reproduced if the node-by-node run in float64 without autocast gives the
gradients of `grad --dtype fp64` to 1e-5, because then the interpreter runs the same graph as the
program. Limits: bf16 at most 2x torch's error; fp16 at most half of bf16's in the median, and at
most bf16's + 1e-5 in each entry. Exits with 1 if a limit is exceeded. Writes a Markdown table and
JSON.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import common
import numpy as np
import torch
import torch.nn.functional as F
from onnx_torch import Graph
from safetensors.numpy import load_file

SAME = 1e-5  # masks and positions from onnxruntime are fp32
TIMES_TORCH = 2
FLOOR = 1e-5


def loss_of(kind, out, label):
    """Returns the loss of ref.json (ZOO.md), in the type of the outputs."""
    y = torch.from_numpy(label)
    first = out[0]
    wide = lambda t: t.double() if t.dtype == torch.float64 else t.float()  # noqa: E731
    first = wide(first)
    if kind == "cross_entropy":
        return F.cross_entropy(first.reshape(-1, first.shape[-1]), y.reshape(-1).long())
    if kind == "cross_entropy_nchw":
        return F.cross_entropy(first, y.long())
    if kind == "causal_lm":
        return F.cross_entropy(first[:, :-1].reshape(-1, first.shape[-1]), y[:, 1:].reshape(-1).long())
    if kind == "qa_span":
        return sum(F.cross_entropy(wide(o), y[:, i].long()) for i, o in enumerate(out)) / 2
    if kind == "mse":
        return F.mse_loss(first, y.to(first.dtype))
    if kind == "bce_logits":
        return F.binary_cross_entropy_with_logits(first, y.to(first.dtype))
    if kind == "nll_probs":
        return -torch.log(first.gather(1, y.long()[:, None])).mean()
    if kind == "rmspe_exp":
        t = torch.exp(y.to(first.dtype))
        return torch.sqrt((((t - torch.exp(first)) / t) ** 2).mean())
    if kind == "cosine_mse":
        return F.mse_loss(F.cosine_similarity(first[0::2], first[1::2]), y.to(first.dtype))
    raise NotImplementedError(f"loss {kind}")


def relative(got, want):
    """Returns the relative L2 error over all parameters as one vector."""
    names = sorted(want)
    flat = lambda g: np.concatenate([np.asarray(g[n], np.float64).reshape(-1) for n in names])  # noqa: E731
    a, b = flat(got), flat(want)
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


class Entry:
    def __init__(self, binary, folder, scratch):
        self.binary, self.folder, self.scratch = binary, folder, scratch
        self.ref = json.loads((folder / "ref.json").read_text())
        self.batch = load_file(folder / "batch.safetensors")
        self.statistics = "batch" in self.ref["batchnorm"]

    def ours(self, *flags):
        out = self.scratch / "grads.safetensors"
        args = ["grad", self.folder / "model.onnx", "--inputs", self.folder / "batch.safetensors", "--loss", self.ref["loss_kind"],
                "--out", out, "--tie_weights", "none", *flags]  # fmt: skip
        args += [f for name in self.ref.get("frozen_onnx", []) for f in ("--freeze", name)]
        args += ["--batchnorm", "train"] if self.statistics else []
        done = subprocess.run([str(self.binary), *map(str, args)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(flags)}: exit {done.returncode}: {done.stderr.strip().splitlines()[0][:160]}")
        return load_file(out), json.loads(done.stdout.strip().splitlines()[-1])

    def theirs(self, names, dtype, autocast=None):
        graph = Graph(self.folder / "model.onnx", {k: v for k, v in self.batch.items() if k != "label"}, names)
        graph.batch_statistics = self.statistics
        outputs, leaves = graph.run(self.ref["outputs"], dtype, autocast)
        loss = loss_of(self.ref["loss_kind"], [outputs[o] for o in self.ref["outputs"]], self.batch["label"])
        loss.backward()
        return {n: (t.grad if t.grad is not None else torch.zeros_like(t)).double().numpy() for n, t in leaves.items()}

    def row(self):
        row = {"entry": self.folder.name, "parameters": self.ref["n_params"]}
        want, _ = self.ours("--dtype", "fp64")
        row["fp32"] = relative(self.ours()[0], want)
        row["bf16"] = relative(self.ours("--use_bf16")[0], want)
        half, line = self.ours("--use_fp16")
        row["fp16"], row["loss_scale"] = relative(half, want), line.get("loss_scale", 1)
        try:
            row["interpreter"] = relative(self.theirs(list(want), torch.float64), want)
            if row["interpreter"] <= SAME:
                error = relative(self.theirs(list(want), torch.float32, torch.bfloat16), want)
                if np.isfinite(error):
                    row["torch"] = error
                else:
                    row["why"] = "torch's gradients under autocast are not finite"
            else:
                row["why"] = f"the node-by-node run in float64 differs by {row['interpreter']:.0e}"
        except (NotImplementedError, RuntimeError, KeyError, IndexError, TypeError, ValueError) as error:
            row["why"] = f"{type(error).__name__}: {str(error).splitlines()[0][:110]}"
        return row


def short(r):
    """Returns the limits that the entry exceeds."""
    out = []
    if "torch" in r and not r["bf16"] <= TIMES_TORCH * r["torch"]:
        out.append("bf16 beyond 2x torch")
    if not r["fp16"] <= r["bf16"] + FLOOR:
        out.append("fp16 beyond bf16")
    return out


def summary(rows):
    ratios = [r["bf16"] / r["torch"] for r in rows if r.get("torch")]
    halves = [r["fp16"] / r["bf16"] for r in rows if r["bf16"]]
    return {
        "entries": len(rows),
        "reproduced": len(ratios),
        "bf16_over_torch": {"median": float(np.median(ratios)), "most": max(ratios)} if ratios else None,
        "fp16_over_bf16": {"median": float(np.median(halves)), "most": max(halves)},
        "short": {r["entry"]: short(r) for r in rows if short(r)},
    }


def table(rows, total, facts):
    over, halves = total["bf16_over_torch"], total["fp16_over_bf16"]
    lines = [
        "# Accuracy of gradients in 16 bits",
        "",
        *common.prose(
            f"bf16: on the {total['reproduced']} of {total['entries']} models whose gradients torch reproduces, the program's error is "
            f"{over['median']:.2f} times torch's in the median and at most {over['most']:.2f} times (limit {TIMES_TORCH}).",
            "* ",
        ),
        *common.prose(
            f"fp16: the error is {halves['median']:.3f} times that of bf16 in the median (limit 0.5) and at most {halves['most']:.3f} times.", "* "
        ),
        *common.prose(f"Models that miss a limit: {', '.join(total['short']) or 'none'}.", "* "),
        "",
        *common.prose(
            "The models are those of the zoo ([zoo.md](zoo.md)), one row each. The error is the L2 norm of the difference between the gradients "
            "and those of `grad --dtype fp64`, divided by the norm of the latter; the gradients of all parameters form one vector. An error "
            "near 1 means that bf16 does not resolve this gradient; torch's error is then as large."
        ),
        "",
        *common.prose(
            "fp32, fp16, bf16: the program's gradients (the verb `grad`, in 16 bits with the preset `O1`). fp16 uses the loss scale at which a "
            "run applies its first step (column \"loss scale\"). torch bf16: torch "
            f"{facts['versions']['torch']} computes the same graph node by node under CPU bf16 autocast."
        ),
        "",
        *common.prose(
            f"Made by `bench/fidelity.py` with {facts['program'].splitlines()[0]}, commit {facts['commit']}. "
            "A model counts as reproduced by torch if its gradients in float64, computed node by node, equal those of `grad --dtype fp64` to 1e-5."
        ),
        "",
        "| model | fp32 | fp16 | bf16 | torch bf16 | bf16 / torch | fp16 / bf16 | loss scale | |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for r in rows:
        if "error" in r:
            lines.append(f"| {r['entry']} | | | | | | | | {r['error']} |")
            continue
        theirs = f"{r['torch']:.1e} | {r['bf16'] / r['torch']:.2f}" if r.get("torch") else " | "
        half = f"{r['fp16'] / r['bf16']:.2f}" if r["bf16"] else ""
        note = "**" + ", ".join(short(r)) + "**" if short(r) else r.get("why", "")
        lines.append(f"| {r['entry']} | {r['fp32']:.0e} | {r['fp16']:.1e} | {r['bf16']:.1e} | {theirs} | {half} | {r['loss_scale']:g} | {note} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoo", required=True, type=Path, help="folder of entries: model.onnx, batch.safetensors, ref.json")
    parser.add_argument("--binary", help="the program (build/onnx-amp-finetune)")
    parser.add_argument("--only", nargs="*", default=["*"], help="globs of entry names")
    parser.add_argument("--out", type=Path, help="Markdown file; the standard output if not given")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="amp-fidelity-") as scratch:
        binary = common.pinned(common.find_binary(args.binary), scratch)
        for folder in sorted({f for g in args.only for f in args.zoo.glob(g) if (f / "ref.json").is_file()}):
            rows.append(Entry(binary, folder, Path(scratch)).row())
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        facts = common.machine_facts(binary)
    total = summary(rows)
    text = table(rows, total, facts)
    if args.out:
        args.out.write_text(text)
    else:
        print(text)
    if args.json:
        common.write_json(args.json, {"machine": facts, "summary": total, "rows": rows})
    sys.exit(1 if total["short"] or total["fp16_over_bf16"]["median"] > 0.5 else 0)


if __name__ == "__main__":
    main()
