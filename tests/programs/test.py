#!/usr/bin/env python3
"""Compares tests/programs.txt, the programs that tests may call, with this machine and with cmake/bootstrap.sh. Every program
marked essential or installed must exist; an essential one must belong to an essential Debian package; and
cmake/bootstrap.sh --tests must install the package of every installed one. Needs only Python's standard library."""
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DPKG_QUERY = "/usr/bin/dpkg-query"  # called only if it exists, because tests/programs.txt does not list it


def listed():
    for line in (ROOT / "tests/programs.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            program, package, when = line.split()
            yield program, package, when


def bootstrap_packages():
    """Returns the packages of PACKAGES and TESTS in cmake/bootstrap.sh."""
    text = (ROOT / "cmake/bootstrap.sh").read_text()
    return {word for name in ("PACKAGES", "TESTS") for word in re.search(rf'^{name}="([^"]*)"', text, re.M).group(1).split()}


def is_essential(package):
    done = subprocess.run([DPKG_QUERY, "-W", "-f", "${Essential}", package], capture_output=True, text=True)
    # bash, coreutils and others are essential. mawk provides awk, which the essential package
    # base-files requires.
    return done.stdout == "yes" or package == "mawk"


def main():
    wrong, installs = [], bootstrap_packages()
    on_path = os.environ["PATH"].split(os.pathsep)
    for program, package, when in listed():
        present = any(os.access(os.path.join(folder, program), os.X_OK) for folder in on_path)
        if when not in ("essential", "installed", "optional"):
            wrong.append(f"{program}: '{when}' is not essential, installed or optional")
        if when == "installed" and package not in installs:
            wrong.append(f"{program}: cmake/bootstrap.sh does not install {package}")
        if when == "essential" and os.path.exists(DPKG_QUERY) and not is_essential(package):
            wrong.append(f"{program}: Debian's {package} is not essential")
        if when != "optional" and not present:
            wrong.append(f"{program}: not found on this machine")
    print("\n".join(wrong) or "ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
