"""What tools/gpu_check.py keeps: results written after every check, the state that travels, loss curves compared."""

import json
import os
import subprocess
import tarfile
import time
from pathlib import Path

# Largest |difference| / (1 + |loss|): of the first 20 steps, and of the mean of the last 20. Rounding moves curves apart.
ALLOWED = {"fp32": (1e-4, 1e-2), "fp16": (2e-2, 5e-2), "bf16": (5e-2, 1e-1)}


def losses(path):
    return [json.loads(line)["loss"] for line in Path(path).read_text().splitlines()]


def curves(a, b, precision):
    """(whether they agree, what to say)"""
    x, y = losses(a), losses(b)
    if len(x) != len(y) or len(x) < 40:
        return False, f"{len(x)} and {len(y)} steps"
    apart = lambda p, q: abs(p - q) / (1 + abs(p))
    first = max(apart(p, q) for p, q in zip(x[:20], y[:20]))
    last = apart(sum(x[-20:]) / 20, sum(y[-20:]) / 20)
    fell = sum(y[-20:]) / 20 < y[0]
    allowed = ALLOWED[precision]
    said = f"first 20 steps differ by {first:.1e}, the end by {last:.1e}; loss {y[0]:.3f} to {y[-1]:.3f}"
    return first <= allowed[0] and last <= allowed[1] and fell, said


def gpu_facts():
    query = "name,driver_version,memory.total,compute_cap,clocks.max.sm,clocks.sm,temperature.gpu"
    try:
        words = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=30).stdout.strip()
        return dict(zip(query.split(","), said.split(", "))) if said else {}
    except (OSError, subprocess.TimeoutExpired):
        return {}


def replace(path, text):
    """All of it or nothing, whenever it is killed."""
    part = path.with_name(path.name + ".part")
    with open(part, "w", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(part, path)


# Compiled code and models are large and can be made again.
LEFT_BEHIND = ("inductor", "models")


def pack(state, file):
    part = file.with_name(file.name + ".part")
    with tarfile.open(part, "w") as tar:
        for path in sorted(state.iterdir()):
            if path.name not in LEFT_BEHIND and not path.name.endswith(".part"):
                tar.add(path, path.name)
    os.replace(part, file)


def unpack(file, state):
    """What is there already stays: it is newer."""
    with tarfile.open(file) as tar:
        for member in tar.getmembers():
            to = state / member.name
            if ".." in Path(member.name).parts or member.name.startswith("/") or not (member.isfile() or member.isdir()):
                continue
            if member.isdir():
                to.mkdir(parents=True, exist_ok=True)
            elif not to.exists():
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(tar.extractfile(member).read())


class Report:
    """checks.json in the state's folder, and after each note the whole report in `to`.json and `to`.md."""

    def __init__(self, state, to, commit, rehearsal):
        self.state, self.to, self.file = state, to, state / "checks.json"
        try:
            self.all = json.loads(self.file.read_text())
        except (OSError, ValueError):
            self.all = {}
        if self.all.get("commit") != commit or self.all.get("rehearsal") != rehearsal:  # what other code did says nothing of this
            self.all = {"commit": commit, "rehearsal": rehearsal, "checks": {}}
        for key, check in self.all["checks"].items():
            if check["outcome"] == "running":
                check.update(outcome="unfinished", text="it was cut off while it ran")
        self.gpu = gpu_facts()

    def is_done(self, key):
        return self.outcome(key) in ("ok", "failed", "skipped")

    def outcome(self, key):
        return self.all["checks"].get(key, {}).get("outcome", "not yet")

    def failed(self, keys):
        return any(self.outcome(k) == "failed" for k in keys)

    def summary(self):
        outcomes = [c["outcome"] for c in self.all["checks"].values()]
        return ", ".join(f"{outcomes.count(o)} {o}" for o in ("ok", "failed", "skipped", "unfinished"))

    def begin(self, key):
        self.all["checks"][key] = {"outcome": "running", "text": ""}
        replace(self.file, json.dumps(self.all, indent=1))

    def note(self, key, outcome, text, seconds=0.0):
        text = " ".join(text.split())
        self.all["checks"][key] = {"outcome": outcome, "text": text, "seconds": round(seconds, 1),
                                   "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}  # fmt: skip
        print(f"{key}: {outcome} {text}", flush=True)
        self.write()

    def stopped(self, number):
        for key, check in self.all["checks"].items():
            if check["outcome"] == "running":
                check.update(outcome="unfinished", text=f"stopped by signal {number}")
        self.write()

    def write(self):
        replace(self.file, json.dumps(self.all, indent=1))
        full = self.all | {"gpu": self.gpu, "bench": {}, "kernels": {}}
        tables = []
        for kind in ("kernels", "bench"):
            for f in sorted(self.state.glob(f"{kind}-*.json")):
                try:
                    full[kind][f.stem[len(kind) + 1 :]] = json.loads(f.read_text())
                    tables.append(f.with_suffix(".md").read_text())
                except (OSError, ValueError):  # half of it, when it was killed
                    pass
        replace(self.to.with_suffix(".json"), json.dumps(full, indent=1) + "\n")
        head = f"# On a GPU: {self.gpu.get('name', 'none found')}, driver {self.gpu.get('driver_version', '-')}, commit {full['commit']}"
        if full["rehearsal"]:
            head = (f"# A rehearsal without a GPU, commit {full['commit']}\n\nNothing here was measured or proved on a GPU: the emulator "
                    "and the CPU stood in its place, to try the kit itself. No time below means anything.")  # fmt: skip
            tables = []
        lines = [head, "", "| check | outcome | s | |", "|---|---|---:|---|"]
        lines += [f"| {n} | {c['outcome']} | {c.get('seconds', 0):.0f} | {c['text'].replace('|', '/')} |" for n, c in full["checks"].items()]
        replace(self.to.with_suffix(".md"), "\n".join(lines + tables) + "\n")
        pack(self.state, self.to.with_name("gpu-state.tar"))
