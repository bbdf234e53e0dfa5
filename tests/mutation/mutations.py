"""Reads the lists of mutations, mutations.txt, held_out.txt and held_out_2.txt. An entry is

    file: programs
    - the original line, which must be in the file exactly once
    + the mutated line; empty: the statement is removed
    = why no test can notice it (only for equivalent mutations)

Indentation does not count. `programs` are the test programs that should notice, without "test_", in the order in which
they run. Entries are numbered from 1, through all lists. A line that starts with # is a comment."""
import dataclasses
import pathlib

import switch

LISTS = ["mutations", "held_out", "held_out_2"]
MODULES = "base graph ops backend importer precision data models trainer run tools".split()


@dataclasses.dataclass
class Mutation:
    number: int
    file: str
    programs: list
    old: str
    new: str
    equivalent: str = ""  # why no test can notice the mutation
    list: str = ""        # name of the list
    line: int = 0         # in the file, from 1
    stale: str = ""       # the reason why the entry does not fit the file

    @property
    def key(self):
        return self.file, self.old, self.new

    def switched(self):
        return switch.choice(self.old, self.new, f"::amp_mutation::is({self.number})")


def parse(text, name, first=1):
    out, head = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        mark, rest = line[0], line[1:].strip()
        if mark == "-" and head:
            out.append(Mutation(first + len(out), head[0], head[1], rest, "", list=name))
        elif mark == "+" and out:
            out[-1].new = rest
        elif mark == "=" and out:
            out[-1].equivalent = rest
        elif ":" in line and line[0] not in " +-=":
            file, _, programs = line.partition(":")
            head = file.strip(), programs.split()
        else:
            raise SystemExit(f"{name}.txt:{number}: cannot be read: {line}")
    return out


def locate(m, root):
    path = root / m.file
    if not path.is_file():
        m.stale = "there is no such file"
        return
    places = [i for i, line in enumerate(path.read_text().splitlines(), 1) if line.strip() == m.old]
    if len(places) != 1:
        m.stale = f"the line is in the file {len(places)} times"
        return
    m.line = places[0]
    try:
        m.switched()
    except switch.CannotSwitch as e:
        m.stale = str(e)


def read(root):
    entries = []
    for name in LISTS:
        text = pathlib.Path(__file__).with_name(f"{name}.txt").read_text()
        entries += parse(text, name, first=len(entries) + 1)
    for m in entries:
        locate(m, root)
    taken = {}
    for m in entries:
        other = taken.setdefault((m.file, m.line), m)
        if other is not m and not m.stale:
            m.stale = f"mutation {other.number} is in the same line"
    return entries


def switched(text, chosen):
    """Returns the text of a file with these mutations."""
    lines = text.splitlines()
    for m in chosen:
        lines[m.line - 1] = m.switched()
    return '#include "base/mutation_switch.h"\n' + "\n".join(lines) + "\n"
