"""Errors in a configuration: the field, the line, the problem and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

#: The stage that failed: decoding, validation, or building a scheduler.
Stage = Literal["decode", "validate", "start"]
#: The maximum number of errors that are reported one by one.
_MAX_LINES: Final = 100


class FieldError(msgspec.Struct, frozen=True):
    """One error in a configuration."""

    #: The field path, such as ``profiles[0].plugins.score``; "" means the whole file.
    path: str
    #: The problem, without a full stop.
    message: str
    #: The line in the file, counted from 1, if known.
    line: int | None = None
    #: The remedy.
    remedy: str | None = None

    def describe(self) -> str:
        """Return the error without the file's name."""
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text}. {self.remedy}" if self.remedy else text


class ConfigError(ValueError):
    """An invalid configuration, with all errors of the stage that failed."""

    def __init__(self, errors: Iterable[FieldError], *, stage: Stage, source: str = "") -> None:
        self.errors = sorted(errors, key=lambda error: (error.line or 0, error.path))
        self.stage = stage
        self.source = source
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return one line for each error, up to a limit: ``FILE:LINE: path: message. Remedy``."""
        lines = [self._line(error) for error in self.errors[:_MAX_LINES]]
        if len(self.errors) > _MAX_LINES:
            lines.append(f"{self.source or 'the file'}: {len(self.errors) - _MAX_LINES} more errors")
        return lines

    def _line(self, error: FieldError) -> str:
        place = ":".join(str(part) for part in (self.source, error.line) if part)
        text = " ".join(error.describe().split())
        return f"{place}: {text}" if place else text


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the most similar known word, ignoring case."""
    by_folded = {each.casefold(): each for each in sorted(known)}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[close[0]] if close else None


def choice(words: Sequence[str]) -> str:
    """Join words as a choice: ``a, b or c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"
