#!/usr/bin/env python3
"""Checks the C++ and CUDA sources of the product. Needs only Python's standard library.

1. A file has at most 400 lines, tests included.
2. A function has at most 60 lines, except tables (TABLES).
3. A source file above 80 lines opens with a comment.
4. Comments contain none of the BANNED phrases and use American spelling.
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
    r"^(?:Of (?:a|an|the|one|several|all)|Whoever|Whatever|Behind|Beside) ": "begin with the noun or verb",
    r"\bnobody\b": "no one; say who does or does not",
    r"\brooms?\b": "module",
    r"\bworth a (?:word|line)\b": "say when it is printed",
    r"\b(?:centre|grey)\w*": "American spelling",
}


def sources():
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "*.cc", "*.h", "*.cu", "*.cuh"],
                           check=True, capture_output=True, text=True).stdout.split()
    return [name for name in names if (ROOT / name).exists()]


def is_product(name):
    return name.split("/")[0] in MODULES


def functions(lines):
    """(name, first line, length) of the functions at the start of a line or in a class, as clang-format writes them."""
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


def comments(lines):
    """(number, text) of comments on lines of their own and after code. Strings that hold slashes are skipped."""
    for number, line in enumerate(lines, 1):
        found = re.match(r"\s*//+!? ?(.*)", line) or re.match(r'(?:[^"/]|/(?!/)|"(?:[^"\\]|\\.)*")*?\s//+ ?(.*)', line)
        if found and "NOLINT" not in line and "clang-format" not in line:
            yield number, found.group(1)


def faults_of_messages(text):
    """Faults of string literals. A message ends at the statement's end; commands in backquotes may hold flags."""
    token = r'//[^\n]*|#include[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|;'
    message = ""
    for found in re.findall(token, text) + [";"]:
        if found[0] == '"':
            message += found[1:-1]
        elif found == ";":
            for flag in re.findall(r"(?<![\w-])--[a-z]\w+", re.sub(r"`[^`]*`", "", message)):
                yield f"a message names the flag {flag}: write `{flag[2:]}` (base/setting_name.h)"
            message = ""


def faults(name):
    lines = (ROOT / name).read_text().splitlines()
    if len(lines) > MOST_LINES:
        yield f"{len(lines)} lines, at most {MOST_LINES}"
    if not is_product(name):
        return
    for function, start, length in functions(lines):
        if length > MOST_OF_FUNCTION and function not in TABLES:
            yield f"line {start}: {function}() has {length} lines, at most {MOST_OF_FUNCTION}"
    if name.endswith((".cc", ".cu")) and len(lines) > OPENING_FROM and not lines[0].startswith("//"):
        yield f"{len(lines)} lines without an opening comment"
    if not name.startswith("tools/") and name not in OPTIONS_OF_OTHERS:
        yield from faults_of_messages("\n".join(lines))
    previous = -1
    for number, text in comments(lines):
        continued, previous = previous == number - 1, number
        plain = re.sub(r"`[^`]*`|\"[^\"]*\"", "", text)
        patterns = {p: b for p, b in BANNED.items() if not (continued and p.startswith("^"))}
        for found, better in language.banned_phrases(plain, patterns):
            yield f"line {number}: '{found}' (better: {better})"


def main():
    count, bad = 0, 0
    for name in sources():
        count += 1
        for fault in faults(name):
            bad += 1
            print(f"{name}: {fault}")
    if count < 500:
        print(f"only {count} sources were found")
        bad += 1
    print(f"{count} sources, {bad} faults" if bad else f"{count} sources, ok")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
