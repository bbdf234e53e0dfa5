"""Makes docs/feeding.md from the results of feeds.py: the commands as a user types them, and the
agreement of the predictions.
"""

import json
import shlex
import sys
from pathlib import Path

HEAD = """# Public data sets

Each data set takes one command and no Python. The command trains {steps} steps on the set's original
files, evaluates the model and exports it. As a test, the exported models then predicted whole files
of the data sets.

**{equal} of {rows} predictions equal those of onnxruntime**, up to rounding:

| data | seconds of training, of prediction | rows predicted | equal | largest difference (of what) | metric before -> after {steps} steps; number of predicted entities, or of different labels or classes among the predictions |
|---|---:|---:|---:|---:|---|
"""

COMMANDS = """
* **Comparison.** `predict` reads a file of the data set. onnxruntime runs the exported model on
  inputs that other programs made: Hugging Face's tokenizers; Pillow and numpy for images; Python's
  csv module for tables, whose models were exported with `--export_raw_rows`.
* **Equal** rows have the same label, tags and entities, answer and position, mask pixels, or number
  of tokens, and numbers agree to 1e-5 (tables 1e-4). The largest difference is over all rows.
* **Metrics after {steps} steps** only show that data, model and settings fit together. The recipes
  ([recipes.md](recipes.md)) have the epochs and learning rates that a model needs.
* **Made by** `bench/feeds.py` ([record](results/{record}))
  at commit {commit}, with onnxruntime {onnxruntime} and {threads} threads of a shared machine, so
  seconds are not exact.

## Commands

* **Placeholders**: `DATA` is a folder with the data sets, `ZOO` one with the exported models of
  [zoo.md](zoo.md), `TEXT` one with two files that have one text per line.
* **Models**: `{minilm}` is a sentence model that
  `cmake/fetch_minilm.sh` downloads. A run adds the head that its labels, tags or answers need. The
  command `create` makes the other models.
* **Tokenizers**: `tokenizers/gpt2` has GPT-2's vocab.json and merges.txt. `tokenizers/letters` is a
  BPE of 120 tokens for the small GPT-2 of the zoo, which has no tokenizer.
"""

METRICS = ("accuracy", "spearman", "entity_f1", "span_f1", "miou", "rmspe", "mae", "perplexity", "loss")


def typed(words):
    """Returns a command in lines of about 118 characters; a flag and its value stay together."""
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
    feeds = [r for r in report["feeds"] if "error" not in r]
    commands = COMMANDS.format(steps=report["steps"], record=record, commit=machine["commit"], threads=report["threads"],
                               onnxruntime=machine["versions"]["onnxruntime"], minilm=report["minilm"])  # fmt: skip
    equal, rows = (f"{sum(r[key] for r in feeds):,}" for key in ("equal", "rows"))
    head = HEAD.format(steps=report["steps"], equal=equal, rows=rows)
    out = [head + "\n".join(table_row(r) for r in feeds), commands]
    for r in feeds:
        commands = [r[k] for k in ("create", "train", "predict", "export") if k in r]
        out.append(f"### {r['data']}\n\n```\n" + "\n".join(typed(c) for c in commands) + "\n```\n")
    return "\n".join(out)


if __name__ == "__main__":
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    target.write_text(page(json.loads(source.read_text()), source.name).rstrip() + "\n")
