"""Faults of the file system: the library faulty_io.c, which is preloaded, and injection by strace."""
import re
import shutil
import subprocess

from campaign import Skip
from job import ROOT


def compile_library(folder):
    """Compiles faulty_io.c into a folder and returns the path."""
    compiler = shutil.which("gcc")
    if not compiler:
        raise Skip("gcc is not installed")
    path = folder / "faulty_io.so"
    source = ROOT / "tests/campaigns/faulty_io.c"
    if not path.exists():
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", path, source, "-ldl"], check=True)
    return path


def without_exchange(folder):
    """Returns the environment of a process whose file systems have no RENAME_EXCHANGE, such as NFS; the refused calls
    are appended to a file."""
    return {"LD_PRELOAD": str(compile_library(folder)), "FAULTY_IO_EXCHANGE": str(folder / "refused")}


def short_io(folder, seed):
    """Returns the environment of a process whose reads and writes do a part of what is asked, or are interrupted."""
    return {"LD_PRELOAD": str(compile_library(folder)), "FAULTY_IO_SHORT": str(seed)}


def require_strace():
    """Skips the campaign if strace is not installed or has no permission to trace."""
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    if subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode:
        raise Skip("strace may not trace processes here")


def injection(call, how, when, log):
    """Returns words to put before a command. The `when`-th system call `call` of the command then fails (how = errno),
    or the command is killed there (how = KILL). Every thread counts its own calls, so one call may fail in each of
    them. The file `log` lists the calls."""
    what = "signal=KILL" if how == "KILL" else f"error={how}"
    return ["strace", "-f", "-qq", "-e", f"trace={call}", "-e", f"inject={call}:{what}:when={when}", "-o", log]


def lost_text(log):
    """Returns whether a write to standard error was made to fail. The process then cannot print why it ends."""
    return re.search(r"write\(2, .*\(INJECTED\)", log.read_text(errors="replace")) is not None


SYSTEM = re.compile(r"/proc/|/sys/|/etc/|/usr/|pipe:|\.so\b|locale")


def points(program, words, folder, calls, first):
    """Traces a command: returns the system calls that act on its files as (name, number, text).

    The number counts the calls of this name in their thread, as strace's `when` does. Calls before the first whose
    text holds `first`, such as those of the loader, are left out.
    """
    log = folder / "trace"
    program.run(words, folder, prefix=["strace", "-f", "-qq", "-y", "-e", f"trace={','.join(calls)}", "-o", log])
    seen, found, started = {}, [], False
    for line in log.read_text(errors="replace").splitlines():
        match = re.match(r"(\d+) +(\w+)\(", line)
        if not match:
            continue
        thread_call = match[1], match[2]
        seen[thread_call] = seen.get(thread_call, 0) + 1
        started |= first in line
        if started and not SYSTEM.search(line):
            found.append((match[2], seen[thread_call], line[:300]))
    log.unlink()
    return found
