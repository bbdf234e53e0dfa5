#!/usr/bin/env python3
"""Checks sources: C++ and CUDA, and the language of scripts. Needs only Python's standard library.

1. A C++ file has at most 400 lines, tests included.
2. A function of the product has at most 60 lines, except tables (TABLES).
3. A source file of the product above 80 lines opens with a comment.
4. Comments contain none of the BANNED phrases and use American spelling: in C++ and CUDA, in Python with its docstrings,
   in shell scripts and in CMake files. The same holds for messages of the product, which are strings of several words.
5. Messages of all modules but tools/ name settings ("`batch_size`"), not flags; a whole command in backquotes may.
   tests/tools/hints_test.cc checks that these names exist."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import language  # noqa: E402

MODULES = "base graph backend ops importer models precision data trainer run tools".split()
MOST_LINES, MOST_OF_FUNCTION, OPENING_FROM = 400, 60, 80

# Functions whose body is one table.
TABLES = {"own_flags", "operator_name", *(f"{group}_settings" for group in
          "data model optimizer run image checkpoint schedule evaluation export precision".split())}
# Kernels whose stages share registers: a call between them would have to pass a dozen values.
NOT_YET_SPLIT = {"ops/cuda/add_norm.cu:operator", "ops/cuda/attention_tiles_grad.cuh:operator"}
OPTIONS_OF_OTHERS = {"backend/cuda/runtime/nvrtc.cc"}  # strings with dashes that are arguments of a library
BANNED = {
    **language.BANNED,
    r"^(?:Of (?:a|an|the|one|several|all)|Whoever|Whatever|What|Whether|The same|Behind|Beside|Where(?! \()) ":
        "begin with the noun or verb",
}
BANNED_IN_PRODUCT = {**BANNED, r"\brooms?\b": "module"}
NOT_PROSE = {"tests/language.py", "tests/style/test.py"}  # files that list banned phrases


def tracked(*patterns):
    command = ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", *patterns]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    return [name for name in names if name and (ROOT / name).exists()]


def is_product(name):
    return name.split("/")[0] in MODULES


def functions(lines):
    """Yields (name, first line, length) of the functions at the start of a line or in a class, as clang-format writes
    them."""
    for indent in ("", "  "):
        start, name = None, ""
        for number, line in enumerate(lines, 1):
            if start is None:
                head = re.match(rf"{indent}(?! )[\w:<>,&*\[\]~ ]*?([\w:~]+|operator\S+)\(.*\{{$", line)
                skipped = re.match(r"\s*(?:namespace|struct|class|enum|extern|if|for|while|switch|return|else|do)\b", line)
                if head and not skipped and "[&" not in line and "[=" not in line:
                    start, name = number, head.group(1).split("::")[-1]
            elif line in (indent + "}", indent + "};"):
                yield name, start, number - start + 1
                start = None


def faults_of_messages(text):
    """Yields faults of string literals. A message ends at the statement's end; commands in backquotes may hold
    flags."""
    token = r'//[^\n]*|#include[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|;'
    message = ""
    for found in re.findall(token, text) + [";"]:
        if found[0] == '"':
            message += found[1:-1]
        elif found == ";":
            for flag in re.findall(r"(?<![\w-])--[a-z]\w+", re.sub(r"`[^`]*`", "", message)):
                yield f"a message names the flag {flag}: write `{flag[2:]}` (base/setting_name.h)"
            message = ""


def faults_of_language(lines, comments, banned=BANNED):
    previous = -1
    for number, text in comments(lines):
        continued, previous = previous == number - 1, number
        plain = re.sub(r"`[^`]*`|\"[^\"]*\"", "", text)
        patterns = {p: b for p, b in banned.items() if not (continued and p.startswith("^"))}
        for found, better in language.banned_phrases(plain, patterns):
            yield f"line {number}: '{found}' (better: {better})"


def faults_of_wording(lines):
    """Yields banned phrases of messages. Strings of one word are names or data."""
    for number, line in enumerate(lines, 1):
        if not re.match(r"\s*(?://|#include)", line):
            for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
                for found, better in language.banned_phrases(text if " " in text else "", language.BANNED):
                    yield f"line {number}: a message says '{found}' (better: {better})"


def faults(name):
    lines = (ROOT / name).read_text().splitlines()
    if len(lines) > MOST_LINES:
        yield f"{len(lines)} lines, at most {MOST_LINES}"
    banned = BANNED_IN_PRODUCT if is_product(name) else BANNED
    yield from faults_of_language(lines, language.slash_comments, banned)
    if not is_product(name):
        return
    for function, start, length in functions(lines):
        if length > MOST_OF_FUNCTION and function not in TABLES:
            yield f"line {start}: {function}() has {length} lines, at most {MOST_OF_FUNCTION}"
    if name.endswith((".cc", ".cu")) and len(lines) > OPENING_FROM and not lines[0].startswith("//"):
        yield f"{len(lines)} lines without an opening comment"
    if not name.startswith("tools/") and name not in OPTIONS_OF_OTHERS:
        yield from faults_of_messages("\n".join(lines))
    yield from faults_of_wording(lines)


def faults_of_script(name):
    comments = language.python_comments if name.endswith(".py") else language.script_comments
    if name not in NOT_PROSE:
        yield from faults_of_language((ROOT / name).read_text().splitlines(), comments)


def main():
    sources = tracked("*.cc", "*.h", "*.hpp", "*.cu", "*.cuh")
    scripts = tracked("*.py", "*.sh", "*.cmake", "*CMakeLists.txt", ".ci/run")
    count, bad = 0, 0
    for names, check in ((sources, faults), (scripts, faults_of_script)):
        for name in names:
            count += 1
            for fault in check(name):
                bad += 1
                print(f"{name}: {fault}")
    if len(sources) < 500 or len(scripts) < 100:
        print(f"only {len(sources)} sources and {len(scripts)} scripts were found")
        bad += 1
    print(f"{count} sources, {bad} faults" if bad else f"{count} sources, ok")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
