"""Snapshots: questions, changes, and nested transactions."""

from __future__ import annotations

import pytest

from mooring.api.codec import to_dict
from mooring.config import default_config
from mooring.loading import Catalog, Setup
from mooring.simulation.snapshot import (
    AddNode,
    Begin,
    Commit,
    Feasible,
    RemoveNode,
    RemovePod,
    Rollback,
    Schedule,
    Snapshot,
)
from mooring.simulation.sources import InputError
from mooring.testing import make_node, make_pod

SETUP = Setup(default_config(), Catalog())
POD = to_dict(make_pod("web").req(cpu="1").obj())


def snapshot() -> Snapshot:
    nodes = [make_node(name).capacity(cpu="4", pods=10).obj() for name in ("a", "b")]
    return Snapshot([*nodes, make_pod("old").req(cpu="1").node("a").obj(), make_pod("waits").obj()], SETUP)


def test_copies_are_placed_until_one_does_not_fit() -> None:
    found = snapshot().run(Schedule(pod=POD, copies=20))
    assert sorted(found.nodes) == ["a"] * 3 + ["b"] * 4
    assert found.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_feasible_nodes_without_a_change() -> None:
    made = snapshot()
    assert made.run(Feasible(pod=POD)).feasible == 2
    huge = to_dict(make_pod("huge").req(cpu="9").obj())
    assert made.run(Feasible(pod=huge)).message.startswith("0/2 nodes are available")
    assert made.pods == 1


def test_transactions_are_nested() -> None:
    made = snapshot()
    made.run(Begin())
    made.run(Schedule(pod=POD, copies=2))
    made.run(Begin())
    made.run(AddNode(node=to_dict(make_node("c").capacity(cpu="4", pods=10).obj())))
    made.run(RemoveNode(name="a"))
    made.run(Schedule(pod=POD, copies=3))
    assert (len(made), made.depth) == (2, 2)
    made.run(Rollback())
    assert (len(made), made.pods, made.depth) == (2, 3, 1)
    made.run(Begin())
    made.run(RemovePod(pod="default/old"))
    made.run(Commit())
    assert made.pods == 2
    made.run(Rollback())  # undoes what the inner transaction kept
    assert (made.pods, made.depth) == (1, 0)
    assert made._table.check() == []
    assert [info.name for info in made._table.nodes if info.pod_count] == ["a"]


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Rollback(), "no transaction"),
        (Commit(), "no transaction"),
        (RemoveNode(name="x"), "no node 'x'"),
        (RemovePod(pod="default/waits"), "no pod"),
        (Schedule(pod=to_dict(make_node("n").obj())), "not a Pod"),
        (AddNode(node=POD), "not a Node"),
        (Schedule(pod=POD, copies=0), "copies"),
        (Schedule(pod=to_dict(make_pod("x").scheduler("other").obj())), "there is no profile 'other'"),
    ],
)
def test_invalid_steps_are_errors(step: Rollback, text: str) -> None:
    with pytest.raises(InputError, match=text):
        snapshot().run(step)
