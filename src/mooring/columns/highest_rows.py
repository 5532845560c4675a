"""HighestRows: the rows with the highest value of a column, maintained as single values change.

Hot path. A decision usually lowers the value of one of these rows, so the next decision chooses among the others. The
column is searched only when none is left. In clusters with many nodes ``BlockMaxima`` is faster.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class HighestRows:
    """A column, and the rows that have its highest value."""

    __slots__ = ("_highest", "_rows", "values")

    def __init__(self, values: Ints) -> None:
        #: The column. Do not modify it.
        self.values = values
        self._highest = 0
        #: In ascending order; empty if they are not known.
        self._rows: list[int] = []

    def set(self, row: int, value: int) -> None:
        """Change the value of a row."""
        before, rows = self.values.item(row), self._rows
        if before == value:
            return
        self.values[row] = value
        if not rows:
            return
        if value > self._highest:
            self._highest = value
            self._rows = [row]
        elif value == self._highest:
            insort(rows, row)
        elif before == self._highest:
            del rows[bisect_left(rows, row)]

    def choose(self, number: Callable[[], float]) -> int:
        """Return a row with the highest value.

        ``number`` returns a number from 0 to 1, which selects one of several rows.
        """
        rows, values = self._rows, self.values
        if not rows:
            self._highest = values.item(int(values.argmax()))
            rows = self._rows = (values == self._highest).nonzero()[0].tolist()
        return rows[0] if len(rows) == 1 else rows[int(number() * len(rows))]
