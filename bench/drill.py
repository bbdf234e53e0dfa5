#!/usr/bin/env python3
"""Fault drill: everyday mistakes, signals, full disks and small limits (cases: drill_cases.py;
standard library only).

Each case runs the program in a separate folder and checks: the exit code; that the last line of
stderr is one JSON object with the id, the code, a location and a hint; that every flag in a hint
exists; that no existing file is lost or changed; that only the files that the case permits are
left; and that the case's `then` commands, which follow the hint, succeed. Ends with "N passed, N
failed, N skipped".

  bench/drill.py                 all cases
  bench/drill.py --quick         cases without limits, mounts and long runs
  bench/drill.py --only overwrite --keep
"""

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from array import array
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 60


class Skip(Exception):
    """The reason why a case cannot run here."""


@dataclass
class Case:
    name: str
    args: list  # arguments of the command; {d} is the case's folder
    exit: object  # the expected code, or several
    id: str = ""  # id of the error
    setup: list = field(default_factory=list)  # commands, or functions of the folder, before the snapshot
    how: dict = field(default_factory=dict)  # limits and events: fsize, memory, cgroup, stdout, signal + when, hold
    leaves: list = field(default_factory=list)  # globs of files that may be new or changed
    says: str = ""  # text that stderr must contain
    then: list = field(default_factory=list)  # (command, exit) or functions of the folder afterwards
    quick: bool = True


def safetensors(path, tensors):
    header, body, at = {}, b"", 0
    for name, (dtype, shape, data) in tensors.items():
        raw = data.tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        body, at = body + raw, at + len(raw)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def images(path, n, seed=1, label=lambda r: r.randrange(10), value=lambda r: r.random()):
    r = Random(seed)
    pixels = array("f", (value(r) for _ in range(784)))
    data = array("f")
    for _ in range(n):
        k = r.randrange(784)
        data.extend(pixels[k:] + pixels[:k])
    labels = array("q", (label(r) for _ in range(n)))
    safetensors(path, {"input": ("F32", [n, 1, 28, 28], data), "label": ("I64", [n], labels)})


def materials(folder):
    """Writes the files that the cases use, once."""
    shutil.copy(ROOT / "tests/data/zoo/lenet_relu_dyn18/model.onnx", folder / "lenet.onnx")
    shutil.copy(ROOT / "tests/data/surgery/bert.onnx", folder / "bert.onnx")
    images(folder / "few.safetensors", 24)
    images(folder / "many.safetensors", 3000)
    images(folder / "range.safetensors", 8, label=lambda r: 10)
    images(folder / "nan.safetensors", 8, value=lambda r: float("nan"))
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "a", "the"]
    (folder / "vocab.txt").write_text("\n".join(vocab + [f"w{i}" for i in range(40)]) + "\n")
    rows = ["a good film,pos", "the bad film,neg", "film,so"]
    (folder / "t.csv").write_text("text,sentiment\n" + "\n".join(rows * 8) + "\n")
    (folder / "t.safetensors").write_bytes((folder / "few.safetensors").read_bytes()[:5000])
    (folder / "cut.onnx").write_bytes((folder / "lenet.onnx").read_bytes()[:100000])
    (folder / "empty.csv").write_bytes(b"")
    (folder / "empty.onnx").write_bytes(b"")


def snapshot(folder):
    out = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or path.is_symlink():
            out[name] = oct(path.lstat().st_mode)
        else:
            out[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return out


class Drill:
    def __init__(self, binary, keep):
        self.binary, self.keep = binary, keep
        self.base = Path(tempfile.mkdtemp(prefix="drill-"))
        self.stuff = self.base / "stuff"
        self.stuff.mkdir()
        materials(self.stuff)
        text = subprocess.run([binary, "--help_all"], capture_output=True, text=True).stdout
        self.flags = set(re.findall(r"--([a-z][a-z0-9_]*)", text))
        self.verbs = [["help", v] for v in ("train", "sweep", "export", "predict", "check", "plan", "grad", "eval")]
        for v in self.verbs:
            self.flags |= set(
                re.findall(r"--([a-z][a-z0-9_]*)", subprocess.run([binary, *v], capture_output=True, text=True).stdout)
            )

    def words(self, args, folder):
        return [str(self.binary)] + [str(a).replace("{d}", str(folder)) for a in args]

    def run_plain(self, args, folder):
        return subprocess.run(self.words(args, folder), capture_output=True, text=True, timeout=LIMIT_S, cwd=folder)

    def prepare(self, case, folder):
        for name in self.stuff.iterdir():
            os.link(name, folder / name.name)
        for step in case.setup:
            if callable(step):
                step(folder)
                continue
            r = self.run_plain(step, folder)
            if r.returncode:
                raise AssertionError(f"setup {' '.join(step)} ended with {r.returncode}: {r.stderr[-300:]}")

    def start(self, case, folder):
        how, limits = case.how, []
        if "fsize" in how:
            limits.append((resource.RLIMIT_FSIZE, how["fsize"]))
        if "memory" in how:
            limits.append((resource.RLIMIT_AS, how["memory"]))
        group = how.get("cgroup") and new_cgroup(how["cgroup"])

        def before():
            for what, n in limits:
                resource.setrlimit(what, (n, n))
            if group:
                (group / "cgroup.procs").write_text(str(os.getpid()))
            for s in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(s, signal.SIG_DFL)  # Python ignores these signals, which the program would inherit

        out = subprocess.PIPE
        if how.get("stdout") == "full":
            out = open("/dev/full", "wb")
        if how.get("stdout") == "closed":
            read, out = os.pipe()
            os.close(read)
        process = subprocess.Popen(
            self.words(case.args, folder), stdout=out, stderr=subprocess.PIPE, cwd=folder, preexec_fn=before
        )
        return process, group

    def command(self, case, folder):
        """Returns the exit code and stderr of the case's command."""
        process, group = self.start(case, folder)
        try:
            if "signal" in case.how:
                self.send(case, process, folder)
            _, err = process.communicate(timeout=LIMIT_S)
            return process.returncode, err.decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise AssertionError(f"still running after {LIMIT_S} s") from None
        finally:
            if group:
                group.rmdir()

    def send(self, case, process, folder):
        """Sends the signal once `when` has come (a path in the folder exists, or seconds have passed); the process
        must then end promptly."""
        when, until = case.how["when"], time.monotonic() + LIMIT_S
        if isinstance(when, (int, float)):
            time.sleep(when)
        else:
            path = folder / when
            while process.poll() is None and not (path.exists() and (path.is_dir() or path.stat().st_size)):
                if time.monotonic() > until:
                    raise AssertionError(f"{when} never came")
                time.sleep(0.002)
        if process.poll() is not None:
            raise AssertionError(f"it ended with {process.returncode} before the signal")
        process.send_signal(case.how["signal"])
        process.wait(timeout=10)

    def check_line(self, case, code, err):
        lines = err.strip().splitlines()
        try:
            line = json.loads(lines[-1])
        except (IndexError, ValueError):
            raise AssertionError(f"the last line of stderr is no JSON: {err[-300:]!r}") from None
        missing = {"id", "exit", "error", "where", "hint"} - set(line)
        assert not missing, f"the JSON line lacks {missing}"
        assert line["exit"] == code, f"the line says exit {line['exit']}, it was {code}"
        assert not case.id or line["id"] == case.id, f"id {line['id']}, not {case.id}: {line['error']}"
        assert line["error"].strip(), "no fact"
        unknown = [f for f in re.findall(r"--([a-z][a-z0-9_]*)", line["hint"]) if f not in self.flags]
        assert not unknown, f"the hint names flags that do not exist: {unknown}"

    def run(self, case):
        folder = self.base / re.sub(r"\W+", "-", case.name)
        folder.mkdir()
        mounts = []
        try:
            self.prepare(case, folder)
            if "tmpfs" in case.how:
                mounts.append(mount_tmpfs(folder / "disk", case.how["tmpfs"]))
            if "fill" in case.how:
                case.how["fill"](folder)
            hold = case.how.get("hold") and self.hold(case, folder)
            before = snapshot(folder)
            code, err = self.command(case, folder)
            if hold:
                hold.kill()
                hold.communicate()
            after = snapshot(folder)
            wanted = case.exit if isinstance(case.exit, (list, tuple)) else [case.exit]
            assert code in wanted, f"exit {code}, not {case.exit}: {err[-400:]}"
            if code > 0:
                self.check_line(case, code, err)
            assert case.says in err, f"stderr does not say {case.says!r}: {err[-400:]}"
            odd = [
                n
                for n in {**before, **after}
                if before.get(n) != after.get(n) and not any(fnmatch(n, a) for a in case.leaves)
            ]
            odd = [
                n for n in odd if not (n.endswith("/.lock") and n in before and n in after)
            ]  # the lock file has the name of its last holder
            lost = sorted(n for n in odd if n in before)
            assert not lost, f"lost or changed: {lost}"
            assert not odd, f"left over: {sorted(odd)}"
            left = [n for n in after if ".tmp-" in n and code >= 0]
            assert not left, f"temporary files: {left}"
            for step in case.then:
                if callable(step):
                    step(folder)
                    continue
                r = self.run_plain(step[0], folder)
                assert r.returncode == step[1], f"then {' '.join(step[0])}: exit {r.returncode}: {r.stderr[-300:]}"
        finally:
            for m in mounts:
                subprocess.run(["umount", "-l", m], check=False)
            if not self.keep:
                shutil.rmtree(folder, ignore_errors=True)

    def hold(self, case, folder):
        """Starts another run in the same folder and stops it (SIGSTOP) once it has written run.json."""
        other = subprocess.Popen(
            self.words(case.how["hold"], folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder
        )
        until = time.monotonic() + LIMIT_S
        while not (folder / "run/run.json").exists() and time.monotonic() < until:
            time.sleep(0.01)
        other.send_signal(signal.SIGSTOP)  # so that nothing in the folder moves
        return other


def mount_tmpfs(path, size):
    path.mkdir(exist_ok=True)
    r = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, text=True
    )
    if r.returncode:
        raise Skip("a small disk needs the right to mount tmpfs")
    return str(path)


def new_cgroup(limit):
    """Returns a control group (version 1 or 2) inside this process's own, with a memory limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kind, path = line.split(":", 2)
        if kind not in ("", "memory"):
            continue
        mount = "/sys/fs/cgroup" + ("/memory" if kind else "")
        file = "memory.limit_in_bytes" if kind else "memory.max"
        group = Path(mount + path.rstrip("/")) / f"drill-{os.getpid()}"
        try:
            group.mkdir()
            (group / file).write_text(str(limit))
            return group
        except OSError:
            if group.exists():
                group.rmdir()
    raise Skip("a control group needs the right to make one")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", default=ROOT / "build/onnx-amp-finetune", type=Path)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--only", default="", help="cases whose name holds this")
    p.add_argument("--keep", action="store_true", help="leave the cases' folders")
    args = p.parse_args()
    from drill_cases import CASES

    drill = Drill(args.binary.resolve(), args.keep)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in CASES:
        if args.only not in case.name or (args.quick and not case.quick):
            continue
        began, why = time.monotonic(), ""
        try:
            drill.run(case)
            result = "passed"
        except Skip as e:
            result, why = "skipped", f": {e}"
        except (AssertionError, subprocess.TimeoutExpired) as e:
            result, why = "failed", f": {e}"
        counts[result] += 1
        print(
            f"{result:8} {time.monotonic() - began:5.1f} s  exit {case.exit!s:12} {case.id:18} {case.name}{why}",
            flush=True,
        )
    if not args.keep:
        shutil.rmtree(drill.base, ignore_errors=True)
    print(", ".join(f"{n} {word}" for word, n in counts.items()))
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.modules["drill"] = sys.modules["__main__"]
    main()
