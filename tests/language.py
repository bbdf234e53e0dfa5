"""Phrases that neither documents (tests/documents) nor comments (tests/style) may contain, with what to write instead."""
import re

BANNED = {
    r"\bspelled out\b": "unfused, expanded, written as single operators",
    r"\btold apart\b": "distinguished",
    r"\b(?:is|are|was|were) told\b": "is notified, receives",
    r"\b\w+(?:lis|nis|mis)(?:e|es|ed|ing|ation)\b": "American spelling: -ize",
    r"\b(?:behaviour|colour|neighbour|labelled|modelling)\w*": "American spelling",
}
SPELLED_WITH_S = {"promise", "promises", "promised", "premise", "premises", "otherwise", "surmise"}


def banned_phrases(text, patterns):
    """Yields (phrase, what to write instead) of a line of prose."""
    for pattern, better in patterns.items():
        # "Of a ..." is banned only at the start of a comment, with a capital letter.
        for found in re.finditer(pattern, text, 0 if pattern.startswith("^") else re.I):
            if found.group(0).lower() not in SPELLED_WITH_S:
                yield found.group(0).strip(), better
