#!/usr/bin/env python3
"""Checks that the samples of recipes are those that models/*/make_sample.py writes. Texts are compared by bytes, and some
pictures by pixels, because compressed bytes depend on the version of zlib. Needs only Python's standard library."""
import gzip
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = [  # (script, its arguments, the committed folder that it made)
    ("rossmann", ["{}"], "models/rossmann/sample"),
    ("unet", ["{}", "1"], "models/unet/sample"),  # "1": only the first picture of each part
    ("xnli", ["--folder", "{}"], "models/xnli/sample"),
    ("xnli", "--folder {} --train 12 --dev 12 --test 12 --languages de en --train_languages de en".split(), "tests/data/xnli"),
]


def content(path):
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix != ".png":
        return data
    at, out = 8, b""  # after the signature: chunks of length, kind, data, checksum
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        part = data[at + 8 : at + 8 + size]
        out += zlib.decompress(part) if kind == b"IDAT" else part
        at += size + 12
    return out


def main():
    bad = 0
    for name, arguments, folder in SAMPLES:
        with tempfile.TemporaryDirectory() as made:
            script = ROOT / "models" / name / "make_sample.py"
            subprocess.run([sys.executable, script, *(a.format(made) for a in arguments)], check=True)
            paths = sorted(p for p in Path(made).rglob("*") if p.is_file())
            names = [p.relative_to(made) for p in paths]
            committed = {p.relative_to(ROOT / folder) for p in (ROOT / folder).rglob("*.*") if p.name != "README.md"}
            different = [n for n in names if n not in committed or content(Path(made) / n) != content(ROOT / folder / n)]
            if name != "unet":  # only some of its committed files are made
                different += committed - set(names)
        print(f"{folder}: {len(paths)} files made, different: {', '.join(map(str, different)) or 'none'}")
        bad += bool(different) or not paths
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
