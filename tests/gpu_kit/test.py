"""Tests tools/gpu_smoke.py and tools/gpu_check.py with planted faults: a missing library, a kernel that hangs or crashes, a
wrong loss, a signal, the end of the time limit. Each fault must be reported in time, and no result may be lost. The
program, the tests and NVIDIA's tools are replaced by scripts. Run by ctest; Python's standard library only."""

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

# FAKE_FAULT (hang, crash, wrong) happens on --device cuda in commands that contain FAKE_IN, while what FAKE_BY names
# (graphs, cudnn) is in use.
PROGRAM = """#!/bin/sh
echo "$LD_LIBRARY_PATH $*" >>"$FAKE_LOG"
all="$*" verb=$1
while [ $# -gt 0 ]; do
  case $1 in --out | --output_dir) out=$2 ;; --device) device=$2 ;; esac
  shift
done
[ "$verb" = create ] && { echo model >"$out"; exit 0; }
fault=$FAKE_FAULT
[ "$device" = cuda ] || fault=
case "$all" in *"$FAKE_IN"*) ;; *) fault= ;; esac
case $FAKE_BY in
  graphs) [ "$ONNX_AMP_CUDA_GRAPHS" = 0 ] && fault= ;;
  cudnn) case ${ONNX_AMP_CUDA_LIBRARIES-cudnn} in *cudnn*) ;; *) fault= ;; esac ;;
esac
[ "$fault" = hang ] && { trap '' TERM; echo "before the kernel hangs"; sleep 61 & sleep 60; }
[ "$fault" = crash ] && { echo "before the crash"; kill -SEGV $$; }
[ "$verb" = bench ] && { echo "  1  8.0  the step"; exit 0; }
mkdir -p "$out"
i=0
while [ $i -lt 30 ]; do
  loss=$((100 - i))
  [ "$fault" = wrong ] && [ $i -gt 4 ] && loss=null
  echo "{\\"loss\\": $loss, \\"samples_per_s\\": 4000}"
  i=$((i + 1))
done >"$out/metrics.jsonl"
"""
TEST_CUDA = """#!/bin/sh
echo "$* $ONNX_AMP_CUDA_LIBRARIES" >>"$FAKE_LOG"
case "$1" in names*) printf 'MatMul\\nSoftmax\\nGelu\\n'; exit 0 ;; esac
case "$*" in
  *"$FAKE_CRASH"*) kill -SEGV $$ ;;
  *"$FAKE_SLOW"*) sleep 60 ;;
  *"$FAKE_MARGIN"*) echo "deviation 1.7 $3 bf16"; echo "x FAILED:"; echo "  CHECK( off <= 1 )"; exit 1 ;;
esac
echo "deviation 0.25 $3 fp32"
echo "All tests passed (3 assertions in 1 test case)"
"""
SANITIZER = """#!/bin/sh
case "$*" in *"$FAKE_RACE"*) echo "========= Invalid __global__ read of size 4 bytes"; exit 9 ;; esac
[ -z "$FAKE_REFUSES" ] || { echo "========= Error: Device not supported"; exit 1; }
while [ "$1" != --error-exitcode ]; do shift; done
shift 2
exec "$@"
"""
NCU = """#!/bin/sh
echo '"ID","Kernel Name","Metric Name","Metric Value"'
echo '"0","gemm","gpu__time_duration.sum","2,000"'
echo '"0","gemm","dram__bytes.sum","4096"'
"""
LDD = """#!/bin/sh
echo "	libcudart.so.13 => /somewhere/libcudart.so.13 (0x1)"
[ -z "$FAKE_MISSING" ] || echo "	$FAKE_MISSING => not found"
"""


class KitTest(unittest.TestCase):
    def setUp(self):
        self.top = Path(tempfile.mkdtemp(prefix="gpu-kit-"))
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        self.bundle, self.out = self.top / "bundle", self.top / "out"
        shutil.copytree(ROOT / "tools", self.bundle / "tools", ignore=shutil.ignore_patterns("*.cc", "*.h", "cli", "__pycache__"))
        (self.bundle / "commit").write_text("abc123")
        for entry in ("lenet_relu_dyn18", "bert_cls_eager_ts14"):
            (self.bundle / "tests" / "data" / "zoo" / entry).mkdir(parents=True)
            (self.bundle / "tests" / "data" / "zoo" / entry / "model.onnx").touch()
        for name, text in (("bundle/bin/onnx-amp-finetune", PROGRAM), ("bundle/bin/test_cuda", TEST_CUDA), ("path/ldd", LDD),
                           ("bundle/bin/libonnx_amp_cuda.so", ""), ("path/compute-sanitizer", SANITIZER), ("path/ncu", NCU),
                           ("path/nvidia-smi", "#!/bin/sh\necho a GPU, 580\n")):  # fmt: skip
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)

    def env(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("ONNX_AMP_", "GPU_KIT_"))}
        return env | {"PATH": f"{self.top}/path:{os.environ['PATH']}", "OUT": str(self.out), "TMPDIR": str(self.top),
                      "FAKE_LOG": str(self.top / "log"), "FAKE_FAULT": "", "FAKE_IN": "", "FAKE_BY": "", "FAKE_MISSING": "",
                      "FAKE_CRASH": "?", "FAKE_SLOW": "?", "FAKE_MARGIN": "?", "FAKE_RACE": "?", "FAKE_REFUSES": ""} | more  # fmt: skip

    def words(self, script, *words):
        return [sys.executable, str(self.bundle / "tools" / script), *words]

    def call(self, script, *words, **env):
        began = time.monotonic()
        done = subprocess.run(self.words(script, *words), env=self.env(**env), cwd=self.top, capture_output=True, text=True, timeout=120)
        self.seconds, self.said = time.monotonic() - began, done.stdout + done.stderr
        return done.returncode

    def steps(self, name="smoke"):
        return json.loads((self.out / f"{name}.json").read_text())["steps"]

    def outcomes(self, name="smoke"):
        return {k: s["outcome"] for k, s in self.steps(name).items()}

    def ran(self):
        log = self.top / "log"
        return log.read_text().splitlines() if log.exists() else []

    def still_running(self, seconds=5):
        """Returns processes of this bundle that were not killed; a killed one has some seconds to end."""
        found, end = self.sleeping(), time.monotonic() + seconds
        while found and time.monotonic() < end:
            time.sleep(0.1)
            found = self.sleeping()
        return found

    def sleeping(self):
        found = []
        for p in Path("/proc").glob("[0-9]*"):
            try:
                if str(self.bundle).encode() in (p / "environ").read_bytes() and (p / "cmdline").read_bytes().startswith(b"sleep"):
                    found.append(p.name)
            except OSError:
                pass
        return found

    # --- smoke

    def test_a_smoke_test_where_all_is_right(self):
        self.assertEqual(self.call("gpu_smoke.py"), 0, self.said)
        outcomes = self.outcomes()
        self.assertEqual(set(outcomes.values()), {"ok"}, outcomes)
        self.assertEqual(len(outcomes), 2 + 6 + 3 + 5)
        self.assertIn("8.000 ms a step", self.steps()["BERT-base B32 S128 bf16, trained"]["text"])
        self.assertEqual({p.name for p in self.out.iterdir()}, {"smoke.json", "bert-base.txt"})

    def test_a_missing_library_is_named_and_nothing_runs(self):
        self.assertEqual(self.call("gpu_smoke.py", FAKE_MISSING="libcublasLt.so.13"), 2, self.said)
        self.assertEqual(self.outcomes(), {"libraries": "FAILED"})
        self.assertIn("libcublasLt.so.13", self.steps()["libraries"]["text"])
        self.assertEqual(self.ran(), [])

    def test_a_hanging_kernel_is_bisected_and_killed_with_its_children(self):
        self.assertEqual(self.call("gpu_smoke.py", "--patience", "0.1", FAKE_FAULT="hang", FAKE_BY="graphs",
                                   FAKE_IN="LeNet-fp32"), 1)
        step = self.steps()["LeNet fp32"]
        self.assertEqual(step["outcome"], "FAILED")
        self.assertIn("did not end within 3 s", step["text"])
        self.assertIn("right without graphs, graphs and fusion; as wrong without fusion, libraries", step["text"])
        self.assertEqual(self.outcomes()["tiny BERT fp32"], "ok")
        self.assertIn("before the kernel hangs", (self.out / "smoke-failed.log").read_text())
        self.assertLess(self.seconds, 30)
        self.assertEqual(self.still_running(), [])

    def test_a_crash_is_named_and_its_log_kept(self):
        self.assertEqual(self.call("gpu_smoke.py", FAKE_FAULT="crash", FAKE_IN="bench"), 1)
        outcomes = self.outcomes()
        self.assertEqual(outcomes["LeNet bf16"], "ok")
        for name in ("tiny gpt2, bf16", "BERT-base B32 S128 bf16, kernel by kernel"):
            self.assertIn("crashed with SIGSEGV", self.steps()[name]["text"])
        self.assertEqual(outcomes["BERT-base B32 S128 bf16, trained"], "ok")
        self.assertIn("before the crash", (self.out / "smoke-failed.log").read_text())

    def test_a_wrong_loss_of_one_library(self):
        self.assertEqual(self.call("gpu_smoke.py", FAKE_FAULT="wrong", FAKE_BY="cudnn", FAKE_IN="lenet"), 1)
        text = self.steps()["LeNet fp32"]["text"]
        self.assertIn("right without libraries, cuDNN; as wrong without graphs", text)
        self.assertIn("wrong from step 6 on", text)
        self.assertIn("the CPU's [100", (self.out / "smoke-failed.log").read_text())

    def test_libraries_of_python_packages_come_before_others(self):
        wheel, other = self.top / "site-packages" / "nvidia" / "cu13" / "lib", self.top / "toolkit"
        wheel.mkdir(parents=True)
        other.mkdir()
        self.call("gpu_smoke.py", PYTHONPATH=str(self.top / "site-packages"), LD_LIBRARY_PATH=str(other))
        folders = self.ran()[0].split(" ")[0].split(":")
        self.assertLess(folders.index(str(wheel)), folders.index(str(other)))

    # --- check

    def test_checks_in_processes_of_their_own(self):
        code = self.call("gpu_check.py", "--only", "tests", "ncu", "sanitizers", FAKE_CRASH="-c MatMul", FAKE_MARGIN="-c Gelu",
                         FAKE_RACE="racecheck")  # fmt: skip
        self.assertEqual(code, 1, self.said)
        outcomes, steps = self.outcomes("check"), self.steps("check")
        self.assertEqual(steps["kernel MatMul"]["text"].split(";")[0], "crashed with SIGSEGV")
        self.assertIn("largest deviation 1.7 of what is allowed (Gelu bf16)", steps["kernel Gelu"]["text"])
        self.assertEqual([outcomes[k] for k in ("kernel Softmax", "model lenet_relu_dyn18", "fused attention on the GPU is the CPU's")],
                         ["ok"] * 3)  # fmt: skip
        self.assertEqual((outcomes["memcheck Softmax"], outcomes["racecheck Softmax"]), ("ok", "FAILED"))
        self.assertTrue(any("-c LayerNorm none" in line for line in self.ran()))  # sanitizers run without libraries
        self.assertIn("1 launches, 0.002 ms", steps["ncu BERT-base"]["text"])
        self.assertEqual(json.loads((self.out / "check.json").read_text())["deviations"]["Gelu bf16"], 1.7)
        self.assertLessEqual(len(list(self.out.iterdir())), 8)  # only few files can be copied back from a machine

    def test_a_sanitizer_that_refuses_the_device(self):
        self.assertEqual(self.call("gpu_check.py", "--only", "sanitizers", FAKE_REFUSES="1"), 0, self.said)
        self.assertEqual(self.outcomes("check")["memcheck Softmax"], "skipped")

    def cut(self, number):
        process = subprocess.Popen(self.words("gpu_check.py", "--only", "tests"), env=self.env(FAKE_SLOW="-c Softmax"), cwd=self.top,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        for _ in range(400):
            time.sleep(0.05)
            outcomes = self.outcomes("check") if (self.out / "check.json").exists() else {}
            if [outcomes.get(f"kernel {k}") for k in ("MatMul", "Softmax", "Gelu")] == ["ok", "running", "ok"]:
                break
        os.kill(process.pid, number)
        process.wait(30)
        self.assertEqual(self.outcomes("check")["kernel MatMul"], "ok")
        return process.returncode, self.outcomes("check")["kernel Softmax"]

    def test_a_signal_is_noted_and_a_kill_loses_nothing(self):
        self.assertEqual(self.cut(signal.SIGTERM), (75, "unfinished"))
        self.assertEqual(self.still_running(), [])
        self.assertEqual(self.cut(signal.SIGKILL), (-9, "running"))
        for pid in self.still_running(0):
            os.kill(int(pid), signal.SIGKILL)

    def test_time_that_is_over(self):
        began = time.monotonic()
        self.assertEqual(self.call("gpu_check.py", "--only", "tests", "ncu", "--seconds", "8", FAKE_SLOW="-c Softmax"), 75, self.said)
        self.assertLess(time.monotonic() - began, 20)
        outcomes = self.outcomes("check")
        self.assertEqual((outcomes["kernel Softmax"], outcomes["kernel Gelu"], outcomes["ncu BERT-base"]), ("unfinished", "ok", "not run"))


if __name__ == "__main__":
    unittest.main()
