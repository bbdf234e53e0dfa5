"""tools/gpu_check.py against fakes of test_cuda and the program: results after every check, kills, time that runs out, state that
travels. Run by ctest; Python's standard library alone."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

TEST_CUDA = """#!/bin/sh
echo "$1" >>"$FAKE_LOG"
case "$1" in *"$FAKE_FAILS"*) echo "x FAILED:"; echo "test cases: 1 | 1 failed"; exit 1 ;; esac
case "$1" in *"$FAKE_SLOW"*) sleep 60 ;; esac
echo "All tests passed (3 assertions in 1 test case)"
"""
PROGRAM = """#!/bin/sh
[ "$1" = version ] && { echo "version 0"; exit 0; }
while [ $# -gt 0 ]; do [ "$1" = --output_dir ] && out=$2; shift; done
mkdir -p "$out"
echo weights >"$out/model.onnx"
i=0
while [ $i -lt 60 ]; do echo "{\\"loss\\": $((100 - i))}"; i=$((i + 1)); done >"$out/metrics.jsonl"
"""
SANITIZER = """#!/bin/sh
[ "$1" = --help ] && { echo "--target-processes --kernel-name"; exit 0; }
case "$*" in *"$FAKE_FAULT"*) echo "========= Invalid __global__ read of size 4 bytes"; exit 9 ;; esac
[ -z "$FAKE_REFUSES" ] || { echo "========= Error: Device not supported"; exit 1; }
while [ "$1" != --error-exitcode ]; do shift; done
shift 2
exec "$@"
"""


class KitTest(unittest.TestCase):
    def setUp(self):
        self.top = Path(tempfile.mkdtemp(prefix="gpu-kit-"))
        self.addCleanup(shutil.rmtree, self.top)
        self.bundle = self.top / "bundle"
        shutil.copytree(ROOT / "tools", self.bundle / "tools", ignore=shutil.ignore_patterns("*.cc", "*.h", "cli", "__pycache__"))
        (self.bundle / "commit").write_text("abc123")
        self.script("bundle/bin/test_cuda", TEST_CUDA)
        self.script("bundle/bin/onnx-amp-finetune", PROGRAM)
        self.script("path/compute-sanitizer", SANITIZER)
        self.out = self.top / "out"

    def script(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def env(self, **more):
        env = {k: v for k, v in os.environ.items() if k not in ("GPU_CHECK_STATE", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR")}
        # no torch: the bench and kernel times say so
        return env | {"PATH": f"{self.top}/path:{os.environ['PATH']}", "OUT": str(self.out), "FAKE_LOG": str(self.top / "log"), "FAKE_FAILS": "?",
                      "FAKE_SLOW": "?", "FAKE_FAULT": "?", "FAKE_REFUSES": "", "PYTHON": sys.executable, "PYTHONNOUSERSITE": "1"} | more  # fmt: skip

    def words(self, *words):
        return ["sh", str(self.bundle / "tools" / "gpu_check.sh"), *words]

    def run_kit(self, *words, **env):
        done = subprocess.run(self.words(*words), env=self.env(**env), cwd=self.top, capture_output=True, text=True, timeout=120)
        self.said = done.stdout + done.stderr
        return done.returncode

    def checks(self):
        report = next(p for p in self.out.glob("gpu-*.json"))
        return {k: c["outcome"] for k, c in json.loads(report.read_text())["checks"].items()}

    def ran(self):
        log = self.top / "log"
        return log.read_text().splitlines() if log.exists() else []

    def test_everything_in_order_of_worth(self):
        self.assertEqual(self.run_kit("first_hour"), 0, self.said)
        checks = self.checks()
        self.assertEqual(list(checks)[:3], ["correctness version", "sanitize memcheck FusedAttention", "sanitize memcheck FusedAttentionGrad"])
        self.assertTrue({o for k, o in checks.items() if not k.startswith(("bench", "kernels"))} == {"ok"}, checks)
        self.assertEqual(len(list(self.out.iterdir())), 3)  # json, md, the state: few files come back from a machine
        before = len(self.ran())
        self.assertEqual(self.run_kit("first_hour"), 0)  # nothing is left to do
        self.assertEqual(len(self.ran()), before)

    def test_a_failure_is_said_and_does_not_stop_the_rest(self):
        self.assertEqual(self.run_kit("correctness", FAKE_FAILS="models agree"), 1)
        checks = self.checks()
        self.assertEqual(checks["correctness zoo"], "failed")
        self.assertEqual(checks["correctness memory"], "ok")

    def test_a_sanitizer_that_finds_and_one_that_refuses(self):
        self.run_kit("sanitize", FAKE_FAULT="racecheck")
        self.assertEqual(self.checks()["sanitize racecheck FusedAttention"], "failed")
        self.assertEqual(self.checks()["sanitize memcheck FusedAttention"], "ok")
        self.assertEqual(self.run_kit("sanitize", "--again", FAKE_REFUSES="1"), 0, self.said)
        self.assertEqual(self.checks()["sanitize memcheck FusedAttention"], "skipped")

    def cut(self, number, outcome_text):
        process = subprocess.Popen(self.words("correctness"), env=self.env(FAKE_SLOW="models agree"), cwd=self.top,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        for _ in range(400):
            time.sleep(0.05)
            if any("models agree" in line for line in self.ran()):
                break
        (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)
        process.wait(30)
        checks = self.checks()
        self.assertEqual([checks.get(f"correctness {n}") for n in ("version", "kernels", "update")], ["ok"] * 3)
        before = self.ran()
        self.assertEqual(self.run_kit("correctness"), 0, self.said)  # goes on with the one that was cut off
        self.assertEqual(len(self.ran()), len(before) + 3)
        self.assertEqual(set(self.checks().values()), {"ok"})

    def test_a_kill_loses_the_running_check_alone(self):
        self.cut(signal.SIGKILL, "cut off")

    def test_a_signal_is_noted(self):
        self.cut(signal.SIGTERM, "stopped by signal")

    def test_time_that_runs_out_and_state_that_travels(self):
        began = time.monotonic()
        self.assertEqual(self.run_kit("correctness", "--seconds", "12", "--rehearse", FAKE_SLOW="device's update"), 75, self.said)
        self.assertLess(time.monotonic() - began, 20)
        first = self.checks()
        self.assertEqual(first["correctness kernels"], "ok")
        self.assertIn("unfinished", first.values())
        # another machine: the bundle is unpacked anew, what came back is carried along
        shutil.copy(self.out / "gpu-state.tar", self.bundle / "gpu-state.tar")
        shutil.rmtree(self.bundle / "state")
        shutil.rmtree(self.out)
        before = len(self.ran())
        self.assertEqual(self.run_kit("correctness", "--rehearse"), 0, self.said)
        self.assertEqual(len(self.ran()) - before, list(first.values()).count("unfinished"))
        self.assertTrue("rehearsal" in next(self.out.glob("*.md")).read_text())


if __name__ == "__main__":
    unittest.main()
