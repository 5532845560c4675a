"""nodeorder: weights of kube-scheduler's scorers."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.registrations import UNCACHEABLE
from mooring.batch.session_nodes import SessionNodes
from tests.batch.cases import conf, gang, node, opened, running, tasks_of

OFF = ["leastrequested", "balancedresource", "nodeaffinity", "podaffinity", "tainttoleration", "imagelocality",
       "podtopologyspread"]  # fmt: skip


def only(**weights: int) -> str:
    given = {**dict.fromkeys(OFF, 0), **weights}
    return "{" + ", ".join(f"{name}.weight: {weight}" for name, weight in given.items()) + "}"


def scores(arguments: str) -> list[float]:
    """Of a node of four cores with two in use, and an empty one."""
    text = conf(("nodeorder", "predicates"), nodeorder=arguments)
    _, session, _ = opened(text, node("used", "4"), node("free", "4"), running("old", ["used"] * 2), gang("g", 1))
    found = session.total_scores(tasks_of(session)["g-task-0"], SessionNodes(session))
    assert found is not None
    return found.tolist()


@pytest.mark.parametrize(("weights", "sign"), [({"leastrequested": 1}, 1), ({"mostrequested": 1}, -1)])
def test_least_and_most_requested(weights: dict[str, int], sign: int) -> None:
    used, free = scores(only(**weights))
    assert (free - used) * sign > 0


def test_weights_multiply() -> None:
    assert scores(only(leastrequested=3)) == [3 * each for each in scores(only(leastrequested=1))]


def test_weight_zero_removes_a_scorer() -> None:
    assert scores(only()) == [0, 0]


def test_taints_give_all_nodes_the_same_if_there_is_nothing_to_prefer() -> None:
    assert scores(only(tainttoleration=3)) == [300, 300]


@pytest.mark.parametrize(
    ("spec", "cacheable"),
    [
        ({}, True),
        ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]}}}, False),
    ],
)  # fmt: skip
def test_scores_that_compare_nodes_are_not_cached(spec: dict[str, Any], cacheable: bool) -> None:
    made = gang("g", 1)
    made[1]["spec"] |= spec
    _, session, _ = opened(conf(("nodeorder",)), node("a"), node("b"), made)
    (callback,) = session.all("batch_node_order")
    assert (callback.depends(tasks_of(session)["g-task-0"]) is not UNCACHEABLE) is cacheable
