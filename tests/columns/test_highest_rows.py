"""The rows with the highest value are kept while values change, and searched again only when none of them is left."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.columns.highest_rows import HighestRows


def chosen(rows: HighestRows) -> list[int]:
    """Return all rows among which the choice is made."""
    return sorted({rows.choose(lambda number=number: number / 100) for number in range(100)})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], [1, 3]),
        ([(1, 2)], [3]),  # one of the highest becomes lower
        ([(1, 2), (3, 2)], [5]),  # all of them do: the next best
        ([(0, 7)], [0, 1, 3]),  # another one becomes as high
        ([(2, 9)], [2]),  # or higher
        ([(2, 9), (2, 7)], [1, 2, 3]),  # and lower again: the rows as high as it are searched
        ([(1, 7)], [1, 3]),  # no change
        ([(4, 0)], [1, 3]),  # a change below the highest
    ],
)
def test_changes_move_rows_in_and_out(changes: list[tuple[int, int]], expected: list[int]) -> None:
    rows = HighestRows(np.array([1, 7, 0, 7, 2, 6]))
    chosen(rows)
    for row, value in changes:
        rows.set(row, value)
    assert chosen(rows) == expected


def test_changes_before_the_first_choice_count() -> None:
    rows = HighestRows(np.array([1, 7, 0]))
    rows.set(2, 8)
    assert chosen(rows) == [2]
