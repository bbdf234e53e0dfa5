"""Makes docs/feeding.md from the results of feeds.py: the commands as a user types them, and the
agreement of the predictions.
"""

import json
import shlex
import sys
from pathlib import Path

HEAD = """# Data sets as they come

One command each, no Python: it trains {steps} steps on a data set's own files, evaluates and exports. `predict` then reads the set's file, and onnxruntime
runs the exported file on inputs that others made: Hugging Face's tokenizers, Pillow and numpy, Python's csv module for tables (raw rows, `--export_raw_rows`).
`bench/feeds.py` does all of it; this page and [its record](results/{record}) are its output (commit {commit}, onnxruntime {onnxruntime}, {threads}
threads of a shared machine, so seconds say little).

A row is equal when its label, its tags and entities, its answer and place, all pixels of its mask, its number of tokens are, or its number
is to 1e-5 (a table's to 1e-4). The difference is the largest over all rows.

| data | training, prediction (s) | rows | equal | largest difference | after {steps} steps |
|---|---:|---:|---:|---:|---|
"""

COMMANDS = """
{steps} steps only show that everything fits: the recipes' epochs and rates ([recipes.md](recipes.md)) are what a model wants.

## Commands

`DATA` is the folder of the data sets, `ZOO` that of exported models, `TEXT` one with texts a line. `{minilm}` is what `cmake/fetch_minilm.sh` fetches; a
sentence model: heads for labels, tags and spans are added. Elsewhere `create` makes a small model first. `tokenizers/gpt2` holds GPT-2's vocab.json
and merges.txt, `tokenizers/letters` a BPE of 120 tokens for the zoo's GPT-2, which came without one.
"""

METRICS = ("accuracy", "spearman", "entity_f1", "span_f1", "miou", "rmspe", "mae", "perplexity", "loss")


def typed(words):
    """A command in lines of about 118 characters; a flag and its value stay together."""
    lines, room = [["onnx-amp-finetune"]], 118
    units = []
    for word in shlex.split(words):
        value = units and units[-1][0].startswith("--") and len(units[-1]) == 1 and not word.startswith("--")
        if value:
            units[-1].append(shlex.quote(word))
        else:
            units.append([shlex.quote(word)])
    for unit in units:
        if len(" ".join([*lines[-1], *unit])) > room - 2:
            lines.append([" "])
        lines[-1] += unit
    return " \\\n".join(" ".join(line) for line in lines)


def measured(row):
    name = next(m for m in METRICS if m in row["after"])
    out = f"{name} {row['before'][name]:.3g} -> {row['after'][name]:.3g}"
    for key, what in (("labels_predicted", "labels"), ("entities", "entities"), ("classes_predicted", "classes")):
        out += f"; {what} predicted: {row[key]:,}" if key in row else ""
    return out


def table_row(r):
    seconds = f"{r['train_seconds']:.0f}, {r['predict_seconds']:.0f}"
    cells = [r["data"], seconds, f"{r['rows']:,}", f"{r['equal']:,}", f"{r['largest_difference']:.1e} ({r['of']})", measured(r)]
    return "| " + " | ".join(cells) + " |"


def page(report, record):
    machine = report["machine"]
    head = HEAD.format(steps=report["steps"], record=record, commit=machine["commit"], threads=report["threads"],
                       onnxruntime=machine["versions"]["onnxruntime"])  # fmt: skip
    feeds = [r for r in report["feeds"] if "error" not in r]
    out = [head + "\n".join(table_row(r) for r in feeds), COMMANDS.format(steps=report["steps"], minilm=report["minilm"])]
    for r in feeds:
        commands = [r[k] for k in ("create", "train", "predict", "export") if k in r]
        out.append(f"### {r['data']}\n\n```\n" + "\n".join(typed(c) for c in commands) + "\n```\n")
    return "\n".join(out)


if __name__ == "__main__":
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    target.write_text(page(json.loads(source.read_text()), source.name).rstrip() + "\n")
