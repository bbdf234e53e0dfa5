"""Limits of disk space, file size, memory, descriptors, processes and stack. A run must end with a documented exit code and
its JSON line, and leave no temporary file. Without the limit it must resume to the bytes of the uninterrupted run.

A try tests one limit. Tests of disks need the permission to mount a tmpfs.
"""
import resource
import shutil

from campaign import Skip
from compare import contents, temporary, wrong_result
from job import RESUME, job, write_materials, wrong_end
from small_disk import SmallDisk

SETTINGS = {"steps": 10, "save": 2, "evaluate": 4}
STORAGE, MEMORY = 7, 9
UNLOADABLE = 127  # the system's loader had no memory for the libraries


def run(campaign):
    """Tries the limits, in random order."""
    write_materials(campaign.folder)
    campaign.program.succeed(job("whole", **SETTINGS), campaign.folder)
    wanted = contents(campaign.folder / "whole")
    cases = [(kind, size) for kind, sizes in LIMITS.items() for size in sizes]
    campaign.random.shuffle(cases)
    for kind, size in cases:
        if not campaign.more():
            break
        try:
            problems = kind(campaign, size, wanted)
        except Skip as reason:
            campaign.counts[f"(skipped: {reason})"] += 1
            continue
        campaign.tried(kind.__name__)
        campaign.fault(f"{kind.__name__} of {size}", *problems)


def judged(campaign, process, allowed, out, wanted, lift=lambda: None):
    """Returns problems of a run under a limit, and of the run that is resumed after lift()."""
    problems = wrong_end(process) if process.returncode != UNLOADABLE else []
    if process.returncode not in allowed:
        problems.append(f"exit {process.returncode}: {process.stderr[-300:]}")
    path = campaign.folder / out
    problems += [f"left {temporary(path)}"] * bool(temporary(path))
    lift()
    again = campaign.program.run(job(out, *RESUME, **SETTINGS), campaign.folder)
    if again.returncode:
        return problems + [f"resumed: exit {again.returncode}: {again.stderr[-300:]}"]
    return problems + [f"resumed: {p}" for p in wrong_result(wanted, path)]


def limited(campaign, what, size, *more):
    """Runs the job under a resource limit."""
    shutil.rmtree(campaign.folder / "run", ignore_errors=True)
    return campaign.program.run(job("run", *more, **SETTINGS), campaign.folder,
                                preexec_fn=lambda: resource.setrlimit(what, (size, size)))


def file_size(campaign, size, wanted):
    """Limits the size of each file to `size` bytes (ulimit -f)."""
    process = limited(campaign, resource.RLIMIT_FSIZE, size)
    return judged(campaign, process, {0, STORAGE}, "run", wanted)


def address_space(campaign, size, wanted):
    """Limits the address space to `size` MB (ulimit -v)."""
    process = limited(campaign, resource.RLIMIT_AS, size << 20)
    return judged(campaign, process, {0, MEMORY, UNLOADABLE}, "run", wanted)


def descriptors(campaign, size, wanted):
    """Limits the number of open files to `size` (ulimit -n)."""
    process = limited(campaign, resource.RLIMIT_NOFILE, size)
    return judged(campaign, process, {0, STORAGE, 2, 5, UNLOADABLE}, "run", wanted)


def stack(campaign, size, wanted):
    """Limits the stack to `size` kB (ulimit -s). The program refuses less than 256 kB."""
    allowed = {MEMORY} if size < 256 else {0}
    return judged(campaign, limited(campaign, resource.RLIMIT_STACK, size << 10), allowed, "run", wanted)


def processor_time(campaign, size, wanted):
    """Limits the processor time to `size` seconds (ulimit -t): SIGXCPU ends a long run with a checkpoint. With a limit
    of 1 second the system kills the process at once."""
    shutil.rmtree(campaign.folder / "run", ignore_errors=True)
    process = campaign.program.run(job("run", steps=40_000, save=100, evaluate=10_000), campaign.folder,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (size, size)))
    problems = [] if process.returncode == 75 else [f"exit {process.returncode}: {process.stderr[-300:]}"]
    left = temporary(campaign.folder / "run")
    return problems + [f"left {left}"] * bool(left)


def on_disk(campaign, options, wanted):
    """Runs the job on a small disk, and resumes it after the disk has been enlarged. Returns the problems."""
    with SmallDisk(campaign.folder, options) as disk:
        process = campaign.program.run(job("disk/run", **SETTINGS), campaign.folder)
        return judged(campaign, process, {0, STORAGE}, "disk/run", wanted, disk.enlarge)


def disk_size(campaign, size, wanted):
    """Runs the job on a disk of `size` kB."""
    return on_disk(campaign, f"size={size}k", wanted)


def inodes(campaign, size, wanted):
    """Runs the job on a disk that can hold `size` files and folders."""
    return on_disk(campaign, f"size=64m,nr_inodes={size}", wanted)


LIMITS = {
    file_size: [0, 1, 100, 1000, 4096, 10_000, 50_000, 80_000, 90_000, 100_000, 150_000, 200_000, 300_000, 400_000,
                500_000, 1_100_000],
    address_space: [20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220, 240, 260, 280, 300, 350, 400, 500],
    descriptors: [4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 32],
    stack: [64, 128, 255, 256, 1024],
    processor_time: [2, 3],
    disk_size: [64, 128, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200, 1400, 1600, 1800, 2000, 2400],
    inodes: list(range(2, 30, 2)),
}
