"""Fragmentation of clusters that are easy to calculate."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.simulation.fragmentation import fragmentation


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        ([[4, 10], [4, 10]], 0.0),
        ([[1, 10], [4, 10]], 100 * 1 / 8 * 0.25),  # a quarter of the pods needs 2
        ([[1, 0], [4, 10]], 100 * 1 / 8),  # no further pod is allowed
        ([[0, 10], [-1, 10]], 0.0),
    ],
)
def test_one_resource(free: list[list[int]], expected: float) -> None:
    found = fragmentation(np.array(free), np.array([[4], [4]]), np.array([[1, 1], [2, 1]]), np.array([0.75, 0.25]))
    assert found == pytest.approx(expected)


def test_a_node_counts_by_its_scarcest_resource() -> None:
    free, capacity = np.array([[0, 8, 10]]), np.array([[4, 8]])
    assert fragmentation(free, capacity, np.array([[1, 1, 1]]), np.array([1.0])) == 0.0
    without = np.array([[2, 0, 10]]), np.array([[4, 0]])  # the node does not have the second resource
    assert fragmentation(*without, np.array([[3, 0, 1]]), np.array([1.0])) == pytest.approx(50.0)
