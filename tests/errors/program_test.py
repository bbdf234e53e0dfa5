#!/usr/bin/env python3
"""Raises errors by command lines of the program: the exit code is that of base/errors.txt, and the last line of stderr is a
JSON object with the id, the exit code and a message, which is the example of the table. Needs only Python's standard library.

program_test.py --binary build/onnx-amp-finetune [ID ...]
--write   writes the messages into base/errors.txt; then run UPDATE_DOCS=1 tests/errors/test.py"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import data_cases  # noqa: F401
import model_cases  # noqa: F401
import run_cases  # noqa: F401
from kit import CASES, Folder
from test import read_table, write_examples


MOST = 240  # columns of an example


def message(text):
    """A message without checksums and large numbers, which differ between machines."""
    return re.sub(r"\b[0-9a-f]{8}\b|\d{1,3}(?:,\d{3})+|\d{6,}", "N", text)


def fault_of(entry, binary, show, messages):
    error, exit_code = entry["id"], entry["exit"]
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(path, binary)
        words = CASES[error](folder)
        done = subprocess.run([binary, *words], cwd=path, env=os.environ | folder.environment, input=folder.input, capture_output=True, text=True,
                              errors="replace", timeout=120)  # fmt: skip
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
    faults, messages = 0, {}
    for error in args.ids or sorted(CASES):
        fault = fault_of(table[error], os.path.abspath(args.binary), bool(args.ids), messages)
        if fault:
            faults += 1
            print(f"{error}: {fault}")
    print(f"{len(args.ids or CASES)} errors, {faults} faults" if faults else f"{len(args.ids or CASES)} errors, ok")
    if args.write:
        write_examples(messages)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
