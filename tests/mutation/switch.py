"""Turns a pair of source lines into one line that computes one or the other, as selected by a number that is read at
run time.

The tokens in which the lines differ are widened to whole expressions, to the next comma, bracket, assignment or logical
operator on both sides. Lines that differ in more than an expression (`continue;` and `break;`) are switched as
statements."""
import re

TOKEN = re.compile(r"""\s+|//.*|R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.'])*
                       |<<=|>>=|\.\.\.|->\*|<=>|::|->|\+\+|--|&&|\|\||<<|>>|[-+*/%&|^=<>!]=|.""", re.X)
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
BEFORE = {"(", "[", "{", ",", ";", "?", ":", "&&", "||", "return", "else", "do", "case"} | ASSIGNMENTS
AFTER = {")", "]", "}", ",", ";", "?", ":", "&&", "||"}
STATEMENTS = {"continue", "break", "return", "throw", "if", "for", "while", "switch", "goto"}


class CannotSwitch(ValueError):
    """A mutation that must be written in another way; the text states the reason."""


def tokens(line):
    return [t for t in TOKEN.findall(line) if not t.isspace() and not t.startswith("//")]


def unclosed(region):
    """Returns the brackets, or `?` of `? :`, that a region opens or closes without their partners, as two counts."""
    stack, lost = [], 0
    for t in region:
        if t in OPEN or t == "?":
            stack.append(t)
        elif t in CLOSE:
            while stack and stack[-1] == "?":
                stack.pop()
            lost += not stack
            stack = stack[:-1]
        elif t == ":" and not (stack and stack[-1] in OPEN):
            lost += not stack
            stack = stack[:-1]
    return len(stack), lost


def matching(line, at, step):
    """Returns the index of the partner of the bracket at `at`; None if it is on another line."""
    depth = 0
    while 0 <= at < len(line):
        depth += (line[at] in OPEN) - (line[at] in CLOSE)
        if depth == 0:
            return at
        at += step
    return None


def difference(old, new):
    """Returns the lengths of the common prefix and suffix."""
    before = 0
    while before < min(len(old), len(new)) and old[before] == new[before]:
        before += 1
    after = 0
    while after < min(len(old), len(new)) - before and old[-1 - after] == new[-1 - after]:
        after += 1
    return before, after


def widened(old, new):
    """Returns the prefix and suffix that surround whole expressions of both lines."""
    before, after = difference(old, new)
    while True:
        moved = False
        for line in (old, new):
            opened, lost = unclosed(line[before:len(line) - after])
            if opened and after == 0 or lost and before == 0:
                raise CannotSwitch("the change has a bracket whose partner is on another line")
            after -= bool(opened)
            before -= bool(lost)
            moved = moved or opened or lost
        if moved:
            continue
        if before > 0 and old[before - 1] not in BEFORE:
            left = matching(old, before - 1, -1) if old[before - 1] in CLOSE else before - 1
            if left is None:
                raise CannotSwitch("the expression begins on another line")
            before, moved = left, True
        elif after > 0 and old[len(old) - after] not in AFTER:
            right = matching(old, len(old) - after, 1) if old[len(old) - after] in OPEN else len(old) - after
            if right is None:
                raise CannotSwitch("the expression ends on another line")
            after, moved = len(old) - right - 1, True
        if not moved:
            return before, after


def has_comma(region):
    """True for a comma outside of brackets: in `(a, b)` it would be the comma operator."""
    depth = 0
    for t in region:
        depth += (t in OPEN) - (t in CLOSE)
        if t == "," and depth == 0:
            return True
    return False


def complete_statement(line):
    return not line or (line[-1] in (";", "}") and unclosed(line) == (0, 0) and line[0] != "else")


def choice(old_line, new_line, condition):
    """Returns a line that contains both lines. `condition` selects the new one."""
    old, new = tokens(old_line), tokens(new_line)
    if old == new:
        raise CannotSwitch("both lines are the same")
    if not old:
        raise CannotSwitch("the original line is empty")
    if new:
        before, after = widened(old, new)
        a, b = old[before:len(old) - after], new[before:len(new) - after]
        if has_comma(a) or has_comma(b):
            raise CannotSwitch("the lines differ in several expressions")
        ends = after > 0 or old[-1] not in (";", "{", "}")
        if a and b and ends and not (STATEMENTS | {";"}) & set(a + b):
            if after == 0:
                raise CannotSwitch("the expression may go on in the next line")
            head, tail = " ".join(old[:before]), " ".join(old[len(old) - after:])
            return f"{head} ({condition} ? ({' '.join(b)}) : ({' '.join(a)})) {tail}"
    if not (complete_statement(old) and complete_statement(new)):
        raise CannotSwitch("the lines are neither whole statements nor do they differ in one expression")
    return f"if ({condition}) {{ {' '.join(new)} }} else {{ {' '.join(old)} }}"
