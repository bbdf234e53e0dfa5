"""Draws the records of cpu.py as a picture and a table. Each value says how many times as fast the program is as PyTorch's
best configuration in the same precision.

    cpu_page.py RECORD.json... --picture docs/cpu_speed.svg    # the table goes to standard output
"""

import argparse
import json

from common import summary

OURS = "onnx-amp-finetune "


def ratios(case):
    """Returns a dict: (precision, variant) -> ratios of the program's blocks to PyTorch's fastest configuration (by
    median) of that precision."""
    arms, out = case["arms"], {}
    torch = {p: [n for n in arms if n.startswith("PyTorch") and (" bf16" in n) == (p == "bf16")] for p in ("fp32", "bf16")}
    for name, arm in arms.items():
        if not name.startswith(OURS):
            continue
        precision, _, variant = name[len(OURS) :].partition(" ")
        rivals = torch.get(precision) or torch["fp32"]
        if not rivals:
            continue
        best = min(rivals, key=lambda n: arms[n]["step_ms"]["median"])
        values = [b / a for a, b in zip(arm["blocks_ms"], arms[best]["blocks_ms"])]
        out[precision, variant] = {
            "ratio": summary(values),
            "least": min(values),
            "best": best,
            "ms": arm["step_ms"]["median"],
            "torch_ms": arms[best]["step_ms"]["median"],
            "memory": arm["peak_bytes"] / 2**20,
            "torch_memory": arms[best]["peak_bytes"] / 2**20,
        }
    return out


def rows_of(paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as f:
            report = json.load(f)
        for case in report["cases"].values():
            for (precision, variant), r in ratios(case).items():
                where = "one thread" if report["threads"] == 1 else f"{report['threads']} threads"
                where += ", AVX2" if report.get("max_isa") else ""
                rows.append({"what": case["what"], "batch": case["batch"], "how": " ".join([precision, variant]).strip(), "where": where} | r)
    return rows


def table(rows):
    print("| | batch | | ms a step, ours and PyTorch's | ratio, median (least) | peak memory, MiB | PyTorch's best |")
    print("|---|---:|---|---:|---:|---:|---|")
    for r in rows:
        print(
            f"| {r['what']} | {r['batch']} | {r['how']}, {r['where']} | {r['ms']:.3g}, {r['torch_ms']:.3g} | **{r['ratio']['median']:.2f}** ({r['least']:.2f}) "
            f"| {r['memory']:.0f} of {r['torch_memory']:.0f} | {r['best'].removeprefix('PyTorch ')} |"
        )


def picture(rows, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "cpu"  # makes the picture reproducible
    from matplotlib import pyplot

    rows = [r for r in rows if "checkpointing" not in r["how"]][::-1]
    figure, axes = pyplot.subplots(figsize=(8, 0.6 + 0.32 * len(rows)), layout="constrained")
    colours = {"fp32": "#3b6fb6", "bf16": "#c9722b", "fp16": "#5b8f4c"}
    medians = [r["ratio"]["median"] for r in rows]
    axes.barh(range(len(rows)), medians, color=[colours[r["how"].split()[0]] for r in rows], height=0.72)
    axes.axvline(1, color="#555", linewidth=1)
    for i, r in enumerate(rows):
        axes.text(medians[i] + 0.03, i, f"{medians[i]:.2f}", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), [f"{r['what'].split(',')[0]}, {r['how']}{', AVX2' if 'AVX2' in r['where'] else ''}" for r in rows], fontsize=9)
    axes.set_xlim(0, max(medians) * 1.12)
    axes.set_xlabel("training steps a second, PyTorch's best configuration of the same precision = 1")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+")
    parser.add_argument("--picture")
    args = parser.parse_args()
    rows = rows_of(args.records)
    table(rows)
    if args.picture:
        picture(rows, args.picture)


if __name__ == "__main__":
    main()
