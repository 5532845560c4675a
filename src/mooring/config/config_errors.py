"""What is wrong with a configuration: every fault with its place, its reason and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

#: How far a file came: it could not be read, its values break rules, or a scheduler cannot be built from it.
Stage = Literal["decode", "validate", "start"]


class FieldError(msgspec.Struct, frozen=True):
    """One fault of a configuration."""

    #: Where, as Kubernetes writes it: ``profiles[0].plugins.score``; "" where the fault is the file as a whole.
    path: str
    #: What is wrong, without a full stop.
    message: str
    #: The line in the file, counted from 1, where it is known.
    line: int | None = None
    #: What to do about it.
    remedy: str | None = None

    def describe(self) -> str:
        """The fault as a sentence or two, without the file's name."""
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text}. {self.remedy}" if self.remedy else text


class ConfigError(ValueError):
    """A configuration that cannot be used, with all faults that were found at the stage that failed."""

    def __init__(self, errors: Iterable[FieldError], *, stage: Stage, source: str = "") -> None:
        self.errors = sorted(errors, key=lambda error: (error.line or 0, error.path))
        self.stage = stage
        self.source = source
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """One line for each fault: ``FILE:LINE: path: message. Remedy``."""
        return [self._line(error) for error in self.errors]

    def _line(self, error: FieldError) -> str:
        place = ":".join(str(part) for part in (self.source, error.line) if part)
        text = " ".join(error.describe().split())
        return f"{place}: {text}" if place else text


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that looks most like this one, capitals aside."""
    by_folded = {each.casefold(): each for each in sorted(known)}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[close[0]] if close else None


def choice(words: Sequence[str]) -> str:
    """Words as a choice in a sentence: ``a, b or c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"
