"""The search in columns."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.simulation.rebalance.packing import Packing, Problem
from tests.simulation.rebalance.clusters import steps_clock


def problem(
    capacity: int, sizes: list[int], homes: list[int], nodes: int, *, budgets: list[int] | None = None
) -> Problem:
    """Nodes of equal capacity; the pods on nodes that a budget covers are those with an even number."""
    free = np.full((nodes, 1), capacity)
    for size, home in zip(sizes, homes, strict=True):
        if home >= 0:
            free[home] -= size
    return Problem(
        free=free,
        sizes=np.array(sizes).reshape(-1, 1),
        allowed=np.ones((len(sizes), nodes), dtype=np.bool_),
        kinds=np.arange(len(sizes)),
        homes=np.array(homes),
        budget_of=np.array([0 if budgets and number % 2 == 0 else -1 for number in range(len(sizes))]),
        budgets=np.array(budgets or []),
    )


def search(given: Problem, items: list[int], *, seconds: float = 0.05, most_moves: int | None = None) -> Packing:
    packing = Packing(given, clock=steps_clock())
    movable = given.homes >= 0
    packing.place(items, movable, seconds, most_moves=most_moves)
    used = np.zeros_like(given.free)
    here = packing.rows >= 0
    np.add.at(used, packing.rows[here], given.sizes[given.kinds[here]])
    capacity = given.free.copy()
    at_home = given.homes >= 0
    np.add.at(capacity, given.homes[at_home], given.sizes[given.kinds[at_home]])
    assert (used <= capacity).all()
    assert (packing.free == capacity - used).all()
    return packing


def test_a_perfect_packing_is_found() -> None:
    # Three nodes of 10 with 7+2, 6+3 and 5+4: the room of 1 on each is only together enough for a pod of 3.
    packing = search(problem(10, [7, 2, 6, 3, 5, 4, 3], [0, 0, 1, 1, 2, 2, -1], 3), [6])
    assert packing.rows[6] >= 0


def test_a_pod_that_needs_a_whole_node() -> None:
    sizes = [1] * 8 + [10]
    packing = search(problem(10, sizes, [0] * 8 + [-1], 2), [8])
    assert packing.rows.tolist()[8] == 1
    full = problem(10, [1] * 8 + [1] * 8 + [10], [0] * 8 + [1] * 8 + [-1], 3)
    full.free[2] = 4
    assert search(full, [16]).rows[16] < 0  # there is room for four only
    full.free[2] = 8
    assert search(full, [16]).rows[16] >= 0


def test_budgets_and_the_number_of_moves() -> None:
    sizes, homes = [2, 2, 2, 2, 6], [0, 0, 1, 1, -1]
    assert search(problem(8, sizes, homes, 2), [4]).rows[4] >= 0
    assert search(problem(8, sizes, homes, 2), [4], most_moves=0).rows[4] < 0
    one_each = problem(8, sizes, homes, 2, budgets=[0])
    packing = search(one_each, [4])
    assert set(packing.moved.tolist()) <= {1, 3}


@pytest.mark.parametrize(
    ("sizes", "homes", "impossible"),
    [
        ([4, 4, 3], [0, 1, -1], True),  # two are free in all
        ([4, 4, 6], [0, 1, -1], True),  # no node is so large
        ([2, 3, 3], [0, 1, -1], False),
    ],
)
def test_what_is_impossible(sizes: list[int], homes: list[int], *, impossible: bool) -> None:
    given = problem(5, sizes, homes, 2)
    assert Packing(given).is_impossible([2], given.homes >= 0) is impossible


def test_a_node_is_emptied_or_left_alone() -> None:
    given = problem(10, [3, 3, 4, 9], [0, 0, 1, 2], 3)
    packing = Packing(given)
    assert packing.empty(0, given.homes >= 0)
    assert packing.rows.tolist() == [1, 1, 1, 2]
    assert not packing.empty(2, given.homes >= 0)
    packing.restore(given.homes)
    assert (packing.free == given.free).all()
