#!/usr/bin/env python3
"""clang-tidy 16, with .clang-tidy, on the sources that a build folder compiles, in parallel.

  tests/tidy.py                    all sources
  tests/tidy.py FILE|FOLDER...     only these
  tests/tidy.py --since REVISION   sources that differ from the revision

A file without findings is not checked again until the file, a header of this project that it includes, or the checks change.
This is recorded in a cache folder, by default next to that of cmake/bootstrap.sh. Exits with 1 for a finding, and with 4 if
clang-tidy 16 is not installed."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULES = ("base", "graph", "backend", "ops", "importer", "precision", "data", "trainer", "run", "tools")
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.M)
PRECOMPILED = re.compile(r" -Winvalid-pch| -include \S+cmake_pch\.hxx")
FINDING = re.compile(r"^(?=\S+:\d+:\d+: (?:error|warning): )", re.M)


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True).stdout.splitlines()


def cache_folder():
    own = os.environ.get("ONNX_AMP_DEPS")
    general = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return (pathlib.Path(own) if own else general / "onnx-amp-finetune") / "tidy"


def parted(entries):
    """Replaces a file that only includes others, as CMake makes for a unity build, by those files, each with its
    command."""
    out = []
    for entry in entries:
        path = pathlib.Path(entry["directory"]) / entry["file"]
        if path.parent.name != "Unity":
            out.append(entry)
            continue
        for name in INCLUDE.findall(path.read_bytes()):
            name = os.fsdecode(name)
            out.append(entry | {"file": name, "command": entry["command"].replace(entry["file"], name)})
    return out


def sources(entries):
    """Returns the files of the modules that are compiled, as paths from ROOT, without generated files. Files of CUDA
    kernels are left out, because the emulator compiles them."""
    paths = {(pathlib.Path(e["directory"]) / e["file"]).resolve() for e in entries}
    inside = (p.relative_to(ROOT) for p in paths if p.is_relative_to(ROOT) and p.suffix == ".cc")
    return {str(p) for p in inside if p.parts[0] in MODULES}


def without_precompiled_headers(entries, folder):
    """Removes the options of g++'s precompiled headers, which clang cannot read."""
    for entry in entries:
        entry["command"] = PRECOMPILED.sub("", entry["command"])
    (folder / "compile_commands.json").write_text(json.dumps(entries))


class Clean:
    """Records, by content, which files had no findings."""

    def __init__(self, folder, version):
        self.folder = folder
        self.checks = version.encode() + (ROOT / ".clang-tidy").read_bytes()
        self.closures = {}
        folder.mkdir(parents=True, exist_ok=True)

    def closure(self, path):  # the file and the headers of this project that it includes
        if path not in self.closures:
            self.closures[path] = {path}
            text = (ROOT / path).read_bytes()
            for name in INCLUDE.findall(text):
                name = os.fsdecode(name)
                if (ROOT / name).is_file():
                    self.closures[path] = self.closures[path] | self.closure(name)
        return self.closures[path]

    def mark(self, path):
        digest = hashlib.sha256(self.checks)
        for name in sorted(self.closure(path)):
            digest.update(os.fsencode(name) + b"\0" + (ROOT / name).read_bytes())
        return self.folder / digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--since", metavar="REVISION")
    parser.add_argument("--cache", type=pathlib.Path, default=cache_folder())
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("paths", nargs="*")
    args = parser.parse_args()
    tool = shutil.which("clang-tidy-16")
    if not tool:
        print("clang-tidy 16 is not installed")
        return 4
    entries = parted(json.loads((args.build / "compile_commands.json").read_text()))
    wanted = tuple(p.rstrip("/") for p in args.paths)
    known = sources(entries)
    unknown = [w for w in wanted if not any(f == w or f.startswith(w + "/") for f in known)]
    if unknown:
        print(f"{args.build} compiles no such source: {', '.join(unknown)}")
        return 1
    files = sorted(f for f in known if not wanted or f in wanted or f.startswith(tuple(w + "/" for w in wanted)))
    if args.since:
        changed = set(git("diff", "--name-only", args.since, "--")) | set(git("ls-files", "--others", "--exclude-standard"))
        files = [f for f in files if f in changed]
    clean = Clean(args.cache, subprocess.run([tool, "--version"], capture_output=True, text=True).stdout)
    marks = {f: clean.mark(f) for f in files}

    def check(path):
        if marks[path].exists():
            return "known", path, ""
        run = subprocess.run([tool, "-p", commands, "--quiet", "--extra-arg=-Wno-unknown-warning-option",
                              "--extra-arg=-Wno-unknown-pragmas", "--extra-arg=-Wno-ignored-optimization-argument", ROOT / path],
                             cwd=ROOT, capture_output=True, text=True)
        if run.returncode == 0:
            marks[path].touch()
        errors = "" if "error:" in run.stdout else run.stderr  # messages of clang-tidy about itself, not about the source
        return ("clean", path, "") if run.returncode == 0 else ("findings", path, run.stdout + errors)

    counts = dict.fromkeys(("clean", "known", "findings"), 0)
    told = set()  # findings of a header are repeated for every file that includes it
    with tempfile.TemporaryDirectory() as commands, concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        without_precompiled_headers(entries, pathlib.Path(commands))
        for result, path, text in pool.map(check, files):
            counts[result] += 1
            for finding in FINDING.split(text):
                if finding.strip() and finding not in told:
                    told.add(finding)
                    print(finding.replace(f"{ROOT}/", ""), end="", flush=True)
    print(f"{counts['clean']} files clean, {counts['known']} clean before, {counts['findings']} with findings")
    return 1 if counts["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
