"""The distinct values of a column of integers.

``np.unique`` sorts or hashes. The codes of a column are small numbers, so that a table by value is several times as
fast. Values that are far apart are still passed to ``np.unique``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]
Integers = npt.NDArray[Any]
#: The size of the table, relative to the number of values, and at least.
_PER_VALUE, _LEAST = 4, 1024


def distinct(values: Integers) -> list[int]:
    """Return the distinct values in ascending order."""
    if not len(values):
        return []
    low, high = int(values.min()), int(values.max())
    if low == high:
        return [low]
    if high - low > _PER_VALUE * len(values) + _LEAST:
        found: list[int] = np.unique(values).tolist()
        return found
    table = np.zeros(high - low + 1, dtype=np.bool_)
    table[values.astype(np.intp) - low] = True
    return [low + place for place in np.flatnonzero(table).tolist()]


def numbered(values: Integers) -> tuple[Rows, Rows]:
    """Number the distinct values from 0 in ascending order.

    Returns the place where each distinct value occurs first, and the number of every value.
    """
    count = len(values)
    if not count:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.zeros(1, dtype=np.intp), np.zeros(count, dtype=np.intp)
    if high - low > _PER_VALUE * count + _LEAST:
        _, places, numbers = np.unique(values, return_index=True, return_inverse=True)
        return places, numbers
    keys = values.astype(np.intp)
    keys -= low
    first = np.full(high - low + 1, -1, dtype=np.intp)
    first[keys[::-1]] = np.arange(count - 1, -1, -1)  # the last assignment is kept: that of the first place
    used = np.flatnonzero(first >= 0)
    number = np.zeros(len(first), dtype=np.intp)
    number[used] = np.arange(len(used))
    return first[used], number[keys]
