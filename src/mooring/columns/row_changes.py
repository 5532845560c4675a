"""Which rows changed since when, so that a decision re-examines only those."""

from __future__ import annotations

_TRIM_AT = 1 << 16


class ChangeLog:
    """Row numbers in the order in which they changed. ``position`` is a bookmark into it."""

    __slots__ = ("_base", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._base = 0

    @property
    def position(self) -> int:
        """A bookmark: everything so far."""
        return self._base + len(self._rows)

    def mark(self, row: int) -> None:
        """A row changed."""
        self._rows.append(row)
        if len(self._rows) > _TRIM_AT:
            half = _TRIM_AT // 2
            del self._rows[:half]
            self._base += half

    def since(self, position: int, limit: int) -> list[int] | None:
        """The rows changed since a bookmark, each once; None if they are many (or no longer known)."""
        start = position - self._base
        count = len(self._rows) - start
        if start < 0 or count > limit:
            return None
        if count == 0:
            return []
        if count == 1:
            return [self._rows[-1]]
        return sorted(set(self._rows[start:]))
