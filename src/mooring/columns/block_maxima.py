"""BlockMaxima: the highest values of a column, maintained as single values change.

Hot path of clusters with many nodes. The column is divided into blocks, and each block has its highest value and how
many rows have it. To find the highest value, or one of the rows that have it, only the blocks' maxima and one block are
read.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
#: The value of rows that must not be chosen.
LOWEST = int(np.iinfo(np.int64).min)


class BlockMaxima:
    """A copy of a column, with the maximum of each block of rows."""

    __slots__ = ("_blocks", "_count", "_highest", "_shift", "values")

    def __init__(self, values: Ints) -> None:
        size = len(values)
        self._shift = (size.bit_length() + 1) // 2
        width = 1 << self._shift
        padded = np.full(-(-size // width) * width, LOWEST, dtype=np.int64)
        padded[:size] = values
        self._blocks = padded.reshape(-1, width)
        #: The column. Do not modify it.
        self.values: Ints = padded[:size]
        self._highest: Ints = self._blocks.max(axis=1)
        self._count: Ints = np.count_nonzero(self._blocks == self._highest[:, None], axis=1)

    def set(self, row: int, value: int) -> None:
        """Change the value of a row."""
        values, place = self.values, row >> self._shift
        before, highest = values.item(row), self._highest.item(place)
        if before == value:
            return
        values[row] = value
        if value > highest:
            self._highest[place] = value
            self._count[place] = 1
        elif value == highest:
            self._count[place] += 1
        elif before == highest:
            left = self._count.item(place) - 1
            if not left:
                block = self._blocks[place]
                highest = block.item(int(block.argmax()))
                left = int(np.count_nonzero(block == highest))
                self._highest[place] = highest
            self._count[place] = left

    def choose(self, number: Callable[[], float]) -> int:
        """Return a row with the highest value; one value at least must not be LOWEST.

        ``number`` returns a number from 0 to 1, which selects one of several rows.
        """
        maxima = self._highest
        highest = maxima.item(int(maxima.argmax()))
        (places,) = (maxima == highest).nonzero()
        counts = self._count[places].cumsum()
        count = counts.item(-1)
        chosen = int(number() * count) if count > 1 else 0
        index = int(counts.searchsorted(chosen, side="right"))
        place = int(places[index])
        (inside,) = (self._blocks[place] == highest).nonzero()
        before = counts.item(index - 1) if index else 0
        return (place << self._shift) + int(inside[chosen - before])
