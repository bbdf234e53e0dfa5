#!/usr/bin/env python3
"""Runs reliability campaigns: many tries to make the program lose work, write wrong bytes, crash or hang.

  run.py                     the short version of every campaign, as ctest runs them
  run.py kill calls          only some campaigns
  run.py all --long          the long versions, several hours; --minutes limits each campaign
  run.py kill --seed 7 --count 500 --out FILE.json

Prints a table of tries, faults and seconds. --out adds a record of each campaign to a file: seed, counts, faults,
commit, date, kernel, file system. Exit code 0: no fault; 1: faults; 4: nothing could run here (the reason is printed).
Standard library only; gcc and strace are used by the campaigns that need them.
"""
import argparse
import datetime
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parent))
import calls  # noqa: E402
import crowds  # noqa: E402
import determinism  # noqa: E402
import hostile  # noqa: E402
import kill  # noqa: E402
import limits  # noqa: E402
import places  # noqa: E402
import power_cut  # noqa: E402
import short_io  # noqa: E402
import signals  # noqa: E402
import soak  # noqa: E402
from campaign import Campaign, Skip  # noqa: E402
from job import ROOT, Program  # noqa: E402


@dataclass
class Row:
    """A campaign: its module, the meaning of a try, and the numbers of tries of the short and the long version."""
    module: ModuleType
    unit: str
    short: int
    long: int


CAMPAIGNS = {
    "kill": Row(kill, "kills", 8, 2000),
    "calls": Row(calls, "system calls that fail", 10, 20_000),
    "short_io": Row(short_io, "commands", 4, 100),
    "power_cut": Row(power_cut, "states of a disk", 12, 500),
    "signals": Row(signals, "signals", 4, 300),
    "limits": Row(limits, "limits", 10, 1000),
    "places": Row(places, "places", 10, 1000),
    "crowds": Row(crowds, "crowds", 2, 30),
    "hostile": Row(hostile, "files", 20, 10_000),
    "soak": Row(soak, "steps", 1000, 100_000),
    "determinism": Row(determinism, "runs", 10, 1000),
}


def arguments():
    """Parses the command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME", help=f"all, or some of: {', '.join(CAMPAIGNS)}")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, help="tries of each campaign")
    p.add_argument("--long", action="store_true", help="as many tries as the long version has")
    p.add_argument("--minutes", type=float, default=1e6, help="most minutes of each campaign")
    p.add_argument("--program", type=Path, default=ROOT / "build/onnx-amp-finetune")
    p.add_argument("--work", type=Path, help="folder for temporary files; its file system is the one that is tested")
    p.add_argument("--out", type=Path, help="JSON file to which records are added")
    p.add_argument("--keep", action="store_true", help="leave the temporary files")
    p.add_argument("--names", dest="only_names", action="store_true", help="print the names and end")
    args = p.parse_args()
    if args.work and not args.only_names:
        args.work.mkdir(parents=True, exist_ok=True)
    args.names = list(CAMPAIGNS) if args.names in ([], ["all"]) else args.names
    unknown = set(args.names) - set(CAMPAIGNS)
    if unknown:
        p.error(f"no campaign {', '.join(sorted(unknown))}")
    if not args.only_names and not args.program.exists():
        p.error(f"there is no program {args.program}")
    return args


def carry_out(name, args, folder):
    """Runs one campaign; returns its record."""
    row = CAMPAIGNS[name]
    count = args.count or (row.long if args.long else row.short)
    campaign = Campaign(name, Program(args.program.resolve()), folder, args.seed, count, args.minutes * 60)
    began, skipped = time.monotonic(), ""
    try:
        row.module.run(campaign)
    except Skip as reason:
        skipped = str(reason)
    except (AssertionError, OSError) as error:
        campaign.fault("the campaign did not get to its end", repr(error))
    return {"campaign": name, "seed": args.seed, "tries": campaign.tries, "unit": row.unit,
            "faults": campaign.faults, "skipped": skipped, "seconds": round(time.monotonic() - began, 1),
            "counts": dict(sorted(campaign.counts.items())), "measured": campaign.measured}


def circumstances(program, folder):
    """Returns the commit of the program's build folder, its version, and the machine, for a record."""
    git = ["git", "-C", program.resolve().parent, "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    version = subprocess.run([program, "version"], capture_output=True, text=True, check=False).stdout.split("\n")[0]
    return {"commit": commit, "program": version, "program_sha256": hashlib.sha256(program.read_bytes()).hexdigest(),
            "date": datetime.datetime.now().isoformat(timespec="seconds"), "kernel": platform.release(),
            "file_system": file_system(folder), "processors": os.cpu_count(), "load": os.getloadavg()}


def file_system(folder):
    """Returns the type of the file system of a folder, by /proc/mounts."""
    found = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if str(folder.resolve()).startswith(point) and len(point) >= len(found[0]):
            found = point, kind
    return found[1]


def add_record(path, record):
    """Adds a record to a file, which is replaced atomically."""
    records = json.loads(path.read_text()) if path.exists() else []
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps([*records, record], indent=1) + "\n")
    temporary.replace(path)


def main():
    args = arguments()
    if args.only_names:
        print("\n".join(args.names))
        return 0
    records = []
    print(f"{'campaign':12} {'tries':>8} {'faults':>7} {'seconds':>8}")
    for name in args.names:
        folder = Path(tempfile.mkdtemp(prefix=f"campaign_{name}_", dir=args.work))
        record = {**carry_out(name, args, folder), **circumstances(args.program, folder)}
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
        records.append(record)
        if args.out:
            add_record(args.out, record)
        told = f"{name:12} {record['tries']:8} {len(record['faults']):7} {record['seconds']:8.1f}  {record['unit']}"
        print(f"{name:12} skipped: {record['skipped']}" if record["skipped"] else told, flush=True)
    if all(r["skipped"] for r in records):
        return 4
    return 1 if any(r["faults"] for r in records) else 0


if __name__ == "__main__":
    sys.exit(main())
