"""Prints instructions, registers, spills and shared memory of the kernels in a CUDA object or plugin, by cuobjdump.

  gpu_sass.py FILE [--cuobjdump PATH] [--least N] [--markdown OUT.md] [--limit N]

--least: show only kernels with at least this many instructions. --limit: exit status 1 if a kernel has more
instructions, or spills. Names are demangled by c++filt.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path


def find(given):
    for path in (given, shutil.which("cuobjdump"), "/usr/local/cuda/bin/cuobjdump"):
        if path and Path(path).exists():
            return path
    sys.exit("there is no cuobjdump: it comes with the CUDA toolkit; name it by --cuobjdump")


def run(*words):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True).stdout


def kernels(tool, file):
    """Returns a dict: mangled name -> instructions, registers, spill bytes (of the stack), shared memory."""
    found = {}
    for line in run(tool, "-res-usage", file).splitlines():
        name = re.match(r"\s*Function (\S+):", line)
        if name:
            at = found.setdefault(name.group(1), {"instructions": 0})
        used = re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", line)
        if used:
            at.update(registers=int(used.group(1)), stack=int(used.group(2)), shared=int(used.group(3)))
    at = None
    for line in run(tool, "-sass", file).splitlines():
        name = re.search(r"Function : (\S+)", line)
        if name:
            at = found.setdefault(name.group(1), {"instructions": 0})
        elif at is not None and re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+\S", line) and not re.search(r"\*/\s+(?:@!?U?PT? )?NOP", line):
            at["instructions"] += 1
            at["local"] = at.get("local", 0) + bool(re.search(r"\b(?:STL|LDL)\b", line))
    return {n: k for n, k in found.items() if k["instructions"]}


TYPES = {"0": "fp32", "2": "fp16", "3": "bf16"}  # values of DType in base/dtype.h -> names


def short(name):
    """Returns the name of the kernel's struct: "Gelu" for `void amp::cuda::entry<Gelu>(Gelu)`."""
    name = name.replace("amp::cuda::", "").replace("(anonymous namespace)::", "").replace("amp::", "")
    name = re.sub(r"^void entry<(.+?) ?>\(\1 ?\)$", r"\1", name.strip()).replace("> >", ">>").replace("> >", ">>")
    name = re.sub(r"\(DType\)(\d+)", lambda m: TYPES.get(m.group(1), f"type {m.group(1)}"), name)
    return re.sub(r"TypedRef<(\w+)>", r"\1", name).strip()


def named(found):
    """Returns the entries of kernels() as pairs with the names of short(). (They are pairs because several kernels may
    have the same short name.)"""
    shown = subprocess.run(["c++filt"], input="\n".join(found), capture_output=True, text=True, check=True).stdout.splitlines()
    return list(zip(map(short, shown), found.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--cuobjdump")
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    found = kernels(find(args.cuobjdump), args.file)
    if not found:
        sys.exit(f"{args.file} holds no kernels")
    rows = sorted(((k["instructions"], name, k) for name, k in named(found)), key=lambda r: -r[0])
    lines = ["| kernel | instructions | registers | stack bytes | local loads and stores |", "|---|---:|---:|---:|---:|"]
    lines += [f"| {s.replace('|', '/')} | {n} | {k.get('registers', '-')} | {k.get('stack', '-')} | {k.get('local', 0)} |" for n, s, k in rows if n >= args.least]
    text = "\n".join(lines) + "\n"
    if args.markdown:
        args.markdown.write_text(text)
    print(text + f"\n{len(rows)} kernels, {sum(r[0] for r in rows)} instructions")
    bad = [s for n, s, k in rows if args.limit and (n > args.limit or k.get("local"))]
    if bad:
        print(f"more than {args.limit} instructions, or spills: " + "; ".join(bad), file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
