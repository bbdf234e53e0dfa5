#!/usr/bin/env python3
"""Draws lines of code at random, for a new list of mutations.

    tests/mutation/draw.py SEED [COUNT]

Prints COUNT lines with their neighbors, in the order of the draw. Every line has the same chance, so a module counts by
its lines of code. Lines of existing lists are left out. So are lines that occur twice in their file, which an entry could
not name; CUDA, MPI and other architectures, which no test program runs on this machine; and headers that more than 12
sources include, because each mutation of these compiles most of the program again."""
import pathlib
import random
import re
import sys

import mutations

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_RUN = re.compile(r"arm/|cuda|mpi|amx|vnni")
NO_CODE = ("#", "namespace", "using", "template", "}", "public:", "private:")
MOST_SOURCES = 12


def source_files():
    found = {p for m in mutations.MODULES for e in ("*.cc", "*.h") for p in (ROOT / m).rglob(e)}
    names = {p: str(p.relative_to(ROOT)) for p in found if not NOT_RUN.search(str(p.relative_to(ROOT)))}
    return {names[p]: p for p in sorted(names)}


def sources_that_include(header, includes):
    """Counts the .cc files that include a header directly or by another header."""
    seen, todo = {header}, [header]
    while todo:
        new = {name for name, of in includes.items() if todo[-1] in of} - seen
        todo.pop()
        seen |= new
        todo += new
    return sum(name.endswith(".cc") for name in seen)


def candidates():
    taken = {(m.file, m.line) for m in mutations.read(ROOT)}
    files = source_files()
    includes = {name: set(re.findall(r'#include "([^"]+)"', path.read_text())) for name, path in files.items()}
    for name, path in files.items():
        if name.endswith(".h") and sources_that_include(name, includes) > MOST_SOURCES:
            continue
        lines = [line.strip() for line in path.read_text().splitlines()]
        for at, line in enumerate(lines):
            code = re.sub(r'"(\\.|[^"\\])*"', '""', re.split(r"\s*//", line)[0]).strip()
            if len(code) >= 8 and not code.startswith(NO_CODE) and lines.count(line) == 1 and (name, at + 1) not in taken:
                yield name, at, lines


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 120
    drawn = list(candidates())
    random.Random(seed).shuffle(drawn)
    print(f"# {len(drawn)} lines")
    for name, at, lines in drawn[:count]:
        print(f"## {name}:{at + 1}")
        for near in range(max(0, at - 4), min(len(lines), at + 5)):
            print((">> " if near == at else "   ") + lines[near])


if __name__ == "__main__":
    main()
