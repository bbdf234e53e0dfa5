#!/usr/bin/env python3
"""Tests completion by typing command lines and the tab key in bash, zsh and fish, with the completions that the program
prints.

  tests/completions/test.py --program PROGRAM

A shell that is not installed is skipped by name; without all of them the exit status is 4."""
import argparse
import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAM = "onnx-amp-finetune"
# Words that a user types after the program's name, and the command line after Tab. None: the shell completes nothing.
CASES = [
    ("pred", "predict "),
    ("vers", "version "),
    ("model.onnx --weight_d", "model.onnx --weight_decay"),
    ("model.onnx --optimizer adamw_", None),
    ("model.onnx --optimizer schedule_free_ad", "model.onnx --optimizer schedule_free_adamw "),
    ("model.onnx --optimizer=schedule_free_ad", "model.onnx --optimizer=schedule_free_adamw "),
    ("train model.onnx --weight_d", "train model.onnx --weight_decay"),
    ("predict model.onnx --inp", "predict model.onnx --inputs"),
    ("predict model.onnx --weight_d", None),
    ("model.onnx --top_", None),
    ("model.onnx --train uniq", "model.onnx --train unique.csv "),
    ("uniq", "unique.csv "),
    ("check uniq", "check unique.csv "),
    ("help tok", "help tokenize "),
    ("eval model.onnx --junit uniq", "eval model.onnx --junit unique.csv "),
]


class Terminal:
    """A shell that reads from a pseudo terminal."""

    def __init__(self, words, folder, env):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(words, cwd=folder, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)

    def write(self, text):
        os.write(self.master, text.encode())

    def drain(self, seconds):
        """Reads what the shell prints, so that the shell does not wait for a reader."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if select.select([self.master], [], [], 0.02)[0]:
                try:
                    os.read(self.master, 65536)
                except OSError:
                    return

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def zsh_lines(folder, script):
    """Returns the lines after the tab key in zsh's line editor."""
    functions = folder / "functions"
    functions.mkdir()
    (functions / f"_{PROGRAM}").write_text(script)
    out = folder / "lines"
    setup = (f"PROMPT=; unsetopt beep; fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D\n"
             f"record() {{ print -r -- \"$BUFFER|\" >>{out}; BUFFER=; }}; zle -N record; bindkey '^G' record; touch {folder}/ready\n")  # fmt: skip
    terminal = Terminal(["zsh", "-f", "-i"], folder, {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder), "LC_ALL": "C.UTF-8"})
    try:
        terminal.write(setup)
        wait_for(terminal, lambda: (folder / "ready").exists())
        out.write_text("")
        for i, (typed, _) in enumerate(CASES):
            terminal.write(f"{PROGRAM} {typed}\t\x07")
            wait_for(terminal, lambda: len(out.read_text().splitlines()) > i)
        return [line[:-1].removeprefix(PROGRAM + " ") for line in out.read_text().splitlines()]
    finally:
        terminal.close()


def wait_for(terminal, done):
    until = time.monotonic() + 60
    while not done():
        if time.monotonic() > until:
            raise SystemExit("the shell does not answer")
        terminal.drain(0.05)


def fish_lines(folder, script):
    """Returns the command lines that fish makes from its only candidate."""
    (folder / "completions.fish").write_text(script)
    lines = []
    for typed, _ in CASES:
        done = subprocess.run(["fish", "--no-config", "-c", "source completions.fish; complete -C $argv[1]", f"{PROGRAM} {typed}"], cwd=folder,
                              env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}, capture_output=True, text=True, check=True)
        found = [c.split("\t")[0] for c in done.stdout.splitlines()]
        if done.stderr:
            raise SystemExit(f"fish: {done.stderr}")
        head = typed[:len(typed) - len(typed.split(" ")[-1])]
        lines.append(head + found[0] + " " if len(found) == 1 else typed)
    return lines


BASH = """
complete() { :; }
. ./completions.bash
while IFS= read -r line; do
  read -ra COMP_WORDS <<<"$line"
  # Readline splits words at =.
  last=${COMP_WORDS[-1]}
  if [[ $last == --*=* ]]; then unset 'COMP_WORDS[-1]'; COMP_WORDS+=("${last%%=*}" = "${last#*=}"); fi
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  _onnx_amp_finetune || true
  typed=${COMP_WORDS[-1]}
  mapfile -t COMPREPLY < <(printf '%s\\n' "${COMPREPLY[@]}" | sort -u)
  if [ ${#COMPREPLY[@]} = 1 ] && [ -n "${COMPREPLY[0]}" ]; then echo "${line%"$typed"}${COMPREPLY[0]} "; else echo "$line"; fi
done
"""


def bash_lines(folder, script):
    """Returns the command lines that Readline makes from the function's only candidate."""
    (folder / "completions.bash").write_text(script)
    done = subprocess.run(["bash", "-c", BASH], input="".join(f"{PROGRAM} {typed}\n" for typed, _ in CASES), cwd=folder,
                          env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True)
    if done.stderr:
        raise SystemExit(f"bash: {done.stderr}")
    return [line.removeprefix(PROGRAM + " ") for line in done.stdout.splitlines()]


def faults_of(shell, program):
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        (folder / "unique.csv").write_text("")
        script = subprocess.run([program, "--print_completions", shell], capture_output=True, text=True, check=True).stdout
        lines = {"bash": bash_lines, "zsh": zsh_lines, "fish": fish_lines}[shell](folder, script)
    faults = []
    for (typed, wanted), got in zip(CASES, lines, strict=True):
        wanted = typed if wanted is None else wanted
        if shell == "zsh" and got == wanted + "=":  # zsh appends = to a flag that takes a value
            continue
        if got.rstrip() != wanted.rstrip():
            faults.append(f"{shell}: after {typed!r} the line is {got!r}, wanted {wanted!r}")
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    program = os.path.abspath(parser.parse_args().program)
    faults, tried = [], 0
    for shell in ("bash", "zsh", "fish"):
        if not shutil.which(shell):
            print(f"skipped: {shell} is not installed")
            continue
        tried += 1
        faults += faults_of(shell, program)
    print("\n".join(faults) or f"{tried} shells, {len(CASES)} lines each, ok")
    return 1 if faults else 0 if tried else 4


if __name__ == "__main__":
    sys.exit(main())
