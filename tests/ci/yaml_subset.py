"""Reads the YAML that workflows use: nested mappings and lists, quoted and plain scalars (also over several lines), block
scalars (| and >-), lists in brackets. Python's standard library has no YAML reader."""
import re


class Lines:
    def __init__(self, text):
        self.lines = text.split("\n")
        self.at = 0

    def peek(self):
        """Returns indentation and text of the next line that is not empty or a comment; (-1, "") at the end."""
        while self.at < len(self.lines) and re.match(r"\s*(#|$)", self.lines[self.at]):
            self.at += 1
        if self.at == len(self.lines):
            return -1, ""
        line = self.lines[self.at]
        return len(line) - len(line.lstrip()), line.strip()


def load(text):
    """Returns the value of a document: dict, list or str. Numbers and booleans stay text."""
    lines = Lines(text)
    value = block(lines, lines.peek()[0])
    if lines.peek()[0] >= 0:
        raise ValueError(f"line {lines.at + 1} is not understood: {lines.lines[lines.at]!r}")
    return value


def block(lines, indent):
    return sequence(lines, indent) if lines.peek()[1].startswith("- ") else mapping(lines, indent)


def sequence(lines, indent):
    items = []
    while lines.peek()[0] == indent and lines.peek()[1].startswith("- "):
        text = lines.peek()[1][2:].strip()
        if re.match(r"[\w-]+:( |$)", text):  # the item is a mapping; this is its first key
            lines.lines[lines.at] = " " * (indent + 2) + text
            items.append(mapping(lines, indent + 2))
        else:
            lines.at += 1
            items.append(scalar(lines, text, indent))
    return items


def mapping(lines, indent):
    out = {}
    while lines.peek()[0] == indent:
        found = re.match(r"([\w.-]+):(?: (.*))?$", lines.peek()[1])
        if not found:
            break
        key, text = found.group(1), without_comment(found.group(2) or "")
        lines.at += 1
        if key in out:
            raise ValueError(f"the key {key} is there twice")
        below, next_text = lines.peek()
        if text:
            out[key] = scalar(lines, text, indent)
        elif below > indent or (below == indent and next_text.startswith("- ")):
            out[key] = block(lines, below)
        else:
            out[key] = ""
    return out


def without_comment(text):
    return text if text[:1] in "'\"" else re.sub(r"(^|\s)#.*", "", text).strip()


def scalar(lines, text, indent):
    if text in ("|", ">-"):
        return block_scalar(lines, indent, folded=text == ">-")
    if text.startswith("[") and text.endswith("]"):
        return [unquoted(part.strip()) for part in text[1:-1].split(",")]
    while lines.peek()[0] > indent:  # appends further lines of a plain scalar
        text += " " + lines.peek()[1]
        lines.at += 1
    return unquoted(text)


def unquoted(text):
    return text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0] else text


def block_scalar(lines, indent, folded):
    below = lines.peek()[0]
    if below <= indent:
        return ""
    found = []
    while lines.at < len(lines.lines):
        line = lines.lines[lines.at]
        if line.strip() and len(line) - len(line.lstrip()) < below:
            break
        found.append(line[below:])
        lines.at += 1
    text = "\n".join(found).rstrip("\n")
    return text.replace("\n", " ") if folded else text + "\n"
