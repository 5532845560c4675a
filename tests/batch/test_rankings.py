"""The best nodes of tasks, for decision records: the same with and without cached scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.batch.rankings import Ranking, Rankings
from mooring.batch.run import run_actions
from mooring.batch.session import Session
from tests.batch.cases import conf, gang, node, running, session_of

TIERS = (("gang",), ("predicates", "nodeorder", "binpack"))


def ranked(*objects: Any, record: bool = True) -> Session:
    session = session_of(conf(*TIERS), *objects)
    session.rankings = Rankings(session.node_list) if record else None
    run_actions(session)
    return session


CLUSTER = [
    *(node(f"n{number}", str(2 + number)) for number in range(6)),
    *running("busy", ["n1", "n3", "n3"]),
    *gang("g", 8),
    *gang("h", 2, cpu="2"),
]


@pytest.mark.parametrize("least", [0, 10**9], ids=["cached", "fresh"])
def test_rankings_are_the_scores_that_decided(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.batch.score_cache.LEAST_NODES", least)
    session = ranked(*CLUSTER)
    assert session.rankings is not None
    without = ranked(*CLUSTER, record=False)
    bound = {task.name: task.node_name for task in session.bindings}
    assert len(bound) == 10
    assert bound == {task.name: task.node_name for task in without.bindings}, "records change no decision"
    for task in session.bindings:
        ranking = session.rankings.of(task.uid)
        assert ranking is not None
        chosen, *others = ranking.candidates
        assert chosen.node == task.node_name
        assert len(others) == min(3, ranking.feasible - 1)
        assert len({each.node for each in ranking.candidates}) == len(ranking.candidates)
        assert ranking.scorers == ("nodeorder", "binpack")
        for each in ranking.candidates:
            assert each.total == pytest.approx(sum(each.scores), abs=0.01)
            assert each.total <= chosen.total


def test_cached_scores_give_the_same_rankings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for least in (0, 10**9):
        monkeypatch.setattr("mooring.batch.score_cache.LEAST_NODES", least)
        session = ranked(*CLUSTER)
        assert session.rankings is not None
        found.append({task.name: session.rankings.of(task.uid) for task in session.bindings})
    assert found[0] == found[1]


def test_infeasible_nodes_are_no_candidates() -> None:
    session = session_of(conf(*TIERS), node("a"), node("b"), node("c"))
    rankings = Rankings(session.node_list)
    totals = np.array([-np.inf, 2.5, -np.inf])
    rankings.put_scores("t", np.arange(3), totals, {"p": 2.5}, 1)
    ranking = rankings.of("t")
    assert ranking is not None
    assert [(each.node, each.total, each.scores) for each in ranking.candidates] == [("b", 2.5, (2.5,))]
    assert totals.tolist() == [-np.inf, 2.5, -np.inf]


def test_a_single_feasible_node_is_not_scored() -> None:
    session = ranked(node("a"), node("full", "0"), *gang("g", 1))
    assert session.rankings is not None
    (task,) = session.bindings
    assert session.rankings.of(task.uid) == Ranking(1)
