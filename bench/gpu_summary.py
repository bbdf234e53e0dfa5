"""Summarizes the measurements of gpu.py: ratios, goals, Markdown."""

import common
import gpu_models

# A goal has the measured quantity and whether larger is better. The case defines its minimum and its target.
GOALS = {
    "best": ("a step in 16 bits, times as fast as PyTorch's best", True),
    "eager": ("a step in 16 bits, times as fast as PyTorch's eager AMP", True),
    "own_fp32": ("a step in 16 bits, times as fast as our own fp32 (TF32)", True),
    "memory": ("peak device memory in 16 bits by that of our own fp32", False),
    "update": ("the update's bytes a second by those of a copy", True),
    "first_step": ("seconds from the start of the process to the end of its first step", False),
}


def is_ours(label):
    return label.startswith("onnx-amp-finetune")


def summarise(name, r):
    """Adds the contents of the tables to the case."""
    case = gpu_models.CASES[name]
    rows = {}
    for label, arm in r["blocks"].items():
        runs = arm["runs"]
        rows[label] = {
            "precision": arm["precision"],
            "step_ms": common.summary([b["step_seconds"] * 1e3 for b in runs]),
            "peak_bytes": max(b["peak"] for b in runs),
            "library_bytes": max(b.get("library_bytes", 0) for b in runs),
            "skipped_steps": max(b.get("skipped", 0) for b in runs),
        }
    passed = {label: not is_ours(label) or r[f"parity {row['precision']}"]["passed"] for label, row in rows.items()}
    time_of = lambda label: rows[label]["step_ms"]["median"]
    pick = lambda test: min((l for l in rows if passed[l] and test(l)), key=time_of, default=None)
    best = pick(lambda l: not is_ours(l))
    eager = pick(lambda l: " eager" in l and rows[l]["precision"] != "fp32")
    low = pick(lambda l: is_ours(l) and rows[l]["precision"] != "fp32")
    wide = pick(lambda l: is_ours(l) and rows[l]["precision"] == "fp32")

    def ratio(a, b):  # how many times faster a is than b in the same round
        pairs = zip(r["blocks"][a]["runs"], r["blocks"][b]["runs"])
        return common.summary([y["step_seconds"] / x["step_seconds"] for x, y in pairs])

    for label, row in rows.items():
        if best and passed[label]:
            row["speed_ratio"] = ratio(label, best)
    found = {}
    for key, other in (("best", best), ("eager", eager), ("own_fp32", wide)):
        if low and other:
            found[key] = ratio(low, other)["median"]
    if low and wide and rows[wide]["peak_bytes"]:
        found["memory"] = rows[low]["peak_bytes"] / rows[wide]["peak_bytes"]
    update = r.get("update", {}).get("ours")
    if update:
        found["update"] = update["bytes"] / update["seconds"] / update["copy_bytes_per_s"]
    if "first_step" in r:
        found["first_step"] = r["first_step"]["first"]
    r |= {"what": case["what"], "batch": case["batch"], "pytorch_best": best, "arms": rows}
    r["goals"] = {k: {"floor": floor, "aim": aim, "measured": found.get(k)} for k, (floor, aim) in case["goals"].items()}


def met(key, goal):
    if goal["measured"] is None:
        return "not measured"
    reaches = lambda limit: goal["measured"] >= limit if GOALS[key][1] else goal["measured"] <= limit
    if goal["aim"] is not None and reaches(goal["aim"]):
        return "aim"
    return "yes" if reaches(goal["floor"]) else "NO"


def print_case(r):
    data = r["data"]
    text = f", {data['tokens'] / data['steps']:.0f} tokens a step" if data["tokens"] else ""
    if data["tokens"] and data["padded"] > data["tokens"]:
        text += f" ({1 - data['tokens'] / data['padded']:.0%} of the padded batches is padding)"
    print(f"\n**{r['what']}**, batch {r['batch']}{text}, {data['steps']} steps a block\n")
    unit = "tokens/s" if data["tokens"] else "samples/s"
    print(f"| | ms a step | IQR | {unit} | speed against PyTorch's best | least - most | peak MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for label, row in r["arms"].items():
        ms, ratio = row["step_ms"], row.get("speed_ratio")
        against = (
            f"{ratio['median']:.2f} | {min(ratio['values']):.2f} - {max(ratio['values']):.2f}"
            if ratio
            else "losses differ: no ratio | -"
        )
        mark = " (best)" if label == r["pytorch_best"] else ""
        items = data["tokens"] / data["steps"] if data["tokens"] else r["batch"]
        peak = f"{row['peak_bytes'] / 2**20:.0f}" if row["peak_bytes"] else "-"
        print(
            f"| {label}{mark} | {ms['median']:.3g} | {ms['q1']:.3g} - {ms['q3']:.3g} "
            f"| {items / ms['median'] * 1e3:.0f} | {against} | {peak} |"
        )
    print("\n| goal | floor | aim | measured | met |\n|---|---:|---:|---:|---|")
    for key, goal in r["goals"].items():
        number = lambda v: "-" if v is None else f"{v:.3g}"
        print(f"| {GOALS[key][0]} | {number(goal['floor'])} | {number(goal['aim'])} | {number(goal['measured'])} | {met(key, goal)} |")
    steps = r.get("first_step")
    compiled = [d["first_step"] for d in r["screened"].values() if d["mode"] != "eager"]
    if steps:
        print(f"\nFirst step ({steps['precision']}): {steps['first']:.2f} s after the start of the process, {steps['again']:.2f} s with "
          "choices on disk" + (f"; PyTorch's, compiled: {min(compiled):.1f} to {max(compiled):.1f} s." if compiled else "."))  # fmt: skip
    if r.get("update"):
        u = r["update"]
        print(f"Update ({u['precision']}): " + (f"{u['ours']['seconds'] * 1e3:.3f} ms" if u["ours"] else "the host's") +
              f"; PyTorch's unscale, clip_grad_norm_ and fused AdamW: {u['pytorch_seconds'] * 1e3:.3f} ms.")  # fmt: skip
    parity = ", ".join(f"{k[7:]} {v['worst']:.1e} (allowed {v['allowed']:.0e})" for k, v in r.items() if k.startswith("parity "))
    print(f"Losses beside PyTorch's: {parity}.")
    for label, why in r["failed"].items():
        print(f"Refused by PyTorch: {label}: {why.strip().splitlines()[-1][:200].replace('|', '/')}")
