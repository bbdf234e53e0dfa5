"""Ranks that are processes, and processes of this machine, read from /proc."""
import os
import socket
import subprocess

LAUNCHERS = ("OMPI_", "PMI", "SLURM_", "MASTER_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "ONNX_AMP_RANK")


def environment_without_ranks():
    """Returns this process's environment without the variables of launchers, for one thread per rank."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    return {**variables, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ended(processes, seconds=300):
    """Returns (exit code, stdout, stderr) of each process. Kills all of them if one has not ended in time."""
    out = []
    for p in processes:
        try:
            o, e = p.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            for q in processes:
                q.kill()
            raise
        out.append((p.returncode, o, e))
    return out


def children_of(parent):
    """Returns the ids of the processes whose parent is `parent`, ascending. Reads /proc, because not every Debian has
    pgrep."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()  # the name may contain spaces
        except OSError:  # the process has ended
            continue
        if int(fields[1]) == parent:
            found.append(int(entry))
    return sorted(found)


def processes_with(text):
    """Returns the ids of the processes whose command line contains `text`. Its arguments are joined by spaces."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # the process has ended
            continue
        if text in command:
            found.append(int(entry))
    return sorted(found)
