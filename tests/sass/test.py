"""Compares the plugin's kernels, as compiled by nvcc, with limits.json: length, registers, local memory, and GELU's
instructions per element. Run by ctest with the plugin. Exits with 4 (skipped) without cuobjdump. Standard library only."""

import argparse
import json
import re
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
import gpu_sass  # noqa: E402

WIDTH = 4  # elements that a thread of an elementwise kernel processes per iteration


def elementwise(name):
    return f"Elementwise<{name}, float, float, {WIDTH}>"


class SassTest(unittest.TestCase):
    found = {}
    limits = json.loads((HERE / "limits.json").read_text())

    def test_no_kernel_is_long(self):
        most = self.limits["instructions"]
        self.assertEqual({n: k["instructions"] for n, k in self.found.items() if k["instructions"] > most}, {})

    def test_registers(self):
        for pattern, most in self.limits["registers"].items():
            these = {n: k["registers"] for n, k in self.found.items() if re.fullmatch(pattern, n)}
            self.assertTrue(these, f"no kernel is {pattern}")
            self.assertEqual({n: r for n, r in these.items() if r > most}, {})

    def test_local_memory(self):
        """Registers that spill and arrays that are indexed use local memory. limits.json lists the kernels that may,
        with reasons."""
        allowed = self.limits["local memory"]
        used = {n: k.get("stack", 0) for n, k in self.found.items() if k.get("local", 0) or k.get("stack", 0)}
        self.assertEqual({n: b for n, b in used.items() if not any(re.fullmatch(p, n) for p in allowed)}, {})
        for pattern in allowed:
            self.assertTrue(any(re.fullmatch(pattern, n) for n in used), f"nothing needs the exception {pattern}")

    def test_arithmetic_of_an_element(self):
        """Compares a kernel with one that differs only in its functor, which is a single instruction. The difference in
        length is the functor's number of instructions."""
        for name, limit in self.limits["of an element"].items():
            whole = self.found[elementwise(name)]["instructions"]
            base = self.found[elementwise(limit["beside"])]["instructions"]
            with self.subTest(name):
                self.assertGreater(whole, base)
                self.assertLessEqual((whole - base) / WIDTH + 1, limit["instructions"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plugin", type=Path, required=True)
    parser.add_argument("--cuobjdump")
    args = parser.parse_args()
    try:
        tool = gpu_sass.find(args.cuobjdump)
    except SystemExit as missing:
        print(f"skipped: {missing}")
        return 4
    for name, k in gpu_sass.named(gpu_sass.kernels(tool, args.plugin)):
        worst = SassTest.found.setdefault(name, {})  # the maximum of all kernels of this name
        worst.update({what: max(n, worst.get(what, 0)) for what, n in k.items()})
    if not SassTest.found:
        sys.exit(f"{args.plugin} holds no kernels")
    return 0 if unittest.main(argv=[sys.argv[0]], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
