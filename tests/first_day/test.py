#!/usr/bin/env python3
"""Runs docs/first_day.md: the commands of each journey on the small files of samples.py, and with --snippets its Python
code, which needs onnxruntime.

  tests/first_day/test.py --program PROGRAM [--snippets] [--python PYTHON] [--keep FOLDER]

Every line that the page shows as output must be printed, except for its numbers. Snippets whose packages PYTHON lacks are
skipped by name; exit status 4 if all are. Needs only Python's standard library itself."""
import argparse
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import samples  # noqa: E402

PAGE = HERE.parents[1] / "docs/first_day.md"
# Journey: what makes its files, and what the snippet must print.
JOURNEYS = {
    "My CSV of texts": (samples.texts, r"positive"),
    "My folder of images": (samples.images, r"rose"),
    "My own classifier": (samples.classifier, r"negative"),
    "My embeddings": (samples.embeddings, r"0"),
    "My table": (samples.table, r"\[\[[23]\d\d\.\d+\]\]"),
}
COMMANDS, SNIPPET_LINES, COLUMNS = 5, 7, 110  # limits for each journey
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def blocks():
    """Returns {journey: {language: code}} of the page; commands have the language ''."""
    journeys = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.M)[1:]:
        title, _, text = section.partition("\n")
        journeys[title] = dict(re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S))
    return journeys


def without_numbers(line):
    return re.sub(r"\d[\d.,]*(?:e[+-]?\d+)?", "N", line).strip()


def environment(folder, program):
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    if not (folder / "bin/onnx-amp-finetune").exists():
        (folder / "bin/onnx-amp-finetune").symlink_to(program)
    # The random models of the samples need a higher learning rate than the pretrained ones of the page.
    return os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}", "ONNX_AMP_LR": "0.01", "OMP_WAIT_POLICY": "passive"}


def predictions(folder):
    with open(folder / "predicted.csv", newline="") as file:
        return [row.get("predicted_label", row.get("prediction")) for row in csv.DictReader(file)]


def check_results(title, folder):
    """Checks the predictions in the files that `predict` wrote."""
    if title == "My CSV of texts":
        check(predictions(folder) == ["positive", "negative"], f"{title}: {predictions(folder)}")
    elif title == "My folder of images":
        check(predictions(folder) == ["rose", "daisy"], f"{title}: {predictions(folder)}")
    elif title == "My own classifier":
        with open(folder / "test.csv", newline="") as file:
            check(predictions(folder) == [row["label"] for row in csv.DictReader(file)], f"{title}: wrong predictions")
    elif title == "My embeddings":
        head = (folder / "vectors.npy").read_bytes()[:128]
        check(head.startswith(b"\x93NUMPY") and b"(3, 16)" in head, f"{title}: vectors.npy begins with {head}")
    else:
        first, second = map(float, predictions(folder))
        check(250 < first < 350 and 0 < second < 150, f"{title}: {predictions(folder)}")


def run_commands(title, code, folder, env):
    script = code[""].replace("\\\n", " ")
    check(len(script.splitlines()) <= COMMANDS, f"{title}: {len(script.splitlines())} commands")
    check(all(line.startswith("onnx-amp-finetune ") for line in script.splitlines()), f"{title}: a line is no command of the program")
    done = subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=env, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    check(done.returncode == 0, f"{title}: exit status {done.returncode}\n{done.stdout}")
    if done.returncode:
        return
    printed = {without_numbers(line) for line in done.stdout.splitlines()}
    missing = [line for line in code["text"].splitlines() if without_numbers(line) not in printed]
    check(not missing, f"{title}: not printed: {missing} but\n{done.stdout}")
    check_results(title, folder)


def lacks(title, code, python):
    """Returns true if Python lacks packages that the snippet of a journey imports."""
    done = subprocess.run([python, "-c", code["python"].splitlines()[0]], capture_output=True, text=True)
    if done.returncode:
        print(f"skipped: {title}: {done.stderr.splitlines()[-1]}")
    return done.returncode != 0


def run_snippet(title, code, folder, python):
    snippet = code["python"]
    check(len(snippet.splitlines()) <= SNIPPET_LINES, f"{title}: {len(snippet.splitlines())} lines of Python")
    done = subprocess.run([python, "-c", snippet], cwd=folder, capture_output=True, text=True)
    check(re.fullmatch(JOURNEYS[title][1], done.stdout.strip()), f"{title}: the snippet printed {done.stdout}{done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--snippets", action="store_true", help="also the Python code; skipped (4) where no package is there")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--keep", help="folder for the files, which are left there")
    options = parser.parse_args()
    journeys = blocks()
    check(list(journeys) == list(JOURNEYS), f"the page has the journeys {list(journeys)}")
    long = [line for code in journeys.values() for block in code.values() for line in block.splitlines() if len(line) > COLUMNS]
    check(not long, f"lines of more than {COLUMNS} columns: {long}")
    if options.snippets:
        journeys = {title: code for title, code in journeys.items() if not lacks(title, code, options.python)}
    with tempfile.TemporaryDirectory() as temporary:
        top = pathlib.Path(options.keep or temporary).resolve()
        env = environment(top, os.path.abspath(options.program))

        def program(*words):
            subprocess.run(["onnx-amp-finetune", *map(str, words)], env=env, check=True, capture_output=True, text=True)

        for number, (title, code) in enumerate(journeys.items()):
            folder = top / str(number)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            JOURNEYS[title][0](folder, program)
            run_commands(title, code, folder, env)
            if options.snippets:
                run_snippet(title, code, folder, options.python)
    print(f"first day: {len(failures)} failures in {len(journeys)} journeys")
    sys.exit(1 if failures else 0 if journeys else 4)


if __name__ == "__main__":
    main()
