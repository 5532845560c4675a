"""Reference: the same problem as a mixed-integer program, solved by HiGHS, for small clusters and for tests.

It needs the extra `solver` (`pip install "mooring-scheduler[solver]"`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from mooring.simulation.rebalance.packing import Ints, Mask, Problem

if TYPE_CHECKING:
    import highspy

#: The value of a placed pod in moves: more than all moves that one could save.
_MOVES_PER_POD = 1000.0


class SolverMissingError(RuntimeError):
    """HiGHS is not installed."""

    def __init__(self) -> None:
        super().__init__('the reference solver needs HiGHS: pip install "mooring-scheduler[solver]"')


class Proof(Enum):
    """How much is known about a solution."""

    OPTIMAL = "optimal"
    #: Found before the time was over; there may be better ones.
    FEASIBLE = "feasible"
    #: Nothing was found before the time was over.
    UNKNOWN = "unknown"


class Solution(msgspec.Struct, frozen=True):
    """The nodes of all pods in a solution, -1 for none."""

    proof: Proof
    rows: Ints

    def placed(self, items: Sequence[int]) -> int:
        """Return how many of some pods have a node."""
        return int((self.rows[list(items)] >= 0).sum())


def solve(
    problem: Problem, wanted: Sequence[int], movable: Mask, *, seconds: float, together: bool = False
) -> Solution:
    """Place as many of the ``wanted`` pods as possible with as few moves as possible; with ``together``, all or none.

    Raises SolverMissingError.
    """
    try:
        import highspy
    except ModuleNotFoundError:
        raise SolverMissingError from None
    model = highspy.Highs()  # type: ignore[no-untyped-call]  # its constructor has no types
    model.silent()
    model.setOptionValue("time_limit", float(seconds))
    items = [*np.flatnonzero(movable & (problem.homes >= 0)).tolist(), *wanted]
    count = len(problem.free)
    room = problem.free.copy()
    here = [item for item in items if problem.homes[item] >= 0]
    np.add.at(room, problem.homes[here], problem.sizes[problem.kinds[here]])
    uses: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    columns: dict[tuple[int, int], int] = {}
    for item in items:
        allowed = problem.allowed[problem.kinds[item]].copy()
        home = int(problem.homes[item])
        if home >= 0:
            allowed[home] = True
        rows = np.flatnonzero(allowed & (room >= problem.sizes[problem.kinds[item]]).all(axis=1)).tolist()
        if home >= 0 and home not in rows:
            rows.append(home)
        for row in rows:
            columns[item, row] = number = len(columns)
            cost = -_MOVES_PER_POD if home < 0 else float(row != home)
            model.addVar(0.0, 1.0)
            model.changeColCost(number, cost)
            model.changeColIntegrality(number, highspy.HighsVarType.kInteger)
            uses[row].append((item, number))
    _add_rows(model, problem, items, wanted, columns, room, uses, together=together)
    model.run()
    status = model.getModelStatus()
    information = model.getInfo()
    rows_found = problem.homes.copy()
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit):
        return Solution(Proof.OPTIMAL, rows_found)  # infeasible: with ``together`` there is no placement
    optimal = status == highspy.HighsModelStatus.kOptimal
    if information.primal_solution_status != 2:
        return Solution(Proof.UNKNOWN, rows_found)
    values = model.getSolution().col_value
    for (item, row), number in columns.items():
        if values[number] > 0.5:
            rows_found[item] = row
    return Solution(Proof.OPTIMAL if optimal else Proof.FEASIBLE, rows_found)


def _add_rows(
    model: highspy.Highs,
    problem: Problem,
    items: list[int],
    wanted: Sequence[int],
    columns: dict[tuple[int, int], int],
    room: Ints,
    uses: list[list[tuple[int, int]]],
    *,
    together: bool,
) -> None:
    """Add the constraints: one node for each pod, the room of nodes, and the disruption budgets."""
    by_item: dict[int, list[int]] = {item: [] for item in items}
    for (item, _), number in columns.items():
        by_item[item].append(number)
    pending = set(wanted)
    for item, numbers in by_item.items():
        least = 0.0 if item in pending and not together else 1.0
        model.addRow(least, 1.0, len(numbers), np.array(numbers, dtype=np.int32), np.ones(len(numbers)))
    for row, pairs in enumerate(uses):
        users = np.array([number for _, number in pairs], dtype=np.int32)
        for resource in range(room.shape[1]):
            amounts = np.array([float(problem.sizes[problem.kinds[item], resource]) for item, _ in pairs])
            scale = max(amounts.max(initial=1.0), 1.0)
            if pairs:
                model.addRow(-np.inf, float(room[row, resource]) / scale, len(pairs), users, amounts / scale)
    for budget, left in enumerate(problem.budgets.tolist()):
        covered = [item for item in items if problem.budget_of[item] == budget and problem.homes[item] >= 0]
        if covered:
            homes = np.array([columns[item, int(problem.homes[item])] for item in covered], dtype=np.int32)
            model.addRow(float(len(covered) - left), np.inf, len(covered), homes, np.ones(len(covered)))
