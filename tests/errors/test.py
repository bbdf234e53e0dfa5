#!/usr/bin/env python3
"""Compares base/errors.txt, the table of errors, with the sources, the tests and docs/errors.md. Needs only Python's
standard library.

1. Every id in the sources is in the table and is raised with the exit code of the table only. Every entry is raised.
2. The example of an entry has words of a message in the sources. program_test.py compares the whole example of the
   errors that it raises.
3. A test names every id, except those that no input can raise (`by`).
4. docs/errors.md equals the page that is generated from the table. UPDATE_DOCS=1 tests/errors/test.py writes it."""
import os
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE, PAGE = ROOT / "base/errors.txt", ROOT / "docs/errors.md"
MODULES = "base graph backend ops importer models precision data trainer run capi tools".split()
ID = r"E_[A-Z0-9]+(?:_[A-Z0-9]+)*"
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
TITLES = {
    "1": "Bugs of this program", "2": "Flags, configuration and paths", "3": "Malformed model files",
    "4": "Models that cannot be trained", "5": "Data", "6": "Checkpoints", "7": "Writing files",
    "8": "Values that are not finite", "9": "Memory", "10": "Distributed runs", "11": "A locked output folder",
    "12": "Quality gates", "75": "Stopped runs", "128+n": "Interrupted runs",
}  # fmt: skip
HEAD = """# Errors

An error of the program has an id, such as `E_DATA_COLUMN`, and an exit code. The id is in the JSON object
that is the last line of stderr ([resume_and_ci.md](resume_and_ci.md#exit-codes)). On a terminal, the last line names the command that
explains the error:

```
onnx-amp-finetune explain E_DATA_COLUMN
```

Each id has one exit code. `tests/errors` generates this page from `base/errors.txt` and checks that a test
raises every error, except those that only a bug or a device can raise."""


def read_table():
    """Returns the entries of the table as dictionaries with the keys id, exit, means, do, example and, for some, by."""
    entries, key = [], None
    for line in TABLE.read_text().splitlines():
        if line.startswith("  "):
            entries[-1][key] += line[1:]
        elif re.fullmatch(ID, line):
            entries.append({"id": line})
        elif line and not line.startswith("#"):
            key, _, value = line.partition(": ")
            entries[-1][key] = value
    return entries


def write_examples(messages):
    """Replaces the examples of the table. messages: id -> message."""
    blocks = TABLE.read_text().split("\n\n")
    for i, block in enumerate(blocks):
        error = block.split("\n")[0]
        if error in messages:
            example = textwrap.fill("example: " + messages[error], 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            blocks[i] = re.sub(r"^example: .*(?:\n  .*)*", lambda m: example, block, flags=re.M)
    TABLE.write_text("\n\n".join(blocks).rstrip("\n") + "\n")


def without_comments(text):
    """Returns C++ code without comments. Strings, which may contain slashes, are kept."""
    token = r'"(?:[^"\\\n]|\\.)*"|R"(\w*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/'
    return re.sub(token, lambda m: m.group(0) if m.group(0)[0] in '"R' else " ", text)


def arguments(code, at):
    """Returns the arguments of the call whose opening parenthesis or brace is before `at`."""
    depth, start, out = 1, at, []
    for found in re.finditer(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|[(){}\[\],]', code[at : at + 4000]):
        c, place = found.group(0), at + found.start()
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        if depth == 0 or (c == "," and depth == 1):
            out.append(code[start:place].strip())
            start = place + 1
        if depth == 0:
            break
    return out


def exits():
    """Returns a dict: Exit::NAME -> exit code."""
    return dict(re.findall(r"^  (\w+) = (\d+),", (ROOT / "base/error.h").read_text(), re.M))


class Sources:
    """The ids in the sources, with their locations and the exit codes of the calls. `words`: all literals, as
    printed."""

    def __init__(self):
        self.places, self.exits, self.words, self.faults = {}, {}, set(), []
        for module in MODULES:
            for path in sorted((ROOT / module).rglob("*")):
                if path.suffix in (".cc", ".h", ".cu", ".cuh"):
                    self.read(path, without_comments(path.read_text()))

    def read(self, path, code):
        name = path.relative_to(ROOT)
        for found in re.finditer(rf'(?:"|\\")({ID})(?:"|\\")', code):
            self.places.setdefault(found.group(1), name)
        self.words.update(as_printed(w).strip() for w in LITERAL.findall(code) if len(w) >= 8)
        for found in re.finditer(r"\b(?:fail|Error(?: \w+)?)(?:\(|\{)", code):
            given = arguments(code, found.end())
            if len(given) < 2:
                continue
            for error in re.findall(rf'"({ID})"', given[1]):
                exit_name = re.fullmatch(r"(?:amp::)?Exit::(\w+)", given[0])
                if exit_name:
                    self.exits.setdefault(error, set()).add(exits()[exit_name.group(1)])
                else:
                    self.faults.append(f"{name}: {error} is raised with the exit code `{given[0]}`; an id has one")


def as_printed(words):
    """Returns a literal of the sources as the program prints it: settings are replaced by flags."""
    return re.sub(r"`(\w+)`", r"--\1", words.replace('\\"', '"'))


def faults_of_sources(table, sources):
    yield from sources.faults
    ids = {e["id"]: e for e in table}
    for error, place in sorted(sources.places.items()):
        if error not in ids:
            yield f"{place}: {error} is not in base/errors.txt"
    for error, e in ids.items():
        if error not in sources.places:
            yield f"{error}: no source raises it"
            continue
        for code in sorted(sources.exits.get(error, set()) - {e["exit"]}):
            yield f"{error}: raised with exit code {code}, the table has {e['exit']}: a new exit code needs a new id"
        if not any(w in e["example"] for w in sources.words if w):
            yield f"{error}: the example has no words of a message"


def faults_of_table(table):
    if [e["id"] for e in table] != sorted({e["id"] for e in table}):
        yield "the ids are not sorted, or one is there twice"
    for e in table:
        missing = {"exit", "means", "do", "example"} - set(e)
        unknown = set(e) - {"id", "exit", "means", "do", "example", "by"}
        if missing or unknown:
            yield f"{e['id']}: lacks {sorted(missing)}, has {sorted(unknown)}"
        elif e["exit"] not in TITLES:
            yield f"{e['id']}: {e['exit']} is no exit code"
        for key in ("means", "do"):
            if not e.get(key, ".").endswith("."):
                yield f"{e['id']}: `{key}` is no sentence"


def faults_of_tests(table):
    named = set()
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix in (".c", ".cc", ".h", ".py", ".sh", ".cu"):
            named.update(re.findall(rf"\b{ID}\b", path.read_text(errors="replace")))
    for e in table:
        if e["id"] not in named and "by" not in e:
            yield f"{e['id']}: no test raises it"


def linked(text):
    return re.sub(r"docs/(\w+\.md)", r"[\1](\1)", text)


def page(table):
    lines = [paragraph if paragraph.startswith(("#", "```")) else textwrap.fill(paragraph, 100, break_on_hyphens=False)
             for paragraph in HEAD.split("\n\n")]  # fmt: skip
    out = "\n\n".join(lines) + "\n"
    for code, title in TITLES.items():
        entries = [e for e in table if e["exit"] == code]
        if entries:
            out += f"\n## Exit code {code}: {title}\n"
        for e in entries:
            texts = [e["means"], f"**Remedy**: {e['do']}"] + ([f"**Raised only by** {e['by']}."] if "by" in e else [])
            out += f"\n### {e['id']}\n"
            for text in texts:
                out += "\n" + textwrap.fill(linked(text), 100, break_long_words=False, break_on_hyphens=False) + "\n"
            out += f"\n```\n{e['example']}\n```\n"
    return out


def main():
    table = read_table()
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(page(table))
    faults = [*faults_of_table(table), *faults_of_sources(table, Sources()), *faults_of_tests(table)]
    if not PAGE.exists() or PAGE.read_text() != page(table):
        faults.append("docs/errors.md is stale: UPDATE_DOCS=1 tests/errors/test.py writes it")
    if len(table) < 200:
        faults.append(f"only {len(table)} errors were found")
    print("\n".join(faults) or f"{len(table)} errors, ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
