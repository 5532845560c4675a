"""Distinct values of columns, compared with np.unique."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.columns.distinct import distinct, numbered

CASES = {
    "none": np.zeros(0, dtype=np.int8),
    "one": np.array([7, 7, 7], dtype=np.int32),
    "flags": np.array([True, False, True]),
    "codes": np.array([3, 1, 3, 0, 1, 5], dtype=np.int8),
    "absent": np.array([-1, 4, -1, 2], dtype=np.int32),
    "far apart": np.array([2**62, -(2**62), 5, 2**62], dtype=np.int64),
    "many": np.random.default_rng(0).integers(-50, 3000, 4000),
}


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_the_results_are_those_of_unique(values: np.ndarray) -> None:
    """The values, the first places and the numbers are equal."""
    found, first, numbers = np.unique(values, return_index=True, return_inverse=True)
    assert distinct(values) == found.tolist()
    places, given = numbered(values)
    assert places.tolist() == first.tolist()
    assert given.tolist() == numbers.tolist()
