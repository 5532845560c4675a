"""The highest values of a column are the same whether they are maintained or searched."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.columns.block_maxima import LOWEST, BlockMaxima
from mooring.columns.highest_rows import HighestRows
from mooring.columns.table import NodeTable
from mooring.scheduler.scoring import Selection

Kind = type[BlockMaxima | HighestRows]


@pytest.mark.parametrize("kind", [BlockMaxima, HighestRows])
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 200), levels=st.integers(1, 6))
def test_the_choice_is_that_of_a_search(kind: Kind, seed: int, size: int, levels: int) -> None:
    rng = random.Random(seed)
    values = np.array([rng.randrange(levels) for _ in range(size)], dtype=np.int64)
    maxima = kind(values.copy())
    searched, maintained = (random.Random(seed) for _ in range(2))
    selection = Selection(NodeTable(), searched, "random")
    for _ in range(40):
        row = rng.randrange(size)
        values[row] = rng.choice([LOWEST, *range(levels)]) if row else rng.randrange(levels)  # one is always feasible
        maxima.set(row, values.item(row))
        assert maxima.values.tolist() == values.tolist()
        assert maxima.choose(maintained.random) == selection.pick(values, None)
    assert searched.getstate() == maintained.getstate()


def test_the_column_is_a_copy() -> None:
    values = np.arange(5)
    BlockMaxima(values).set(0, 9)
    assert values.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", [BlockMaxima, HighestRows])
@pytest.mark.parametrize("number", [0.0, 0.34, 0.99])
def test_one_number_selects_one_of_several(kind: Kind, number: float) -> None:
    maxima = kind(np.array([1, 7, 0, 7, 2, 7]))
    assert maxima.choose(lambda: number) == [1, 3, 5][int(number * 3)]
