"""The operations of a process on files below a folder, in order, from a trace of strace.

An operation is a tuple: ("create", path, truncated), ("write", path, bytes, offset or None for the end),
("truncate", path, size), ("fsync", path), ("rename", from, to), ("exchange", a, b), ("unlink", path), ("mkdir", path).
"""
import os
import re

CALLS = ("openat write pwrite64 writev ftruncate fallocate fsync fdatasync rename renameat renameat2 unlink unlinkat "
         "mkdir mkdirat rmdir link linkat symlink symlinkat copy_file_range sendfile").split()
NOT_MODELED = {"writev", "link", "linkat", "symlink", "symlinkat", "copy_file_range", "sendfile"}
HEX = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


def recorded(program, words, folder, root):
    """Runs a command, which must succeed, and returns its operations on paths below `root`."""
    log = folder / "trace"
    program.succeed(words, folder, prefix=["strace", "-f", "-qq", "-y", "-xx", "-s", 100_000_000, "-o", log,
                                           "-e", "trace=" + ",".join(CALLS)])
    with log.open(errors="replace") as lines:
        found = [o for call in whole_calls(lines) for o in operations_of(*call, folder, str(root))]
    log.unlink()
    return found


def whole_calls(lines):
    """Yields (name, arguments, result) of the calls that succeeded. Joins the two lines of a call that another thread's
    line interrupts."""
    begun = {}
    for line in lines:
        thread, rest = line.rstrip("\n").split(None, 1)
        if rest.endswith("<unfinished ...>"):
            begun[thread] = rest[: -len("<unfinished ...>")]
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", rest)
        if resumed:
            rest = begun.pop(thread, "") + resumed[1]
        call = re.match(r"(\w+)\((.*)\)\s+= (\d+)", rest)
        if call:
            yield call[1], call[2], int(call[3])


def decoded(text):
    """Returns the bytes of strace's hexadecimal text."""
    return bytes.fromhex(text.replace("\\x", ""))


def path_of(argument):
    """Returns the path of a descriptor's annotation, `3</path>`, which strace writes in hexadecimal or as plain
    text."""
    found = re.match(r"(?:\d+|AT_FDCWD)<([^>]*)>", argument)
    if not found:
        return None
    return decoded(found[1]).decode() if found[1].startswith("\\x") else found[1]


def operations_of(name, arguments, result, folder, root):
    """Returns the operation of one call, in a list; an empty list if it changes nothing below `root`."""
    file = path_of(arguments)
    texts = [decoded(t) for t in HEX.findall(arguments)] if name not in ("write", "pwrite64") else []
    base = file if file and name.endswith("at") else str(folder)
    paths = [os.path.normpath(os.path.join(base, t.decode(errors="surrogateescape"))) for t in texts]
    if not any(p.startswith(root) for p in [*paths, file or ""]) and file != os.path.dirname(root):
        return []
    if name in NOT_MODELED:
        raise AssertionError(f"{name} is not modeled: {arguments[:200]}")
    if name == "openat":
        return [("create", paths[0], "O_TRUNC" in arguments)] if "O_CREAT" in arguments else []
    if name in ("write", "pwrite64"):
        at = int(arguments.rsplit(",", 1)[1]) if name == "pwrite64" else None
        return [("write", file, decoded(HEX.search(arguments)[1])[:result], at)]
    if name in ("fsync", "fdatasync"):
        return [("fsync", file)]
    if name == "ftruncate":
        return [("truncate", file, int(arguments.rsplit(",", 1)[1]))]
    if name in ("rename", "renameat", "renameat2"):
        return [("exchange" if "EXCHANGE" in arguments else "rename", *paths)]
    if name in ("unlink", "unlinkat", "rmdir"):
        return [("unlink", paths[0])]
    return [("mkdir", paths[0])] if name.startswith("mkdir") else []  # fallocate changes no byte that is compared
