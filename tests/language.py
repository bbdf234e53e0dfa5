"""Phrases that neither documents (tests/documents) nor comments and messages (tests/style) may contain, with what to
write instead."""
import re
import tokenize

BANNED = {
    r"\bspelled out\b": "unfused, expanded, written as single operators",
    r"\btold apart\b": "distinguished",
    r"\bdrawn weights\b": "random weights",
    r"\bworth a (?:word|line)\b": "say when it is printed",
    # Code reports, stores, reads, is called.
    r"\b(?:tells?|told|hears?|heard|forgets?|forgot)\b": "reports, is notified, receives, loses",
    r"\b(?:knows|not know)\b": "say what it stores or depends on",
    r"\b(?:looks|looked) at\b": "reads, examines",
    r"\b(?:sees|judges?|judged)\b": "reads, attends to; checks, evaluates",
    r"\b(?:nobody|anybody|everybody|somebody|whoever)\b": "say who or what",
    # Literal prepositions and verbs.
    r"\bbehind\b": "after",
    r"\b(?:lies?|lying) (?:in|at|beside|before|next|side)\b": "is stored in, is at, is next to",
    r"\bstands? (?:in front|between|beside|there|at)\b": "is before, is between",
    r"\bof (?:its|their|one's) own\b(?! \w)": "own, separate",
    # Former names (the standard terms are in docs/glossary.md).
    r"\b(?:bubble slices?|norm renewals?|resting rows?|working text|growing lines|told copies|sent values)\b":
        "slice hoisting, norm recomputation, zero-gradient rows, normalized string, incremental reader, known copies, "
        "compressed all-reduce",
    r"\b(?:whole rules?|tensor rules?|lobby|liveness|carriers?|take_up|ready_model|shape_gradients|shape_model)\b":
        "tensor-wise optimizer, rendezvous, failure detector, transport, restore, prepare_model, transform_gradients, "
        "apply_surgery",
    # American spelling.
    r"\b\w+(?:lis|nis|mis)(?:e|es|ed|ing|ation)\b": "American spelling: -ize",
    r"\b(?:behaviour|colour|neighbour|labelled|modelling|centre|licence|grey(?!\.))\w*": "American spelling",
}
SPELLED_WITH_S = {"promise", "promises", "promised", "premise", "premises", "otherwise", "surmise"}


def banned_phrases(text, patterns):
    """Yields (phrase, what to write instead) of a line of prose."""
    for pattern, better in patterns.items():
        # "Of a ..." is banned only at the start of a comment, with a capital letter.
        for found in re.finditer(pattern, text, 0 if pattern.startswith("^") else re.I):
            if found.group(0).lower() not in SPELLED_WITH_S:
                yield found.group(0).strip(), better


def slash_comments(lines):
    """Yields (number, text) of C++ comments on separate lines and after code. Strings that contain slashes are
    skipped."""
    for number, line in enumerate(lines, 1):
        found = re.match(r"\s*//+!? ?(.*)", line) or re.match(r'(?:[^"/]|/(?!/)|"(?:[^"\\]|\\.)*")*?\s//+ ?(.*)', line)
        if found and "NOLINT" not in line and "clang-format" not in line:
            yield number, found.group(1)


def script_comments(lines):
    """Yields (number, text) of comments of shell scripts and CMake files."""
    for number, line in enumerate(lines, 1):
        found = re.match(r"\s*#(?!!) ?(.*)", line) or re.match(r"""(?:[^"'#]|"[^"]*"|'[^']*')*\s# (.*)""", line)
        if found:
            yield number, found.group(1)


def python_comments(lines):
    """Yields (number, text) of comments and docstrings of a Python file."""
    starts_statement = True
    for token in tokenize.generate_tokens(iter([line + "\n" for line in lines]).__next__):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            yield token.start[0], token.string.lstrip("# ")
        if token.type == tokenize.STRING and starts_statement:
            for offset, text in enumerate(token.string.strip('"').splitlines()):
                yield token.start[0] + offset, text.strip()
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            starts_statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
