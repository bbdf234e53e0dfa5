"""Lists the contents of a finished run, without times, and the differences between two runs."""
import hashlib
import json
from pathlib import Path

# Parts of keys whose values may differ between equal runs.
TIMES = ("second", "per_s", "memory", "rss", "finished_at", "output_dir")
HOW_STARTED = ("resume", "overwrite", "max_minutes")  # settings that run.json records
TEMPORARY = (".tmp-", ".probe-", ".finish")  # parts of names that a process does not leave when it ends


def digest(path):
    """Returns the SHA-256 of a file, or None if it does not exist."""
    path = Path(path)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def without_times(value):
    """Returns a JSON value without the members that differ between two equal runs."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if not any(t in k for t in TIMES)}
    if isinstance(value, list):
        return [without_times(v) for v in value]
    return value


def lines(path):
    """Returns the lines of a JSONL file without times, or None if there is no file."""
    if not path.exists():
        return None
    found = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            found.append(without_times(json.loads(line)))
        except ValueError:
            found.append(f"no JSON: {line[:40]!r}")
    return found


def record(path):
    """Returns run.json without times and without the settings of the start."""
    try:
        value = without_times(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        return f"unreadable: {error}"
    for part in ("config", "sources"):
        for key in HOW_STARTED:
            value.get(part, {}).pop(key, None)
    return value


def contents(folder):
    """Returns the contents of a finished run that two equal runs have in common."""
    folder = Path(folder)
    checkpoints = sorted((folder / "checkpoints").glob("checkpoint-*"))
    return {
        "model.onnx": digest(folder / "model.onnx"),
        "metrics.jsonl": lines(folder / "metrics.jsonl"),
        "eval.jsonl": lines(folder / "eval.jsonl"),
        "run.json": record(folder / "run.json"),
        "checkpoints": {c.name: [digest(c / name) for name in ("state.safetensors", "manifest.json")]
                        for c in checkpoints},
    }


def differences(wanted, got, path=""):
    """Returns the differences as texts: at most three for each list, and all for objects."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        keys = sorted(set(wanted) | set(got))
        return [d for k in keys for d in differences(wanted.get(k), got.get(k), f"{path}/{k}")]
    if wanted == got:
        return []
    if isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            return [f"{path}: {len(wanted)} entries wanted, {len(got)} found"]
        pairs = enumerate(zip(wanted, got))
        return [f"{path}[{i}]: {str(a)[:160]} wanted, {str(b)[:160]} found" for i, (a, b) in pairs if a != b][:3]
    return [f"{path}: {str(wanted)[:120]} wanted, {str(got)[:120]} found"]


def temporary(folder):
    """Returns names of files and folders that a process does not leave when it ends."""
    folder = Path(folder)
    if not folder.exists():
        return []
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if any(t in p.name for t in TEMPORARY))


def wrong_result(wanted, folder):
    """Returns problems of a run that ended with exit code 0: other contents than `wanted`, or temporary files."""
    problems = [f"differs: {d}" for d in differences(wanted, contents(folder))[:5]]
    left = temporary(folder) + [p.name for p in Path(folder).glob(".new-run")]
    return problems + ([f"left {left}"] if left else [])
