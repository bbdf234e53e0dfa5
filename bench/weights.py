"""Measures how well `onnx-amp-finetune check` distinguishes weights from constants, on exports for which the truth is
known.

    bench/weights.py --corpus FOLDER [--binary build/onnx-amp-finetune] [--details] [--json FILE]

FOLDER/NAME/ has model.onnx and truth.json, which maps every floating tensor to "weight",
"constant" or "any" (bench/weights_corpus/build.py makes such folders). Tensors whose truth is
"any" are not counted.

Counting rules, with their reasons:

* missed weight: truth "weight", the program leaves it frozen and does not call it unsure.
  Fine-tuning loses capacity.
* trained constant: truth "constant", the program trains it and does not call it unsure.
  Fine-tuning breaks the model.
* unsure: the program names the tensor and the flag that turns its verdict, so a user can decide.
  Wrong verdicts among these are printed, but they are not silent faults.
* refused: `check` gives no verdict on the file at all. Its tensors count as neither; the number of
  such files is printed.

Every tensor has the same weight, whichever file it is in. Errors and sizes are also given as
shares of elements. A tensor that the program does not list (it was computed away, or nothing reads
it) counts as frozen and sure.

The calibration table puts tensors into buckets of the stated confidence. A calibrated program is right in a bucket as
often as the bucket says. Rules that were fitted to one corpus tend to state too high confidences for another. Tensors
without evidence (running statistics, unused tensors) have no confidence and are left out of it.

Only the standard library and the package onnx are needed. One process, one file at a time: seconds
for a hundred files.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from math import prod
from pathlib import Path

import onnx

BUCKETS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 1.0001)
FAULTS = ("missed weight", "trained constant")


def element_counts(model):
    """Returns {name: elements} of initializers and Constant nodes, also of subgraphs and functions."""
    counts = {}

    def nodes_of(nodes):
        for node in nodes:
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    graph(a.g)
                elif node.op_type == "Constant" and a.name == "value":
                    counts[node.output[0]] = prod(a.t.dims)
                elif node.op_type == "Constant" and a.name in ("value_float", "value_floats"):
                    counts[node.output[0]] = len(a.floats) or 1

    def graph(g):
        counts.update((t.name, prod(t.dims)) for t in g.initializer)
        nodes_of(g.node)

    graph(model.graph)
    for f in model.functions:
        nodes_of(f.node)
    return counts


def verdicts_of(binary, path, flags):
    """Returns {name: row of `check --json`}, or None and the error where the program refuses the file."""
    run = subprocess.run([binary, "check", str(path), "--json", *flags], capture_output=True, text=True)
    try:
        return {row["name"]: row for row in json.loads(run.stdout)["tensors"]}, ""
    except (ValueError, KeyError):
        return None, (run.stderr.strip().splitlines() or [f"exit {run.returncode}"])[-1]


def judge(truth, row):
    """Returns (outcome, confidence). The outcome is "right", or "missed weight" or "trained constant", which may be
    followed by " (unsure)".
    """
    trained = bool(row and row["trainable"])
    outcome = "right" if trained == (truth == "weight") else FAULTS[trained]
    return outcome + (" (unsure)" if row and row["unsure"] else ""), row["confidence"] if row else None


def measure(folder, binary, flags):
    """Returns one dict for each tensor, and {case: error} of the refused files."""
    rows, refused = [], {}
    for truth_file in sorted(folder.glob("*/truth.json")):
        case = truth_file.parent
        found, error = verdicts_of(binary, case / "model.onnx", flags)
        if found is None:
            refused[case.name] = error
            continue
        counts = element_counts(onnx.load(case / "model.onnx"))
        info = json.loads((case / "case.json").read_text()) if (case / "case.json").exists() else {}
        for name, truth in json.loads(truth_file.read_text()).items():
            if truth != "any":
                outcome, confidence = judge(truth, found.get(name))
                rows.append(
                    {
                        "case": case.name,
                        "exporter": info.get("exporter", "?"),
                        "tensor": name,
                        "truth": truth,
                        "outcome": outcome,
                        "confidence": confidence,
                        "elements": counts.get(name, 1),
                        "reason": found.get(name, {}).get("reason", "not listed"),
                    }
                )
    return rows, refused


def share(part, whole):
    return f"{part} ({100 * part / max(whole, 1):.2f} %)"


def totals(rows, refused):
    """Returns the first lines of every report."""
    tensors, elements = len(rows), sum(r["elements"] for r in rows)
    count = Counter(r["outcome"] for r in rows)
    size = Counter()
    for r in rows:
        size[r["outcome"]] += r["elements"]
    unsure = sum(n for k, n in count.items() if k.endswith("(unsure)"))
    weights = sum(r["truth"] == "weight" for r in rows)
    lines = [f"files {len({r['case'] for r in rows})}, refused {len(refused)}, tensors {tensors} ({weights} weights), elements {elements}"]
    for fault in FAULTS:
        lines.append(
            f"{fault}: {share(count[fault], tensors)} of tensors, {share(size[fault], elements)} of elements; among the unsure {count[fault + ' (unsure)']}"
        )
    both = sum(count[f] for f in FAULTS)
    lines.append(f"both: {share(both, tensors)} of tensors; unsure: {share(unsure, tensors)} of tensors")
    return lines


def calibration(rows):
    """Returns a Markdown table: the share of right verdicts in each bucket of the stated confidence."""
    lines = ["| stated confidence | tensors | right | share right | of weights | of constants |", "|---|---|---|---|---|---|"]
    for low, high in zip(BUCKETS, BUCKETS[1:]):
        mine = [r for r in rows if r["confidence"] is not None and low <= r["confidence"] < high]
        right = [r for r in mine if r["outcome"].startswith("right")]
        cells = []
        for kind in ("weight", "constant"):
            part = [r for r in mine if r["truth"] == kind]
            cells.append(f"{sum(r['outcome'].startswith('right') for r in part)} of {len(part)}")
        percent = f"{100 * len(right) / len(mine):.1f} %" if mine else "-"
        lines.append(f"| {100 * low:g} to {min(100 * high, 100):g} % | {len(mine)} | {len(right)} | {percent} | {cells[0]} | {cells[1]} |")
    return lines


def by(rows, key):
    """Returns a line for each value of `key`: tensors, faults, unsure."""
    lines = []
    for value in sorted({r[key] for r in rows}):
        mine = [r for r in rows if r[key] == value]
        count = Counter(r["outcome"] for r in mine)
        unsure = sum(n for k, n in count.items() if k.endswith("(unsure)"))
        lines.append(f"{value}: {len(mine)} tensors, missed {count[FAULTS[0]]}, trained constants {count[FAULTS[1]]}, unsure {unsure}")
    return lines


def details(rows, refused):
    lines = [f"refused: {name}: {error}" for name, error in refused.items()]
    for r in rows:
        if r["outcome"] != "right":
            sure = f"{100 * r['confidence']:.1f} %" if r["confidence"] is not None else "-"
            lines.append(f"{r['outcome']}: {r['case']}: {r['tensor']} ({r['elements']} elements, {sure}): {r['reason']}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with a folder for each case")
    parser.add_argument("--binary", default="build/onnx-amp-finetune", help="the program")
    parser.add_argument("--details", action="store_true", help="also every tensor that is wrong or unsure")
    parser.add_argument("--json", type=Path, help="file for all rows")
    parser.add_argument("--flags", nargs="*", default=[], help="further flags of `check`")
    args = parser.parse_args()
    rows, refused = measure(args.corpus, args.binary, args.flags)
    if not rows:
        sys.exit(f"no case with a verdict in {args.corpus}")
    print("\n".join([*totals(rows, refused), "", *calibration(rows)]))
    if args.details:
        print("\n".join(["", *by(rows, "exporter"), "", *by(rows, "case"), "", *details(rows, refused)]))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
