#!/usr/bin/env python3
"""Raises errors by command lines of the program. The exit code must be that of base/errors.txt. The last line of stderr must
be a JSON object with the id, the exit code and the message that the table has as example. Needs only Python's standard library.

program_test.py --binary build/onnx-amp-finetune [ID ...]
--write   writes the messages into base/errors.txt; then run UPDATE_DOCS=1 tests/errors/test.py"""
import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import data_cases  # noqa: F401
import image_cases  # noqa: F401
import model_cases  # noqa: F401
import run_cases  # noqa: F401
import setting_cases  # noqa: F401
from kit import CASES, Folder
from test import read_table, write_examples


LAUNCHERS = ("OMPI_", "PMI", "SLURM_", "MASTER_", "RANK", "WORLD_SIZE", "ONNX_AMP_")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
MOST = 240  # columns of an example


def message(text):
    """Returns a message without checksums, ports and large numbers, which differ between machines."""
    return re.sub(r"\b[0-9a-f]{8}\b|\d{1,3}(?:,\d{3})+|\d{6,}|(?<=127\.0\.0\.1:)\d+", "N", text)


def fault_of(entry, binary, show, messages):
    error, exit_code = entry["id"], entry["exit"]
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(path, binary)
        words = CASES[error](folder)
        limit = folder.stack and (lambda: resource.setrlimit(resource.RLIMIT_STACK, (folder.stack, folder.stack)))
        done = subprocess.run([binary, *words], cwd=path, env=ENVIRONMENT | folder.environment, input=folder.input, capture_output=True, text=True,
                              errors="replace", timeout=120, preexec_fn=limit)  # fmt: skip
        if folder.held:
            folder.held.close()
    if show:
        print(done.stderr)
    try:
        line = json.loads(done.stderr.splitlines()[-1])
    except (IndexError, ValueError):
        return f"exit code {done.returncode}, and stderr ends without a JSON line: {done.stderr[-300:]!r}"
    if (line["id"], line["exit"], done.returncode) != (error, int(exit_code), int(exit_code)) or not line["error"]:
        return f"exit code {done.returncode}, wanted {exit_code}: {line}"
    if list(line) != ["id", "exit", "error", "where", "hint"] or "error: " not in done.stderr:
        return f"not the form of an error: {done.stderr}"
    said = line["error"].splitlines()[0].replace(path, "/home/me")
    messages[error] = said if len(said) <= MOST else said[:MOST] + " ..."
    if message(messages[error]) != message(entry["example"]):
        return f"the message is {messages[error]!r}, the example in base/errors.txt is {entry['example']!r}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("ids", nargs="*")
    args = parser.parse_args()
    table = {e["id"]: e for e in read_table()}
    chosen, messages = args.ids or sorted(CASES), {}
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda e: fault_of(table[e], os.path.abspath(args.binary), bool(args.ids), messages), chosen)
        found = [f"{error}: {fault}" for error, fault in zip(chosen, results) if fault]
    print("\n".join([*found, f"{len(chosen)} errors, {len(found)} faults" if found else f"{len(chosen)} errors, ok"]))
    if args.write:
        write_examples(messages)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
