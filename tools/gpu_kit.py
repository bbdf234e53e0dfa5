"""Code that gpu_smoke.py and gpu_check.py share: finding NVIDIA's libraries, commands with limits, and results that are
kept if the process is killed.

Results are written to $OUT/NAME.json after every step, and the whole log of every command that failed is appended to
$OUT/NAME-failed.log. Each command runs in a separate process group, which is killed at its time limit. Only
Python's standard library is used, and no package is imported to find its libraries: importing torch takes seconds.
"""

import array
import concurrent.futures
import contextlib
import glob
import importlib.util
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_LOG, MOST_LOGS = 1 << 20, 12 << 20  # bytes that are kept of one log, and of all logs
GRACE = 10  # seconds to wait after a kill: a process that waits for the driver may never end
# The plugin is linked with other libraries. It loads these three only when it needs them, and runs without them.
LOADED_LATER = ["libcudnn.so.9", "libnvrtc.so.13", "libnccl.so.2"]


class OutOfTime(Exception):
    pass


@dataclass
class Ended:
    """How a command ended. status: exit status, negative signal number, or 124 for a time limit."""

    status: int
    text: str
    seconds: float
    said: str = ""  # how it ended, for people; empty: with status 0
    output: str = ""  # standard output only; text has standard error too


def library_folders():
    """Returns the folders of NVIDIA's libraries. Those of Python packages come before a toolkit's, because the versions
    of the packages match each other."""
    spec = importlib.util.find_spec("nvidia")
    homes = list((spec and spec.submodule_search_locations) or [])
    sites = [sysconfig.get_paths()[k] for k in ("purelib", "platlib")] + [p for p in sys.path if p.endswith("-packages")]
    sites += glob.glob("/opt/*/.venv/lib/python3*/site-packages")
    folders = [str(ROOT / "lib")]
    for home in [*homes, *(f"{s}/nvidia" for s in sites)]:
        folders += sorted(glob.glob(f"{home}/*/lib"))
    folders += ["/usr/local/cuda/lib64", *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    return [f for f in dict.fromkeys(folders) if f and os.path.isdir(f)]


def find_tool(name):
    return shutil.which(name) or next((p for p in [f"/usr/local/cuda/bin/{name}"] if os.path.exists(p)), None)


def last_lines(text, lines=3):
    return " ".join(" ".join(text.strip().splitlines()[-lines:]).split())[-500:]


class Kit:
    """The clock, the commands and the report of one run of a script."""

    def __init__(self, name, seconds, patience=1.0):
        """patience: a factor by which the time limits of all commands are multiplied."""
        self.patience = patience
        self.name, self.end, self.began = name, time.monotonic() + seconds, time.monotonic()
        bundle = (ROOT / "bin").is_dir()
        home = ROOT if bundle else ROOT / "build" / "gpu_kit"
        self.out = Path(os.environ.get("OUT") or home / "results")
        self.out.mkdir(parents=True, exist_ok=True)
        roomy = os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 4 << 30
        fast = "/dev/shm" if roomy and not os.environ.get("TMPDIR") else None
        self.work = Path(tempfile.mkdtemp(prefix=f"gpu-{name}-", dir=fast))
        self.lock, self.children, self.logged = threading.Lock(), set(), 0
        self.report = {"commit": self.commit(), "steps": {}}
        self.failed_log = self.out / f"{name}-failed.log"
        self.failed_log.unlink(missing_ok=True)
        self.folders = library_folders()
        self.bin = ROOT / "bin" if bundle else ROOT / "build"
        self.interrupted = False
        self.program = self.bin / "onnx-amp-finetune"
        self.tests = self.bin / "test_cuda" if bundle else self.bin / "tests" / "test_cuda"
        self.plugin = Path(os.environ.get("ONNX_AMP_CUDA_PLUGIN") or self.bin / "libonnx_amp_cuda.so")
        state = Path(os.environ.get("GPU_KIT_STATE") or home / "state")  # choices of algorithms, kept for the next run
        self.environment = os.environ | {"XDG_CACHE_HOME": str(state / "cache"), "PYTHONUNBUFFERED": "1",
                                         "ONNX_AMP_CUDA_PLUGIN": str(self.plugin),
                                         "ONNX_AMP_TEST_DATA": str(ROOT / "tests" / "data")}  # fmt: skip
        (state / "cache").mkdir(parents=True, exist_ok=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stopped)

    @staticmethod
    def commit():
        with contextlib.suppress(OSError):
            return (ROOT / "commit").read_text().strip()
        return "unknown"

    def left(self):
        return self.end - time.monotonic()

    def read_ahead(self):
        """Reads the libraries' files into the page cache in the background: half a gigabyte, perhaps from a slow
        disk."""

        def read():
            for pattern in ("libcublasLt.so.13", "libcudnn*.so.9"):
                files = next(filter(None, (glob.glob(f"{f}/{pattern}") for f in self.folders)), [])
                for file in files:
                    with contextlib.suppress(OSError), open(file, "rb", buffering=0) as f:
                        while f.read(1 << 24):
                            pass

        threading.Thread(target=read, daemon=True).start()

    # --- commands

    def run(self, words, limit, env=None, ours=True):
        """Runs a command for at most `limit` seconds. ours: whether it is the project's program, which needs the
        folders of NVIDIA's libraries in its environment."""
        asked = limit * self.patience
        limit = min(asked, self.left() - 2)
        if limit < 1 and limit < asked:
            raise OutOfTime
        more = {"LD_LIBRARY_PATH": ":".join(self.folders)} if ours else {}
        began = time.monotonic()
        with tempfile.TemporaryFile(dir=self.work) as log, tempfile.TemporaryFile(dir=self.work) as out:
            try:
                child = subprocess.Popen([str(w) for w in words], stdout=out, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT,
                                         env=self.environment | more | (env or {}), start_new_session=True)  # fmt: skip
            except OSError as e:
                return self.ended(words, Ended(127, str(e), 0.0, f"cannot be started: {e}"))
            with self.lock:
                self.children.add(child.pid)
            try:
                status, said = child.wait(limit), ""
            except subprocess.TimeoutExpired:
                status, said = 124, f"did not end within {limit:.3g} s"
                if not self.kill(child):
                    said += f", nor within {GRACE} s after SIGKILL"
            with self.lock:
                self.children.discard(child.pid)
            texts = []
            for f in (log, out):
                f.seek(0)
                texts.append(f.read(64 << 20).decode(errors="replace"))
        if status < 0:
            said = f"crashed with {signal.Signals(-status).name}"
        elif status and not said:
            said = f"exit {status}: {last_lines(texts[0] or texts[1])}"
        e = self.ended(words, Ended(status, texts[0] + texts[1], time.monotonic() - began, said, texts[1]))
        if status == 124 and limit < asked:
            raise OutOfTime
        return e

    def ended(self, words, e):
        if e.said:
            self.keep_log(words, e)
        return e

    @staticmethod
    def kill(child):
        """Kills the process group. Returns False if its first process does not end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
            return True
        return False

    def keep_log(self, words, e):
        """Appends the log of a command that failed or computed something wrong."""
        text = e.text if len(e.text) <= MOST_LOG else f"{e.text[: MOST_LOG // 2]}\n...\n{e.text[-MOST_LOG // 2 :]}"
        text = f"=== {' '.join(map(str, words))}\n=== {e.said or 'ended well'} after {e.seconds:.1f} s\n{text}\n"
        with self.lock:
            if self.logged + len(text) > MOST_LOGS:
                return
            self.logged += len(text)
            with open(self.failed_log, "a", encoding="utf-8", errors="replace") as f:
                f.write(text)

    def wrapper(self, file):
        """Writes a script that runs `file` with the folders of NVIDIA's libraries. A Python, profiler or sanitizer that
        must run without these folders calls the script."""
        path = self.work / f"run-{file.name}"
        path.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{":".join(self.folders)}" exec "{file}" "$@"\n')
        path.chmod(0o755)
        return path

    # --- steps

    def step(self, name, work, needs=3):
        """Runs work(), which returns (success, text), and records the result. Returns success."""
        needs *= self.patience
        if self.left() < needs:
            return self.note(name, "not run", f"it needs {needs} s, {max(0, self.left()):.0f} s are left")
        self.note(name, "running", "")
        began = time.monotonic()
        try:
            right, text = work()
            outcome = {True: "ok", False: "FAILED", None: "skipped"}[right]
        except OutOfTime:
            outcome, text = "unfinished", "the call's time is over"
        except Exception as e:  # an exception in one step must not prevent the other steps
            outcome, text = "FAILED", f"the kit itself failed: {type(e).__name__}: {e}"
            traceback.print_exc()
        return self.note(name, outcome, text, time.monotonic() - began)

    def steps(self, jobs, workers):
        """Runs steps (name, work), `workers` of them at a time."""
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda job: self.step(*job), jobs))

    def note(self, name, outcome, text, seconds=0.0):
        text = " ".join(str(text).split())
        with self.lock:
            if self.interrupted:  # stopped() records what the killed commands were doing
                return False
            self.report["steps"][name] = {"outcome": outcome, "seconds": round(seconds, 1), "text": text[:2000]}
            self.write()
        if outcome != "running":
            print(f"{outcome:10} {seconds:6.1f} s  {name}: {text[:300]}", flush=True)
        return outcome == "ok"

    def write(self):
        part = self.out / f".{self.name}.{threading.get_ident()}"
        part.write_text(json.dumps(self.report, indent=1) + "\n", encoding="utf-8")
        os.replace(part, self.out / f"{self.name}.json")

    def stopped(self, number, _):
        """Signal handler: kills running commands and records the interruption."""
        try:
            self.interrupted = True
            for pid in list(self.children):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            for step in list(self.report["steps"].values()):
                if step["outcome"] == "running":
                    step.update(outcome="unfinished", text=f"stopped by {signal.Signals(number).name}")
            self.write()
            shutil.rmtree(self.work, ignore_errors=True)
        finally:
            os._exit(75)

    def finish(self):
        """Prints failures again at the end, because a long output may be shown only from its end. Returns the exit
        status."""
        shutil.rmtree(self.work, ignore_errors=True)
        steps = self.report["steps"]
        outcomes = [s["outcome"] for s in steps.values()]
        wrong = {n: s for n, s in steps.items() if s["outcome"] not in ("ok", "skipped")}
        print(f"\n{outcomes.count('ok')} of {len(outcomes)} ok, {time.monotonic() - self.began:.0f} s, commit {self.report['commit']}")
        for name, s in wrong.items():
            print(f"{s['outcome']:10} {name}: {s['text'][:400]}")
        if self.failed_log.exists():
            print(f"logs of what failed: {self.failed_log}")
        return 1 if "FAILED" in outcomes else 75 if wrong else 0

    # --- shared first steps

    def libraries(self):
        """Records where each library is. If one is missing, returns False and prints a line that names it, because
        nothing can run without it."""
        for file in (self.program, self.plugin):
            if not file.exists():
                self.note("libraries", "FAILED", f"{file} is missing: unpack a bundle of tools/gpu_bundle.sh")
                return False
        ldd = self.run(["ldd", self.program, self.plugin], 20)
        missing = sorted({line.split()[0] for line in ldd.text.splitlines() if "not found" in line})
        if missing or ldd.status:
            text = f"{', '.join(missing)} in none of {' '.join(self.folders)}" if missing else ldd.said
            self.note("libraries", "FAILED", text, ldd.seconds)
            return False
        later = {n: next((f for f in self.folders if os.path.exists(f"{f}/{n}")), "not found") for n in LOADED_LATER}
        linked = [" ".join(line.split()[:3]) for line in ldd.text.splitlines() if "libcu" in line]
        self.note("libraries", "ok", "; ".join(linked + [f"{n} in {f}" for n, f in later.items()]), ldd.seconds)
        smi = find_tool("nvidia-smi")
        if smi:
            query = "--query-gpu=name,driver_version,memory.total,compute_cap,clocks.sm,temperature.gpu"
            facts = self.run([smi, query, "--format=csv,noheader"], 20, ours=False)
            self.report["gpu"] = facts.text.strip()
            self.note("nvidia-smi", "FAILED" if facts.status else "ok", facts.said or facts.text, facts.seconds)
        return True


def write_token_batches(path, rows, length, vocabulary):
    """Writes a .safetensors file with random token ids, and labels of two classes."""
    random.seed(0)
    ids = array.array("q", (random.randrange(vocabulary) for _ in range(rows * length)))
    label = array.array("q", (random.randrange(2) for _ in range(rows)))
    tensors = {"input_ids": (ids, [rows, length]), "attention_mask": (array.array("q", [1]) * len(ids), [rows, length]),
               "token_type_ids": (array.array("q", [0]) * len(ids), [rows, length]), "label": (label, [rows])}  # fmt: skip
    head, at = {}, 0
    for name, (values, shape) in tensors.items():
        head[name] = {"dtype": "I64", "shape": shape, "data_offsets": [at, at + 8 * len(values)]}
        at += 8 * len(values)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(values.tobytes() for values, _ in tensors.values()))
