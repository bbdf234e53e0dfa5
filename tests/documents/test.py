#!/usr/bin/env python3
"""Checks the Markdown documents of the repository. Needs only Python's standard library.

1. Every relative link names a file that exists, and its fragment a heading of that file.
2. Prose ends at column 100 and bullets have at most three lines. Tables and code blocks are not prose.
3. No page contains one of the phrases of tests/language.py.
4. A README.md that lists the files "it includes today" of its module lists exactly these (a folder stands for its files).
5. A code block begins on the line after its ```, which has at most the name of a language, and ends.
6. Every error id that a page names is in base/errors.txt, every warning id and setting of docs/faq.md in the sources.
7. Answers of docs/faq.md have at most six lines."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import language  # noqa: E402

COMMAND = ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "*.md"]
NAMES = subprocess.run(COMMAND, check=True, capture_output=True, text=True).stdout.split("\n")
# docs/unprepared.md contains the text of unprepared_notes.md, which is therefore not checked by itself.
OTHERS = ("bench/unprepared_notes.md",)
PAGES = sorted(ROOT / name for name in NAMES if name and not name.startswith(OTHERS) and (ROOT / name).exists())


def heading_ids(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page):
    for target, fragment in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        if "://" in target:
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists():
            yield f"no file {target}"
        elif fragment and path.suffix == ".md" and fragment not in heading_ids(path):
            yield f"no heading #{fragment} in {path.name}"


def prose_lines(page):
    """Yields (number, line) outside of code blocks and tables."""
    in_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.lstrip().startswith("|"):
            yield number, line


def broken_code_blocks(page):
    fences = [(n, line.strip()) for n, line in enumerate(page.read_text().splitlines(), 1) if line.lstrip().startswith("```")]
    for index, (number, fence) in enumerate(fences):
        if not re.fullmatch(r"```\w*" if index % 2 == 0 else "```", fence):
            yield f"line {number}: '{fence}' shares its line with other text"
    if len(fences) % 2:
        yield f"line {fences[-1][0]}: the code block has no end"


def wrong_includes(page):
    folder = page.parent.relative_to(ROOT)
    text = " ".join(page.read_text().split())
    listed = re.search(r"[Ii]t includes today:? (.*?)\.(?: |$)", text)
    if not listed and "and no sibling" not in text:
        return
    names = re.findall(r"`([\w/]+(?:\.h)?)`", listed.group(1)) if listed else []
    module = folder.parts[0]
    included = set()
    for source in [*page.parent.glob("*.cc"), *page.parent.glob("*.h")]:
        included |= set(re.findall(rf'^#include "{module}/(.*)"', source.read_text(), re.M))
    own = "/".join(folder.parts[1:]) + "/"
    for header in sorted(h for h in included if not h.startswith(own)):
        if not any(header == name or name.endswith("/") and header.startswith(name) for name in names):
            yield f"{folder} includes {header}, which it does not list"
    for name in names:
        if not any(header == name or header.startswith(name) for header in included):
            yield f"{folder} does not include {name}"


def long_prose(page):
    bullet_start, bullet_lines = 0, 0
    for number, line in prose_lines(page):
        if len(line) > 100 and not re.fullmatch(r"\s*!?\[[^\]]*\]\([^)]*\)", line):
            yield f"line {number} has {len(line)} columns"
        if re.match(r"\s*(?:[*-]|\d+\.) ", line):
            bullet_start, bullet_lines = number, 1
        elif bullet_lines and line.startswith("  "):
            bullet_lines += 1
            if bullet_lines == 4:
                yield f"the bullet at line {bullet_start} has more than three lines"
        else:
            bullet_lines = 0


def banned_phrases(page):
    for number, line in prose_lines(page):
        text = re.sub(r"`[^`]*`", "", line)
        for found, better in language.banned_phrases(text, language.BANNED):
            yield f"line {number}: '{found}' (better: {better})"


def unknown_ids(page):
    known = set(re.findall(r"^E_\w+", (ROOT / "base/errors.txt").read_text(), re.M))
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)  # examples of code may contain invented ids
    for name in sorted(set(re.findall(r"\bE_[A-Z0-9_]+\b", text)) - known):
        yield f"no error has the id {name}"


def frequent_questions():
    """Yields faults of docs/faq.md."""
    page, answers = ROOT / "docs/faq.md", {}
    for number, line in prose_lines(page):
        if line.startswith("### "):
            answers[line] = 0
        elif answers and line and not line.startswith("#"):
            answers[list(answers)[-1]] += 1
    yield from (f"{question}: {lines} lines" for question, lines in answers.items() if not 0 < lines <= 6)
    folders = "base graph backend ops importer models precision data trainer run tools".split()
    sources = "".join(p.read_text() for f in folders for p in (ROOT / f).rglob("*.cc"))
    for literal in sorted({f'"{flag}"' if flag else f'"{warning}: ' for flag, warning in re.findall(r"--(\w+)|\b(W_\w+)", page.read_text())}):
        if literal not in sources:
            yield f"the sources have no {literal}"


def main():
    wrong = [f"docs/faq.md: {problem}" for problem in frequent_questions()]
    for page in PAGES:
        checks = [broken_links, broken_code_blocks, wrong_includes, long_prose, banned_phrases, unknown_ids]
        wrong += [f"{page.relative_to(ROOT)}: {problem}" for check in checks for problem in check(page)]
    print("\n".join(wrong) or f"{len(PAGES)} pages, ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
