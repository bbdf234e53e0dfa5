"""Defines the exception that this package raises."""

from __future__ import annotations


class OnnxAmpError(Exception):
    """Raised by a call that failed.

    status: the exit code that the command line would end with (docs/errors.md). id: such as "E_DATA_COLUMN", the same
    in all versions. fact: what is wrong. places: where, innermost first. hint: what to do; may be empty."""

    def __init__(self, status: int, id: str, fact: str, places: list[str], hint: str):
        super().__init__("\n".join([f"{id}: {fact}", *("  " + p for p in places), *([f"  hint: {hint}"] if hint else [])]))
        self.status, self.id, self.fact, self.places, self.hint = status, id, fact, places, hint

    def __reduce__(self):
        return OnnxAmpError, (self.status, self.id, self.fact, self.places, self.hint)
