"""A long run that is killed, and whose disk becomes full, many times. It must end with the bytes of an undisturbed run.

During the undisturbed run, memory, threads, descriptors and checkpoints are monitored. A try is a step. There is a kill
per 500 steps and a full disk per 2,000 steps (on a tmpfs, which needs the right to mount it).
"""
import contextlib
import os
import signal
import subprocess

from campaign import Skip
from compare import contents, wrong_result
from job import RESUME, finish, job, write_materials
from small_disk import SmallDisk

KEEP = 2
SAVE = 50
SAMPLE_S = 0.25
STORAGE = 7
MOST_GROWTH_MB = 4  # limit of the growth of resident memory after the first fifth


def run(campaign):
    """Runs `count` steps without and then with disturbances."""
    folder, steps = campaign.folder, campaign.count
    write_materials(folder)
    with contextlib.ExitStack() as stack:
        try:
            size = 32 + steps // 1000
            disk = stack.enter_context(SmallDisk(folder, f"size={size}m"))
        except Skip as reason:
            disk = None
            campaign.measured["no full disks"] = str(reason)
        where = "disk" if disk else "."
        settings = {"steps": steps, "save": SAVE, "evaluate": 500, "keep": KEEP}
        watch(campaign, campaign.program.start(job(f"{where}/run", **settings), folder), folder / where / "run")
        wanted = contents(folder / where / "run")
        os.rename(folder / where / "run", folder / where / "whole")
        disturb(campaign, disk, job(f"{where}/run", **settings), folder / where / "run")
        campaign.fault("the end", *wrong_result(wanted, folder / where / "run"))
        campaign.tries = len(wanted["metrics.jsonl"] or [])


def watch(campaign, process, out):
    """Samples the undisturbed run, which must succeed, and checks the samples."""
    samples = []
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=SAMPLE_S)
        with contextlib.suppress(OSError, IndexError):
            samples.append(sample(process.pid, out))
    finish(process)
    if process.returncode:
        raise AssertionError(f"the undisturbed run ended with {process.returncode}: {process.stderr[-300:]}")
    samples = samples[len(samples) // 5:]
    if not samples:
        return
    memory, threads, descriptors, checkpoints = zip(*samples)
    growth = slope(memory) * len(memory) / 1024
    campaign.measured.update({"most kB": max(memory), "growth in MB": round(growth, 2), "most threads": max(threads),
                              "growth in MB per hour": round(growth * 3600 / (len(memory) * SAMPLE_S), 2),
                              "most descriptors": max(descriptors), "most checkpoints": max(checkpoints)})
    campaign.fault("the undisturbed run", *[f"memory grew by {growth:.1f} MB"] * (growth > MOST_GROWTH_MB),
                   *[f"{max(checkpoints)} checkpoints"] * (max(checkpoints) > KEEP + 2))  # the best one, and one that is being written


def sample(pid, out):
    """Returns (kB of resident memory, threads, descriptors, checkpoints) of a process."""
    with open(f"/proc/{pid}/status") as file:
        status = file.read()
    numbers = [int(status.split(name)[1].split()[0]) for name in ("VmRSS:", "Threads:")]
    checkpoints = os.listdir(out / "checkpoints") if (out / "checkpoints").exists() else []
    return *numbers, len(os.listdir(f"/proc/{pid}/fd")), len(checkpoints)


def slope(values):
    """Returns the slope of the line through values at 0, 1, 2 ..."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    spread = sum((i - middle) ** 2 for i in range(len(values)))
    return sum((i - middle) * (v - mean) for i, v in enumerate(values)) / spread if spread else 0.0


def disturb(campaign, disk, words, out):
    """Runs the same job, disturbed at random steps, to its end."""
    steps, random = campaign.count, campaign.random
    plan = [(random.randrange(steps), "kill") for _ in range(max(1, steps // 500))]
    plan += [(random.randrange(steps), "full") for _ in range(max(1, steps // 2000) if disk else 0)]
    more = []
    for step, what in sorted(plan):
        process = campaign.program.start([*words, *more], campaign.folder)
        more = RESUME
        if not reached(process, out, step):
            finish(process)
            campaign.fault(f"before step {step}", *[f"exit {process.returncode}"] * (process.returncode != 0))
            continue
        if what == "kill":
            process.kill()
            finish(process)
        else:
            full(campaign, disk, process, step)
        campaign.counts[what] += process.returncode in (-signal.SIGKILL, STORAGE)
    campaign.program.succeed([*words, *more], campaign.folder)


def reached(process, out, step):
    """Waits until the metrics of a step are written. Returns whether the process still runs then."""
    path, position, found = out / "metrics.jsonl", 0, 0
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
        if not path.exists():
            continue
        if path.stat().st_size < position:
            position = found = 0  # a resumed run writes the file anew
        with path.open("rb") as file:
            file.seek(position)
            block = file.read()
        position, found = position + len(block), found + block.count(b"\n")
        if found > step:
            return process.poll() is None
    return False


def full(campaign, disk, process, step):
    """Fills the disk until the run has ended with the exit code of storage."""
    disk.fill()
    finish(process)
    disk.empty()
    wrong = process.returncode not in (0, STORAGE)
    campaign.fault(f"a full disk at step {step}", *[f"exit {process.returncode}: {process.stderr[-300:]}"] * wrong)
