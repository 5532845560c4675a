"""PodDisruptionBudgets: which evictions violate one."""

from __future__ import annotations

import pytest

from mooring.columns.table import NodeTable
from mooring.framework.preemption import Budgets
from mooring.testing import make_pdb, make_pod


@pytest.mark.parametrize(("allowed", "violating"), [(0, ["a", "b"]), (1, ["b"]), (2, [])], ids=["none", "one", "two"])
def test_evictions_beyond_the_allowed_ones_violate(allowed: int, violating: list[str]) -> None:
    table = NodeTable()
    pods = [table.add_pod(make_pod(name).label(app=app).obj(), "n") for name, app in zip("abc", "wwx", strict=True)]
    budgets = Budgets([make_pdb("budget", {"app": "w"}, allowed=allowed).obj()])
    violated, fine = budgets.split(pods)
    assert [info.name for info in violated] == violating
    assert [info.name for info in fine] == [name for name in "abc" if name not in violating]


def test_a_budget_without_a_selector_covers_no_pod() -> None:
    info = NodeTable().add_pod(make_pod("a").label(app="w").obj(), "n")
    assert Budgets([make_pdb("budget", {}, allowed=0).obj()]).split([info]) == ([], [info])
