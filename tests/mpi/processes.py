"""Processes of this machine, read from /proc."""
import os


def children_of(parent):
    """The process ids whose parent is `parent`, ascending. Read from /proc: pgrep is not on every Debian."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()  # the name before may hold spaces
        except OSError:  # it has ended
            continue
        if int(fields[1]) == parent:
            found.append(int(entry))
    return sorted(found)


def processes_with(text):
    """The process ids whose command line, its arguments joined by spaces, holds `text`."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if text in command:
            found.append(int(entry))
    return sorted(found)
