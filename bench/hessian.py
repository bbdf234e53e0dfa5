"""Hessian-vector products against PyTorch's double backward, over a model zoo: `grad --hvp` in fp64
and fp32 against torch.autograd.grad applied twice to the same graph, node by node in float64
(onnx_torch.py). An error is the largest difference over all parameters, relative to the largest
element of H v. The error of torch's own fp32 run is given for comparison.

Limit: 1e-5 in fp32; fp64 shows that the remaining error is rounding. Exits with 1 if the limit is
exceeded. Writes a Markdown table and JSON. --golden writes the data of tests/zoo: at most 512
elements (every stride-th one) of each tensor of torch's float64 H v.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import common
import numpy as np
import torch
from fidelity import Entry, loss_of
from onnx_torch import Graph
from safetensors.numpy import save_file

LIMIT = 1e-5
KEPT = 512  # maximum number of elements of a golden tensor


def direction(names, shapes):
    """Returns the direction v by a formula that other programs can repeat: element i of tensor k, by name, is ((7919 (i
    + 1) + 104729 k) mod 1009) / 504.5 - 1."""
    out = {}
    for k, name in enumerate(sorted(names)):
        i = np.arange(1, int(np.prod(shapes[name])) + 1, dtype=np.int64)
        out[name] = ((7919 * i + 104729 * k) % 1009 / 504.5 - 1).reshape(shapes[name])
    return out


def error(got, want):
    largest = max(np.abs(w).max(initial=0) for w in want.values())
    worst = max(np.abs(np.asarray(got[n], np.float64) - want[n]).max(initial=0) for n in want)
    return float(worst / largest) if largest else float(worst)


class TwiceGraph(Graph):
    """Calls that torch can differentiate twice, for operators whose usual gradient kernels cannot be differentiated."""

    def op_HardSigmoid(self, n, a, x, dtype):
        return torch.clamp(a.get("alpha", 0.2) * x[0] + a.get("beta", 0.5), 0, 1)

    def run(self, *args):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return super().run(*args)


class Products(Entry):
    def theirs_twice(self, v, dtype):
        graph = TwiceGraph(self.folder / "model.onnx", {k: x for k, x in self.batch.items() if k != "label"}, list(v))
        graph.batch_statistics = self.statistics
        outputs, leaves = graph.run(self.ref["outputs"], dtype)
        loss = loss_of(self.ref["loss_kind"], [outputs[o] for o in self.ref["outputs"]], self.batch["label"])
        names = list(leaves)
        first = torch.autograd.grad(loss, [leaves[n] for n in names], create_graph=True, allow_unused=True)
        along = sum((g * torch.from_numpy(v[n]).to(dtype)).sum() for n, g in zip(names, first) if g is not None)
        second = torch.autograd.grad(along, [leaves[n] for n in names], allow_unused=True)
        return {n: (torch.zeros_like(leaves[n]) if h is None else h).double().numpy() for n, h in zip(names, second)}

    def compare(self, golden=None):
        row = {"entry": self.folder.name}
        try:
            gradient, _ = self.ours()
            v = direction(gradient, {n: g.shape for n, g in gradient.items()})
            save_file(v, self.scratch / "v.safetensors")
            ours, line = self.ours("--hvp", str(self.scratch / "v.safetensors"), "--dtype", "fp64")
            narrow, _ = self.ours("--hvp", str(self.scratch / "v.safetensors"))
            row["curvature"] = line["curvature"]
            want = self.theirs_twice(v, torch.float64)
            row["fp64"], row["fp32"] = error(ours, want), error(narrow, want)
            row["torch"] = error(self.theirs_twice(v, torch.float32), want)
            if golden:
                kept = {n: np.ascontiguousarray(h.reshape(-1)[:: -(-h.size // KEPT)].astype(np.float32)) for n, h in want.items()}
                largest = max(np.abs(h).max(initial=0) for h in want.values())
                save_file(kept, golden / self.folder.name / "hvp.safetensors", {"largest": repr(float(largest))})
        except (NotImplementedError, RuntimeError, KeyError, IndexError, TypeError, ValueError) as problem:
            row["why"] = f"{type(problem).__name__}: {str(problem).splitlines()[0][:140]}"
        return row


def short(r):
    """True if the error exceeds the limit and twice the error of torch's fp32 run."""
    return "fp32" in r and not r["fp32"] <= max(LIMIT, 2 * r["torch"])


def table(rows, facts):
    done = [r for r in rows if "fp32" in r]
    over = [r["entry"] for r in done if r["fp32"] > LIMIT]
    lines = [
        "# Hessian-vector products against PyTorch",
        "",
        *common.prose(
            f"torch differentiates {len(done)} of {len(rows)} models twice. Errors of the program: in fp64 at most "
            f"{max(r['fp64'] for r in done):.0e}; in fp32 {np.median([r['fp32'] for r in done]):.0e} in the median and at most "
            f"{max(r['fp32'] for r in done):.0e} (torch in fp32: {max(r['torch'] for r in done):.0e}).",
            "* ",
        ),
        *common.prose(f"Models with an fp32 error above {LIMIT:g}, before it is rounded to one digit: {', '.join(over) or 'none'}.", "* "),
        "",
        *common.prose(
            "H is the matrix of second derivatives of the loss with respect to all parameters, and v a fixed vector. `grad --hvp` computes the "
            "product H v. The reference is the same product by torch "
            f"{facts['versions']['torch']} in float64: the gradient of the gradient of the same graph, computed node by node, with the same batch and "
            "loss. The error is the largest difference over all parameters, relative to the largest element of H v. The models are those of the "
            "zoo ([zoo.md](zoo.md))."
        ),
        "",
        *common.prose(
            f"Made by `bench/hessian.py` with {facts['program'].splitlines()[0]}, commit {facts['commit']}."
        ),
        "",
        "| model | fp64 | fp32 | torch fp32 | |",
        "|---|---:|---:|---:|---|",
    ]
    for r in rows:
        if "fp32" in r:
            lines.append(f"| {r['entry']} | {r['fp64']:.0e} | {r['fp32']:.0e} | {r['torch']:.0e} | {'**short**' if short(r) else ''} |")
        else:
            lines.append(f"| {r['entry']} | | | | {r['why']} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoo", required=True, type=Path, help="folder of entries: model.onnx, batch.safetensors, ref.json")
    parser.add_argument("--binary", help="the program (build/onnx-amp-finetune)")
    parser.add_argument("--only", nargs="*", default=["*"], help="globs of entry names")
    parser.add_argument("--out", type=Path, help="Markdown file; the standard output if not given")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--golden", type=Path, help="folder of entries to put hvp.safetensors into")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="amp-hessian-") as scratch:
        binary = common.pinned(common.find_binary(args.binary), scratch)
        for folder in sorted({f for g in args.only for f in args.zoo.glob(g) if (f / "ref.json").is_file()}):
            rows.append(Products(binary, folder, Path(scratch)).compare(args.golden))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        facts = common.machine_facts(binary)
    text = table(rows, facts)
    if args.out:
        args.out.write_text(text)
    else:
        print(text)
    if args.json:
        common.write_json(args.json, {"machine": facts, "rows": rows})
    sys.exit(1 if any(short(r) for r in rows) else 0)


if __name__ == "__main__":
    main()
