"""Division as Go has it, and the default normalisation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.framework.normalize import default_normalize, truncated, truncated_all


@pytest.mark.parametrize(
    ("dividend", "divisor", "expected"), [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (-6, 2, -3), (0, -5, 0)]
)
def test_truncated(dividend: int, divisor: int, expected: int) -> None:
    """Towards zero."""
    assert truncated(dividend, divisor) == expected
    assert truncated_all(np.array([dividend]), divisor).tolist() == [expected]


@given(st.lists(st.integers(-(2**50), 2**50)), st.integers(-(2**20), 2**20).filter(bool))
def test_truncated_columns_agree(dividends: list[int], divisor: int) -> None:
    """For any numbers."""
    assert truncated_all(np.array(dividends, dtype=np.int64), divisor).tolist() == [
        truncated(d, divisor) for d in dividends
    ]


@pytest.mark.parametrize(
    ("scores", "plain", "reverse"),
    [
        ([0, 1, 3], [0, 33, 100], [100, 67, 0]),
        ([0, 0], [0, 0], [100, 100]),
        ([5], [100], [0]),
        ([200, 100], [100, 50], [0, 50]),
        ([-3, 2], [-150, 100], [250, 0]),
        ([-7, 3], [-233, 100], [333, 0]),
        ([-3, -1], [-3, -1], [100, 100]),
        ([], [], []),
    ],
)
def test_default_normalize(scores: list[int], plain: list[int], reverse: list[int]) -> None:
    """The highest becomes 100, or 0; nothing happens if none is above 0."""
    for expected, turned in ((plain, False), (reverse, True)):
        got = default_normalize(np.array(scores, dtype=np.int64), reverse=turned)
        assert (np.full(len(scores), got) if isinstance(got, int) else got).tolist() == expected


@given(st.integers(-10, 200), st.booleans(), st.integers(1, 5))
def test_a_number_stands_for_all_nodes(score: int, reverse: bool, count: int) -> None:
    """The same as a column of it."""
    column = default_normalize(np.full(count, score, dtype=np.int64), reverse=reverse)
    assert np.all(np.asarray(column) == default_normalize(score, reverse=reverse))


def test_scores_are_not_changed_in_place() -> None:
    """Raw scores may be kept."""
    raw = np.array([1, 2, 4], dtype=np.int64)
    default_normalize(raw, reverse=True)
    assert raw.tolist() == [1, 2, 4]
