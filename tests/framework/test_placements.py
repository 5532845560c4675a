"""Placements in columns."""

from __future__ import annotations

import numpy as np

from mooring.columns.table import NodeTable
from mooring.framework.placements import Placements
from mooring.testing import make_node


def test_rows_and_sums() -> None:
    table = NodeTable()
    for index in range(5):
        table.add_node(make_node(f"n{index}").obj())
    placements = Placements(table, ["a", "b", "c"], np.array([0, 3, 1, 2, 4]), np.array([0, 2, 4]))
    assert [placements.of(index).tolist() for index in range(3)] == [[0, 3], [1, 2], [4]]
    assert placements.sums(np.array([1, 10, 100, 1000, 10000])).tolist() == [1001, 110, 10000]
    some = placements.some(np.array([2, 0]))
    assert list(some.names) == ["c", "a"]
    assert [some.of(index).tolist() for index in range(2)] == [[4], [0, 3]]
    assert Placements.whole(table).of(0).tolist() == [0, 1, 2, 3, 4]
