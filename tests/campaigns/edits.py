"""Random edits of files: of their bytes, of numbers and words in text, and of values in JSON."""
import json
import re

NUMBERS = ["0", "-1", "1e400", "-1e308", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e-320",
           "nan", "2147483648", "4294967296", "0.1", "99999999999999999999999999"]
WORDS = ["", "\u202e", "\x1b[31m", "\x00", "a" * 70_000, "../../../etc/passwd", "%s%n", "null", "\ud7ff", "{{ 1 }}",
         "*a", "[" * 500]
VALUES = [None, True, -1, 2**63, -(2**63), 1e308, "", "\x1b]0;x\x07", "a" * 70_000, [], {}, [[]], [1] * 5000,
          {"": None}, {str(i): i for i in range(2000)}, 0.5, "1", "/dev/zero"]
DEEP = "\"deep\""  # replaced by nested lists in the text, because Python's writer refuses them


def edited(random, data):
    """Applies one to three edits. Returns the edited bytes and a description of the edits."""
    done = []
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        kinds = [flip, cut, insert, remove, repeat]
        if is_text(data):
            kinds += [number, word]
        if is_json(data):
            kinds += [value] * 5
        edit = random.choice(kinds)
        data = edit(random, data)
        done.append(edit.__name__)
    return data, "+".join(done)


def is_text(data):
    """True if the bytes are UTF-8."""
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


def is_json(data):
    """True if the bytes are a JSON object or list, or lines of these."""
    try:
        return all(isinstance(json.loads(line), (dict, list)) for line in documents(data.decode()))
    except (ValueError, RecursionError):
        return False


def documents(text):
    """Returns the JSON documents of a text: all of it, or its lines."""
    try:
        json.loads(text)
        return [text]
    except ValueError:
        return text.splitlines() or [text]


def flip(random, data):
    """Changes up to 64 bytes."""
    data = bytearray(data or b"\0")
    for _ in range(random.choice([1, 1, 2, 8, 64])):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)


def cut(random, data):
    """Cuts the end off."""
    return data[: random.randrange(len(data) + 1)]


def insert(random, data):
    """Inserts random bytes."""
    at = random.randrange(len(data) + 1)
    return data[:at] + random.randbytes(random.choice([1, 2, 16])) + data[at:]


def remove(random, data):
    """Removes a range."""
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:first] + data[last:]


def repeat(random, data):
    """Repeats a range up to 200 times."""
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    part = data[first: min(last, first + 2000)]
    return data[:last] + part * random.choice([1, 2, 200]) + data[last:]


def replaced(random, data, pattern, values):
    """Replaces one match of a pattern in a text."""
    text = data.decode(errors="surrogateescape")
    found = list(re.finditer(pattern, text))
    if not found:
        return data
    match = random.choice(found)
    text = text[: match.start()] + random.choice(values) + text[match.end():]
    return text.encode(errors="surrogateescape")


def number(random, data):
    """Replaces a number."""
    return replaced(random, data, r"-?\d+(?:\.\d+)?", NUMBERS)


def word(random, data):
    """Replaces a word."""
    return replaced(random, data, r"\w+", WORDS)


def value(random, data):
    """Replaces, removes or adds a value of a JSON document."""
    texts = documents(data.decode())
    at = random.randrange(len(texts))
    holder = {"": json.loads(texts[at])}
    places = [(holder, ""), *places_of(holder[""])]
    parent, key = random.choice(places)
    how = random.randrange(5)
    if how == 0 and parent is not holder:
        del parent[key]
    elif how == 1 and isinstance(parent[key], dict):
        parent[key][random.choice(["", "a", "version", "\x1b[31m"])] = random.choice(VALUES)
    else:
        parent[key] = random.choice([*VALUES, "deep"])
    deep = "[" * 50_000 + "]" * 50_000
    texts[at] = json.dumps(holder[""]).replace(DEEP, deep)
    return "\n".join(texts).encode(errors="replace")


def places_of(tree):
    """Returns (container, key) of every value of a JSON document, without recursion."""
    found, open_ = [], [tree]
    while open_:
        part = open_.pop()
        if isinstance(part, dict):
            keys = list(part)
        elif isinstance(part, list):
            keys = range(len(part))
        else:
            continue
        for key in keys:
            found.append((part, key))
            open_.append(part[key])
    return found
