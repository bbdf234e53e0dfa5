"""Proof on a GPU, by one command that is called again until it has nothing left to do:

  tools/gpu_check.sh first_hour              everything, in order of worth
  tools/gpu_check.sh sanitize|correctness|train|kernels|bench [CASE...]   one part of it
  tools/gpu_check.sh list                    what there is, and what is done

Each call ends within --seconds (500) and goes on where the last one stopped; --again does what was done once more. Results are
written after every check to gpu-DATE.json and .md in $OUT (docs/results when that is not set): a kill loses at most the
check that was running. What later calls go on with lies in $GPU_CHECK_STATE (./state) and, packed, in $OUT/gpu-state.tar; a
gpu-state.tar beside the bundle's README (or named by --carried) is unpacked first.
Uses the bundle that it lies in (tools/gpu_bundle.sh), else what is built in --build. Nothing is installed or downloaded.
Ends with 0: all done and right; 1: something failed; 75: time is up, call it again.
--rehearse: without a GPU, the emulator and the CPU in its place: a test of this kit, of nothing else.
"""

import argparse
import datetime
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import gpu_checks
import gpu_report

ROOT = Path(__file__).resolve().parent.parent


class TimeIsUp(Exception):
    pass


def nvidia_libraries():
    """CUDA's libraries that came with PyTorch, if any: a toolkit's are found before them."""
    code = (
        "import glob, os, torch;"
        "print(':'.join(glob.glob(os.path.join(os.path.dirname(torch.__path__[0]), 'nvidia', '*', 'lib'))))"
    )
    try:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


class Kit:
    """Where things are, the clock, and running commands against it."""

    def __init__(self, args, work):
        self.args, self.work = args, Path(work)
        self.deadline = time.monotonic() + args.seconds
        self.running = None
        bundle = (ROOT / "bin" / "test_cuda").exists()
        build = Path(args.build or ROOT / "build")
        bin_ = ROOT / "bin" if bundle else build
        self.program_file = bin_ / "onnx-amp-finetune"
        tests = bin_ / "test_cuda" if bundle else build / "tests" / "test_cuda"
        for file in (self.program_file, tests):
            if not file.exists():
                sys.exit(f"{file} is missing: unpack a bundle (tools/gpu_bundle.sh), or build here: cmake --build build "
                         "-t test_cuda onnx-amp-finetune cuda_plugin")  # fmt: skip
        libraries = [str(ROOT / "lib")] if bundle else []
        libraries += ["/usr/local/cuda/lib64", nvidia_libraries(), os.environ.get("LD_LIBRARY_PATH", "")]
        self.libraries = ":".join(filter(None, libraries))
        os.environ.setdefault("ONNX_AMP_TEST_DATA", str(ROOT / "tests" / "data"))
        os.environ.setdefault("ONNX_AMP_CUDA_PLUGIN", str(bin_ / "libonnx_amp_cuda.so"))
        # Wrappers, so that only our own processes see the bundle's libraries: not Python, nor a sanitizer or profiler.
        self.program = self.wrapper("program", self.program_file)
        self.test_cuda = self.wrapper("test_cuda", tests)
        self.state = Path(os.environ.get("GPU_CHECK_STATE") or (ROOT if bundle else build / "gpu_check") / "state")
        self.out = Path(os.environ.get("OUT") or ROOT / "docs" / "results")
        for folder in (self.state, self.out):
            folder.mkdir(parents=True, exist_ok=True)
        carried = Path(args.carried or ROOT / "gpu-state.tar")
        if carried.is_file():
            gpu_report.unpack(carried, self.state)
        os.environ.setdefault("XDG_CACHE_HOME", str(self.state / "cache"))  # where choices of algorithms are kept
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(self.state / "inductor"))
        Path(os.environ["XDG_CACHE_HOME"]).mkdir(parents=True, exist_ok=True)

    def wrapper(self, name, file):
        path = self.work / name
        path.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{self.libraries}" exec "{file.resolve()}" "$@"\n')
        path.chmod(0o755)
        return path

    def left(self):
        return self.deadline - time.monotonic()

    def run(self, words, limit, env=None):
        """(exit status, standard error and output; self.table: output alone). The status is 124 when `limit` seconds were over, and TimeIsUp when the call's were."""
        seconds = min(limit, self.left() - 2)
        if seconds <= 1:
            raise TimeIsUp
        log, table = self.work / "log", self.work / "table"  # what was said; to the standard output alone: results
        with open(log, "w", encoding="utf-8") as said, open(table, "w", encoding="utf-8") as out:
            self.running = subprocess.Popen([str(w) for w in words], stdout=out, stderr=said, stdin=subprocess.DEVNULL,
                                            env=os.environ | (env or {}), start_new_session=True, cwd=ROOT)  # fmt: skip
            try:
                status = self.running.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
                status = 124
        self.running = None
        self.table = table.read_text(encoding="utf-8", errors="replace")
        text = log.read_text(encoding="utf-8", errors="replace") + self.table
        if status == 124 and seconds < limit:
            raise TimeIsUp
        return status, text

    def kill(self):
        if self.running:
            try:
                os.killpg(self.running.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.running.wait()


def commit():
    try:
        return (ROOT / "commit").read_text().strip()
    except OSError:
        done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() or "unknown"


def chosen(args):
    checks = gpu_checks.in_order(args)
    if args.part == "first_hour":
        return checks
    return [c for c in checks if c.part == args.part and (args.part != "bench" or not args.cases or c.name in args.cases)]


def work_through(kit, report, checks, again):
    """Whether all was done."""
    began, done_all = time.monotonic(), True
    for check in checks:
        if report.is_done(check.key) and not again:
            continue
        if kit.left() < check.needs:
            report.note(check.key, "unfinished", "no time was left: call it again")
            done_all = False
            continue  # a shorter one may fit
        report.begin(check.key)
        started = time.monotonic()
        try:
            outcome, text = check.work(kit)
        except TimeIsUp:
            outcome, text = "unfinished", "time is up: call it again"
        except Exception as e:  # a mistake in one check must not cost the others
            traceback.print_exc()
            outcome, text = "failed", f"the check itself broke: {type(e).__name__}: {e}"
        report.note(check.key, outcome, text, time.monotonic() - started)
        done_all = done_all and outcome != "unfinished"
    print(f"{time.monotonic() - began:.0f} s; {report.summary()}")
    return done_all


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["first_hour", "list", *gpu_checks.PARTS])
    parser.add_argument("cases", nargs="*", help="of bench")
    parser.add_argument("--seconds", type=float, default=500, help="of this call")
    parser.add_argument("--build", help="the build folder, where there is no bundle")
    parser.add_argument("--carried", help="a gpu-state.tar of an earlier machine")
    parser.add_argument("--again", action="store_true", help="what is done, too")
    parser.add_argument("--rehearse", action="store_true", help="without a GPU: a test of the kit")
    args = parser.parse_args()
    for case in args.cases:
        if args.part != "bench" or case not in gpu_checks.CASES:
            parser.error(f"bench has the cases {' '.join(gpu_checks.CASES)}, not {case}")
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as work:
        kit = Kit(args, work)
        name = f"gpu-{'rehearsal-' if args.rehearse else ''}{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}"
        report = gpu_report.Report(kit.state, kit.out / name, commit(), args.rehearse)

        def stop(number, _):
            kit.kill()
            report.stopped(number)
            os._exit(75)

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        checks = chosen(args)
        if args.part == "list":
            for check in gpu_checks.in_order(args):
                print(f"{check.key}: {report.outcome(check.key)} (needs {check.needs:.0f} s)")
            return 0
        done_all = work_through(kit, report, checks, args.again)
        return 1 if report.failed(c.key for c in checks) else 0 if done_all else 75


if __name__ == "__main__":
    sys.exit(main())
