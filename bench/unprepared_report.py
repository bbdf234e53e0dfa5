"""Writes docs/unprepared.md from the results of unprepared_compare.py, with both halves of the
architectures separate and every deviation by name.
"""

import json
from collections import Counter
from pathlib import Path

import common

HALVES = ("fit", "held-out")
KINDS = ("sgd", "adamw", "default")


def share(part, whole):
    return f"{part} ({100 * part / whole:.2f} %)" if whole else str(part)


def reasons(r):
    """Returns the reasons why an entry differs from PyTorch, as text; empty if it does not."""
    out = []
    if "error" in r:
        out.append(f"`{r['error']}`" + (f"; {r['engine']}" if "engine" in r else ""))
    if r.get("loss_ratio", 0) > 1:
        out.append(f"loss off by {r['loss_error']:.0e}; ours is {r['loss_engine_error']}")
    if r.get("gradients", 0) > 1:
        bad = r["gradients_bad"]
        text = ", ".join(f"`{b['torch']}`" for b in bad[:3]) + (f" and {len(bad) - 3} more" if len(bad) > 3 else "")
        worst = "not finite" if r["gradients"] == float("inf") else f"{r['gradients']:.3g} times the tolerance"
        out.append(f"gradients of {text} ({worst})")
    steps = [f"{k} {r[k]:.2g}" for k in KINDS if (r.get(k) or 0) > 1]
    if steps:
        why = "trains constants, see above" if r["wrong"] else "misses weights, see above" if r["missed"] else "see below"
        out.append(f"ten steps, as multiples of the tolerance: {', '.join(steps)} ({why})")
    return out


def table(rows):
    head = ["", *HALVES, "all"]
    columns = [[r for r in rows if r["half"] == h] for h in HALVES] + [rows]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * 3]

    def line(text, value):
        lines.append(f"| {text} | " + " | ".join(str(value(c)) for c in columns) + " |")

    total = lambda c, key: sum(r.get(key, 0) for r in c)
    length = lambda c, key: sum(len(r.get(key, ())) for r in c)
    within = lambda c, key: sum(r.get(key, 9) is not None and r.get(key, 9) <= 1 for r in c)
    line("architectures", lambda c: len({r["architecture"] for r in c}))
    line("files", len)
    line("floating-point tensors that the output depends on", lambda c: total(c, "tensors"))
    line("... that are parameters, also transposed, reshaped, divided or joined", lambda c: total(c, "weights"))
    line("... folded from parameters (convolution + BatchNorm, `1 + w`, `exp(w)`); of these trained", lambda c: f"{total(c, 'folded')}; {total(c, 'folded_trained')}")
    line("... gathered from parameters (relative positions); of these trained", lambda c: f"{total(c, 'gathered')}; {total(c, 'gathered_trained')}")
    line("... constants", lambda c: total(c, "constants"))
    line("**weights missed** (parameters that do not train), share of the parameters", lambda c: share(length(c, "missed"), total(c, "weights")))
    line("**constants trained**, share of all tensors", lambda c: share(length(c, "wrong"), total(c, "tensors")))
    line("files that the program cannot run or train", lambda c: sum("error" in r for r in c))
    line("loss equal to PyTorch's", lambda c: f"{within(c, 'loss_ratio')} of {sum('loss_ratio' in r for r in c)}")
    line("all gradients equal", lambda c: f"{within(c, 'gradients')} of {sum('gradients' in r for r in c)}")
    line("... parameters compared, of those with a gradient", lambda c: f"{total(c, 'gradients_compared')} of {total(c, 'gradients_all')}")
    for kind, text in zip(KINDS, ("SGD", "AdamW", "default flags")):
        line(f"ten steps equal, {text}", lambda c, kind=kind: f"{within(c, kind)} of {sum(r.get(kind) is not None for r in c)}")
    line("... files in which some parameters had to be held fixed on both sides", lambda c: sum(bool(r.get("frozen")) for r in c))
    return lines


def cell(text):
    """Returns text for a cell of a Markdown table."""
    return text.replace("|", "\\|")


def names(entries):
    return ", ".join(f"`{n}`" for n in entries)


def text(rows, index, facts, torch_version):
    states = Counter((e["exporter"], e["state"]) for e in index)
    ok = {e["name"] for e in index if e["state"] == "ok"}
    failed = [e for e in index if e["state"] == "export"]
    lines = [
        "# Models without preparation",
        "",
        *common.prose(
            f"This page tests the program on {len(ok)} architectures for which it was not prepared: models of transformers, torchvision and timm, and "
            f"models written by hand. They are tiny and have random weights. PyTorch {torch_version} exported them with its TorchScript exporter "
            f"(files `NAME_ts`: {states['ts', 'ok']}) and its dynamo exporter (`NAME_dyn`: {states['dyn', 'ok']}). Each file is trained by the program "
            "and by PyTorch, and the results are compared."
        ),
        "",
        *table(rows),
        "",
        *common.prose(
            "**Two halves.** A hash of the name assigns an architecture to a half. The rules by which the program finds the weights of a file may be "
            "fitted to the first half (column \"fit\"); the second half (\"held-out\") is only for testing.",
            "* ",
        ),
        *common.prose(
            "**Origin of tensors.** Every element of every parameter has a distinct value, so it is known which tensors of a file come from "
            "parameters.",
            "* ",
        ),
        *common.prose(
            "**Equal** means within a tolerance. Loss: 1e-6. Gradients: 1e-5 of the largest element of the parameter's gradient, or 10 times PyTorch's distance from "
            "float64. Ten steps: 1e-4 of the first loss, or 10 times the distance of PyTorch's run from its float64 run.",
            "* ",
        ),
        *common.prose(
            "**Held fixed**: a tensor that was folded from parameters is a weight of the file, but PyTorch has no such parameter. So "
            "neither side trains it in the ten steps. The same holds for a parameter of which the file has only a part, several copies "
            "in one tensor, or nothing.",
            "* ",
        ),
        "",
        *common.prose(
            f"Made by `bench/unprepared.py` with {facts['program'].splitlines()[0]}; [bench/README.md](../bench/README.md#unpreparedpy) describes "
            "the comparison."
        ),
        "",
        "## Weights missed and constants trained",
        "",
    ]
    for half in HALVES:
        lines += [f"### {half}", ""]
        listed = [r for r in rows if r["half"] == half and (r.get("missed") or r.get("wrong"))]
        for r in listed:
            parts = [f"{what} {names(r[key])}" for what, key in (("missed", "missed"), ("trained", "wrong")) if r.get(key)]
            lines.append(f"- {r['entry']}: {'; '.join(parts)}")
        lines += [*([] if listed else ["None."]), ""]
    lines += ["## Deviations", ""]
    deviations = [(r["entry"], reasons(r)) for r in rows]
    listed = [f"| {entry} | {cell('; '.join(why))} |" for entry, why in deviations if why]
    lines += ["| file | deviation |", "|---|---|", *listed] if listed else ["None."]
    lines += ["", (Path(__file__).parent / "unprepared_notes.md").read_text().rstrip()]
    lines += ["", "## Models that the exporters refused", ""]
    listed = [f"| {e['name']}_{e['exporter']} | {cell(e['error'][:160])} |" for e in failed]
    lines += ["| model | error |", "|---|---|", *listed] if listed else ["None."]
    return "\n".join(lines) + "\n"


def main(args):
    rows = json.loads((args.corpus / "compared.json").read_text())
    index = json.loads((args.corpus / "index.json").read_text())
    found = {e["folder"] for e in index if e["state"] == "ok"}
    rows = [r for r in rows if r["entry"] in found]
    first = json.loads((args.corpus / rows[0]["entry"] / "ref.json").read_text())
    page = text(rows, index, common.machine_facts(common.find_binary(args.binary)), first["versions"]["torch"].split("+")[0])
    if args.out:
        args.out.write_text(page)
    else:
        print(page)
