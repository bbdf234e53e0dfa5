#!/usr/bin/env python3
"""Mutation testing: one-line faults of the lists beside this file, and which of them the tests detect.

    tests/mutation/mutate.py                  builds once with all mutations, and runs the tests of each
    tests/mutation/mutate.py --changed main   only files that changed since main, for at most 15 minutes
    tests/mutation/mutate.py --only 17        one mutation; again after a test was added
    tests/mutation/mutate.py --list held_out  one of the lists
    tests/mutation/mutate.py --record FILE    continues a run that was stopped: skips trials whose results are in FILE
    tests/mutation/mutate.py --check          only checks that every entry of the list still matches its file

The sources are copied to --work, where each mutated line becomes a choice between both lines by the environment
variable ONNX_AMP_MUTATION (switch.py). So one build serves all mutations. A mutation is killed if one of its test
programs fails, or runs for much longer than without mutation. The test cases whose source includes a header of the mutated
file run first, because they are few and most likely to fail; then the whole programs."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import mutations
import switch

ROOT = pathlib.Path(__file__).resolve().parents[2]
SWITCH = """// Written by tests/mutation/mutate.py.
#pragma once
#include <cstdlib>
#pragma GCC diagnostic ignored "-Wbool-operation"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-value"
namespace amp_mutation {
inline const int number = std::getenv("ONNX_AMP_MUTATION") ? std::atoi(std::getenv("ONNX_AMP_MUTATION")) : 0;
inline bool is(int n) { return number == n; }
}  // namespace amp_mutation
"""
LINKED = {"tests/data", "docs"}  # folders that tests only read: links to those of the checkout


def git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True)
    return done.stdout.split("\0")[:-1]


def write_if_changed(path, text):
    """Writes a file only if its text differs. Otherwise the modification time stays, and ninja does not compile the
    file again."""
    if path.exists() and not path.is_symlink() and path.read_bytes() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


def copy_sources(work, chosen):
    by_file = {}
    for m in chosen:
        by_file.setdefault(m.file, []).append(m)
    linked = tuple(f + "/" for f in LINKED)
    all_names = git("ls-files", "-co", "--exclude-standard", "-z")
    names = [n for n in all_names if not n.startswith(linked) and (ROOT / n).is_file()]
    for name in names:
        text = (ROOT / name).read_bytes()
        if name in by_file:
            text = mutations.switched(text.decode(), by_file[name]).encode()
        write_if_changed(work / name, text)
        shutil.copymode(ROOT / name, work / name)
    write_if_changed(work / "base/mutation_switch.h", SWITCH.encode())
    for folder in LINKED:
        if not (work / folder).is_symlink():
            (work / folder).symlink_to(ROOT / folder)
    kept = set(names) | {"base/mutation_switch.h"}
    for path in [p for m in mutations.MODULES + ["tests"] for p in (work / m).rglob("*") if p.is_file()]:
        name = str(path.relative_to(work))
        if name not in kept and not name.startswith(linked):
            path.unlink()  # removed from the checkout; CMake would otherwise still find the file


def build(work, programs, arguments):
    if not (work / "build/build.ninja").exists() or arguments.cmake:
        subprocess.run(["cmake", "--preset", "release", "-DONNX_AMP_CUDA=OFF", *arguments.cmake], cwd=work, check=True)
    jobs = [f"-j{arguments.build_jobs}"] if arguments.build_jobs else []
    subprocess.run(["ninja", "-C", "build", *jobs, *(f"test_{p}" for p in programs)], cwd=work, check=True)


def near_tests(program, file):
    """Returns a filter of Catch2 for the test cases of the sources that include the header of a mutated file, or of
    its folder's main header; empty without any."""
    path = pathlib.Path(file)
    headers = {f'"{path.with_suffix(".h")}"', f'"{path.parent / path.parent.name}.h"'}
    sources = (ROOT / "tests" / program).glob("*.cc")
    return ",".join(f"[#{s.stem}]" for s in sorted(sources) if any(h in s.read_text() for h in headers))


def run(work, program, number, seconds, tests=""):
    """Returns ("passed", "failed" or "timeout", seconds) of one test program, or of some of its test cases."""
    began = time.monotonic()
    command = [work / f"build/tests/test_{program}", "--abort", "--colour-mode", "none"]
    command += ["--filenames-as-tags", "--allow-running-no-tests", tests] if tests else []
    environment = os.environ | {"ONNX_AMP_MUTATION": str(number), "OMP_WAIT_POLICY": "passive"}
    log = work / f"build/mutation_{number}_{program}.log"
    with open(log, "w") as out:
        child = subprocess.Popen(command, cwd=work, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                 start_new_session=True)
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(child.pid, 9)  # also ends processes that a failed test left running
        except ProcessLookupError:
            pass
        child.wait()
    result = "timeout" if code is None else "passed" if code in (0, 4) else "failed"  # 4: all tests were skipped
    if result == "passed":
        log.unlink()
    return result, time.monotonic() - began


class Trials:
    def __init__(self, work):
        self.work, self.usual, self.lock = work, {}, threading.Lock()

    def seconds(self, program, tests):
        """Returns the seconds of a test program, or of some of its test cases, without mutation. They must pass."""
        with self.lock:
            if (program, tests) not in self.usual:
                result, seconds = run(self.work, program, 0, 1800, tests)
                print(f"without mutation: test_{program} {tests} {result} in {seconds:.0f} s", flush=True)
                if result != "passed":
                    sys.exit(f"test_{program} must pass without mutation: {self.work}/build/mutation_0_{program}.log")
                self.usual[program, tests] = seconds
            return self.usual[program, tests]

    def try_one(self, m):
        """Returns ("killed" or "survived", the test program that failed, seconds)."""
        total, near = 0.0, [(p, tests) for p in m.programs if (tests := near_tests(p, m.file))]
        for program, tests in near + [(p, "") for p in m.programs]:
            result, seconds = run(self.work, program, m.number, 30 + 4 * self.seconds(program, tests), tests)
            total += seconds
            if result != "passed":
                return "killed", f"test_{program}" + (" (timeout)" if result == "timeout" else ""), total
        return "survived", " ".join(m.programs), total


def recorded(path):
    """Returns results that an earlier run with --record wrote, by the entry's file and both lines."""
    lines = path.read_text().splitlines() if path and path.exists() else []
    return {tuple(r["mutation"]): tuple(r["result"]) for r in map(json.loads, lines)}


def report(results, chosen, stale):
    by_result = {}
    for m in chosen:
        by_result.setdefault(results[m.number][0] if m.number in results else "not run", []).append(m)
    for m in by_result.get("survived", []):
        print(f"survived {m.number} {m.file}:{m.line}, all of {results[m.number][1]} passed\n  - {m.old}\n  + {m.new}")
    killed, survived = len(by_result.get("killed", [])), len(by_result.get("survived", []))
    equivalent = sum(1 for m in chosen if m.equivalent)
    left = len(by_result.get("not run", [])) - equivalent
    share = f", score {100 * killed / (killed + survived):.1f} %" if killed + survived else ""
    print(f"{killed} killed, {survived} survived, {equivalent} equivalent, {len(stale)} stale, {left} not run{share}")


def arguments_of(words):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="compare the lists with the sources, build nothing")
    p.add_argument("--only", type=int, nargs="+", metavar="N", help="these numbers of the lists")
    p.add_argument("--list", choices=mutations.LISTS, help="the entries of one list")
    p.add_argument("--changed", metavar="REV", help="mutations of files that changed since this commit")
    p.add_argument("--modules", nargs="+", metavar="MODULE", help="mutations of these folders")
    p.add_argument("--first_program", action="store_true", help="only the first test program of each: a lower bound")
    p.add_argument("--every", type=int, default=1, metavar="N", help="every N-th mutation: a sample")
    p.add_argument("--record", type=pathlib.Path, metavar="FILE", help="file of results: read, and appended to")
    p.add_argument("--minutes", type=float, help="no new trial after this time (--changed: 15)")
    p.add_argument("--jobs", type=int, default=1, help="trials at a time")
    p.add_argument("--build_jobs", type=int, help="ninja -j")
    p.add_argument("--work", type=pathlib.Path, default=ROOT / "build/mutation", help="copy of the sources, and its build")
    p.add_argument("--cmake", action="append", default=[], metavar="=-DX=Y", help="a further argument of cmake")
    return p.parse_args(words)


def selected(entries, a):
    if a.only:
        return [m for m in entries if m.number in a.only]
    if a.list:
        entries = [m for m in entries if m.list == a.list]
    if a.changed:
        changed = set(git("diff", "--name-only", "-z", a.changed))
        entries = [m for m in entries if m.file in changed]
    if a.modules:
        entries = [m for m in entries if m.file.split("/")[0] in a.modules]
    return entries[::a.every]


def main():
    a = arguments_of(sys.argv[1:])
    entries = mutations.read(ROOT)
    stale = [m for m in entries if m.stale]
    for m in stale:
        print(f"stale {m.number} {m.file}: {m.stale}\n  - {m.old}\n  + {m.new}")
    if a.check:
        print(f"{len(entries)} mutations, {len(stale)} stale")
        return 1 if stale else 0
    chosen = [m for m in selected(entries, a) if not m.stale]
    known = recorded(a.record)
    results = {m.number: known[m.key] for m in chosen if m.key in known}
    trials = [m for m in chosen if not m.equivalent and m.number not in results]
    for m in trials:
        m.programs = m.programs[:1] if a.first_program else m.programs
    programs = sorted({p for m in trials for p in m.programs})
    copy_sources(a.work, [m for m in chosen if not m.equivalent])
    build(a.work, programs, a)
    runner = Trials(a.work)
    minutes = a.minutes or (15 if a.changed else 0)
    until = time.monotonic() + 60 * minutes if minutes else float("inf")

    def one(m):
        if time.monotonic() < until:
            results[m.number] = runner.try_one(m)
            if a.record:
                with open(a.record, "a") as out:
                    out.write(json.dumps({"mutation": m.key, "result": results[m.number]}) + "\n")
            result, by, seconds = results[m.number]
            print(f"{result} {m.number} {m.file}:{m.line} by {by} in {seconds:.0f} s", flush=True)

    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for trial in [pool.submit(one, m) for m in trials]:
            trial.result()
    report(results, chosen, stale)
    return 1 if stale or any(r[0] == "survived" for r in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
