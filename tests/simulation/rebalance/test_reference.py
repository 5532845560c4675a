"""The reference solver, and the search next to it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from mooring.config import default_config
from mooring.simulation.rebalance import Limits, Planner
from mooring.simulation.rebalance.packing import Problem
from mooring.simulation.rebalance.reference import Proof, SolverMissingError, solve
from tests.simulation.rebalance.clusters import random_cluster, steps_clock


def tiny(free: list[int], budget: int = 1) -> Problem:
    """Two nodes, a pod of size 1 on the first, and a pending one of size 2."""
    return Problem(
        free=np.array(free).reshape(-1, 1),
        sizes=np.array([[1], [2]]),
        allowed=np.ones((2, len(free)), dtype=np.bool_),
        kinds=np.array([0, 1]),
        homes=np.array([0, -1]),
        budget_of=np.array([0, -1]),
        budgets=np.array([budget]),
    )


@pytest.mark.parametrize(
    ("free", "budget", "rows"),
    [([1, 1], 1, [1, 0]), ([1, 1], 0, [0, -1]), ([2, 1], 1, [0, 0]), ([0, 0], 1, [0, -1])],
    ids=["one move", "the budget forbids it", "no move is needed", "impossible"],
)
def test_small_problems(free: list[int], budget: int, rows: list[int]) -> None:
    found = solve(tiny(free, budget), [1], np.array([True, False]), seconds=10)
    assert (found.proof, found.rows.tolist()) == (Proof.OPTIMAL, rows)
    together = solve(tiny(free, budget), [1], np.array([True, False]), seconds=10, together=True)
    assert together.rows.tolist() == rows


def test_the_search_finds_what_the_solver_finds() -> None:
    found = known = 0
    for seed in range(40):
        objects = random_cluster(seed, rules=False)
        planner = Planner(objects, default_config(), limits=Limits(seconds=0.3), clock=steps_clock())
        for (_, items, movable), goal in zip(planner.goals[:1], planner.make_room().goals[:1], strict=True):
            solution = solve(planner.problem, items, movable, seconds=10)
            assert solution.proof is Proof.OPTIMAL
            placed = solution.placed(items) == len(items)
            assert not (placed and goal.result == "impossible"), f"seed {seed}"
            assert placed or goal.result != "planned", f"seed {seed}"
            known += placed
            found += goal.result == "planned"
    assert known >= 10
    assert found == known


def test_a_missing_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolverMissingError, match=r"mooring-scheduler\[solver\]"):
        solve(tiny([1, 1]), [1], np.array([True, False]), seconds=1)
