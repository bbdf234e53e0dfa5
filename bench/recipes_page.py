"""Writes the tables of docs/recipes.md from the results of recipes_check.py and recipes.py, between
the page's marks; the rest is unchanged.

    recipes_page.py docs/results/recipes-check-DATE.json docs/results/recipes-DATE.json docs/recipes.md
"""

import json
import statistics
import sys
from pathlib import Path

GOOD = {"accuracy": "accuracy", "rmspe": "RMSPE (less is better)", "miou": "mIoU"}
NAMES = {"ours fp32": "fp32", "ours bf16": "bf16", "torch fp32": "PyTorch fp32", "torch bf16": "PyTorch bf16"}


def machine_line(report, loads):
    m = report["machine"]
    return (f"{m['cpu']}, {m['cores']} cores, load average {min(loads):.1f} - {max(loads):.1f} (other work ran there), "
            f"onnxruntime {m['versions']['onnxruntime']}, torch {m['versions']['torch']}.")  # fmt: skip


def load(row):
    return "" if row["load_average"] is None else f"{row['load_average']:.1f}"


def samples(report):
    lines = ["| recipe | seconds | CPU seconds | load | metric | fp32 | bf16 | onnxruntime's |", "|---|---:|---:|---:|---|---:|---:|---|"]
    for name, r in sorted(report["recipes"].items()):
        kinds = [m for m in dict.fromkeys(m["metric"] for m in r.get("metrics", [])) if not m.startswith(("answers.csv", "accuracy ("))]
        for metric in kinds:
            of = [m for m in r["metrics"] if m["metric"] == metric]
            by = {p: [m for m in of if m["run"].split("/")[-1] == p] for p in ("fp32", "bf16")}
            cells = {p: ", ".join(f"{m['printed']:.4g}" for m in found) for p, found in by.items()}
            gap = max(abs(m["printed"] - m["onnxruntime"]) for m in of)
            equal = ("the same" if gap < 1e-9 else f"within {gap:.0e}") if all(m["agrees"] for m in of) else f"**differs by {gap:.1e}**"
            lines.append(f"| {name} | {r['seconds']:.0f} | {r['cpu_seconds']:.0f} | {load(r)} | {metric} | {cells['fp32']} "
                         f"| {cells['bf16']} | {equal} |")  # fmt: skip
    return [*lines, "", machine_line(report, [r["load_average"] for r in report["recipes"].values() if load(r)])]


def spread(values):
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


def ratio(runs, key, arm, beside):
    """Returns the mean ratio of runs with the same seed, and minimum and maximum if there are several."""
    of = {r["seed"]: r[key] for r in runs if r["arm"] == beside}
    ratios = [r[key] / of[r["seed"]] for r in runs if r["arm"] == arm and r["seed"] in of]
    if not ratios:
        return ""
    mean = f"{statistics.mean(ratios):.2f}"
    return mean if len(ratios) == 1 else f"{mean} ({min(ratios):.2f} - {max(ratios):.2f})"


def full(report):
    lines = ["| job | part of the job, metric | | quality | seeds | CPU time | memory |", "|---|---|---|---:|---:|---:|---:|"]
    jobs = dict.fromkeys((r["job"], r["epochs"], r["limit"]) for r in report["runs"] if r["arm"] == "torch fp32")
    for key in jobs:
        runs = [r for r in report["runs"] if (r["job"], r["epochs"], r["limit"]) == key]
        first = runs[0]
        rows = f"the first {first['limit']:,} rows" if first["limit"] else "all rows"
        what = f"{rows}, {first['epochs']} of {first['whole_epochs']} epochs"
        for arm in [a for a in NAMES if any(r["arm"] == a for r in runs)]:
            of = [r for r in runs if r["arm"] == arm]
            ratios = [ratio(runs, k, arm, "torch fp32") for k in ("cpu_seconds", "peak_bytes")]
            quality = spread([r["metrics"][first["metric"]] for r in of])
            lines.append(f"| {first['title']} | {what}, {GOOD[first['metric']]} | {NAMES[arm]} | {quality} | {len(of)} | {' | '.join(ratios)} |")
    lines += ["", machine_line(report, [r["load_average"] for r in report["runs"]]) + " The program and PyTorch used one thread each."]
    return lines


def put(page, mark, lines):
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, rest = page.split(begin)
    return before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]


if __name__ == "__main__":
    check, bench, target = (Path(a) for a in sys.argv[1:4])
    page = put(target.read_text(), "samples", samples(json.loads(check.read_text())))
    target.write_text(put(page, "full data", full(json.loads(bench.read_text()))))
