#!/usr/bin/env python3
"""Checks that binaries have the protections of cmake/hardening.cmake.

  tests/hardening/test.py BINARY...

An option that the compiler silently ignores, or a target that does not get it, would not be noticed otherwise."""

import re
import subprocess
import sys


def readelf(option, path):
    return subprocess.run(["readelf", "--wide", option, path], check=True, capture_output=True, text=True).stdout


def missing(path):
    """Returns the protections that the ELF file `path` lacks."""
    header, segments, dynamic = readelf("--file-header", path), readelf("--program-headers", path), readelf("--dynamic", path)
    imported = set(re.findall(r" UND (\w+)", readelf("--dyn-syms", path)))
    stack = re.search(r"GNU_STACK\s.*", segments)
    protections = {
        "position-independent code": "DYN" in header,
        "a stack without execute permission": stack and "RWE" not in stack.group(),
        "relocations that are read-only after the start (RELRO)": "GNU_RELRO" in segments,
        "functions that are resolved at the start (BIND_NOW)": "NOW" in dynamic,
        "a stack protector": "__stack_chk_fail" in imported,
        "_FORTIFY_SOURCE": any(name.endswith("_chk") and name != "__stack_chk_fail" for name in imported),
    }
    return [name for name, present in protections.items() if not present]


failed = [f"{path}: lacks {name}" for path in sys.argv[1:] for name in missing(path)]
print("\n".join(failed) or f"{len(sys.argv) - 1} files have all protections")
sys.exit(bool(failed) or len(sys.argv) < 2)
