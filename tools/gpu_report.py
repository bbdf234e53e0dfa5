"""What tools/gpu_check.sh needs of Python's standard library: comparing loss curves, and writing the report.

  gpu_report.py curves A.jsonl B.jsonl --precision fp32    losses of two runs; ends with 1 when they part
  gpu_report.py write REPORT FOLDER COMMIT                 FOLDER's notes and bench results into REPORT.json and REPORT.md
"""

import json
import subprocess
import sys
from pathlib import Path

# Largest |difference| / (1 + |loss|): of the first 20 steps, and of the mean of the last 20. Rounding moves curves apart.
ALLOWED = {"fp32": (1e-4, 1e-2), "fp16": (2e-2, 5e-2), "bf16": (5e-2, 1e-1)}


def losses(path):
    return [json.loads(line)["loss"] for line in Path(path).read_text().splitlines()]


def curves(a, b, precision):
    x, y = losses(a), losses(b)
    if len(x) != len(y) or len(x) < 40:
        print(f"{len(x)} and {len(y)} steps")
        return 1
    apart = lambda p, q: abs(p - q) / (1 + abs(p))
    first = max(apart(p, q) for p, q in zip(x[:20], y[:20]))
    last = apart(sum(x[-20:]) / 20, sum(y[-20:]) / 20)
    fell = sum(y[-20:]) / 20 < y[0]
    allowed = ALLOWED[precision]
    print(f"first 20 steps differ by {first:.1e}, the end by {last:.1e}; loss {y[0]:.3f} to {y[-1]:.3f}")
    return 0 if first <= allowed[0] and last <= allowed[1] and fell else 1


def facts():
    query = "name,driver_version,memory.total,compute_cap,clocks.max.sm,clocks.sm,temperature.gpu"
    try:
        words = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
        return dict(zip(query.split(","), subprocess.run(words, capture_output=True, text=True).stdout.strip().split(", ")))
    except OSError:
        return {}


def write(report, folder, commit):
    path = Path(report + ".json")
    all_ = json.loads(path.read_text()) if path.exists() else {"checks": {}, "bench": {}, "tables": {}}
    all_["commit"], all_["gpu"] = commit, facts()
    notes = Path(folder) / "notes.tsv"
    for line in notes.read_text().splitlines() if notes.exists() else []:
        slice_, name, outcome, text = line.split("\t", 3)
        all_["checks"][f"{slice_} {name}"] = {"outcome": outcome, "text": text}
    for f in sorted(Path(folder).glob("bench-*.json")):
        all_["bench"][f.stem[6:]] = json.loads(f.read_text())
        all_["tables"][f.stem[6:]] = f.with_suffix(".md").read_text()
    path.write_text(json.dumps(all_, indent=1) + "\n")
    gpu = all_["gpu"]
    out = [f"# On a GPU: {gpu.get('name', 'none found')}, driver {gpu.get('driver_version', '-')}, commit {commit}", ""]
    out += ["| check | outcome | |", "|---|---|---|"]
    out += [f"| {n} | {c['outcome']} | {c['text'].replace('|', '/')} |" for n, c in all_["checks"].items()]
    out += all_["tables"].values()
    Path(report + ".md").write_text("\n".join(out) + "\n")
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 6 and sys.argv[1] == "curves" and sys.argv[4] == "--precision":
        sys.exit(curves(sys.argv[2], sys.argv[3], sys.argv[5]))
    if len(sys.argv) == 5 and sys.argv[1] == "write":
        sys.exit(write(*sys.argv[2:]))
    sys.exit(__doc__)
