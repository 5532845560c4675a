"""predicates: kube-scheduler's filters and the pod limit."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.registrations import UNCACHEABLE
from mooring.batch.search import ErrorCache, find_nodes, pre_predicate
from mooring.batch.session import Session
from tests.batch.cases import conf, gang, node, running, session_of, tasks_of


def tainted(name: str) -> dict[str, Any]:
    made = node(name)
    made["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    return made


def cordoned(name: str) -> dict[str, Any]:
    made = node(name)
    made["spec"] = {"unschedulable": True}
    return made


def search(session: Session) -> tuple[list[str], str]:
    task = tasks_of(session)["g-task-0"]
    assert pre_predicate(session, task) == ""
    found = find_nodes(session, task, "backfill", ErrorCache(enabled=False))
    return [session.node_list[row].name for row in found.rows.tolist()], found.errors.text()


@pytest.mark.parametrize(
    ("arguments", "objects", "names", "reason"),
    [
        ("", [node("a"), tainted("b")], ["a"], "node(s) had untolerated taint(s)"),
        ("{predicate.TaintTolerationEnable: false}", [node("a"), tainted("b")], ["a", "b"], ""),
        ("", [node("a"), cordoned("b")], ["a"], "node(s) were unschedulable"),
        ("", [node("a", pods="1"), node("b"), running("x", ["a"])], ["b"], "node(s) pod number exceeded"),
        ("", [node("a", "0")], ["a"], ""),
    ],
    ids=["taint", "disabled filter", "cordoned", "pod limit", "resources are not its concern"],
)
def test_filters(arguments: str, objects: list[Any], names: list[str], reason: str) -> None:
    session = session_of(conf(("predicates",), predicates=arguments), *objects, gang("g", 1))
    found, text = search(session)
    assert found == names
    assert reason in text


def test_node_selectors() -> None:
    made = gang("g", 1)
    made[1]["spec"]["nodeSelector"] = {"zone": "x"}
    session = session_of(conf(("predicates",)), node("a", labels={"zone": "x"}), node("b"), made)
    assert search(session)[0] == ["a"]


def test_placed_tasks_count_for_the_pod_limit() -> None:
    session = session_of(conf(("predicates",)), node("a", pods="1"), gang("g", 2))
    statement = session.statement()
    statement.allocate(tasks_of(session)["g-task-1"], "a")
    assert search(session)[0] == []
    statement.discard()
    assert search(session)[0] == ["a"]


@pytest.mark.parametrize("far", [False, True])
def test_verdicts_that_depend_on_other_nodes_are_not_cached(far: bool) -> None:
    made = gang("g", 1)
    if far:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
        anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        made[1]["spec"]["affinity"] = {"podAntiAffinity": anti}
    session = session_of(conf(("predicates",)), node("a"), made)
    task = tasks_of(session)["g-task-0"]
    pre_predicate(session, task)
    (callback,) = session.all("predicate")
    assert (callback.depends(task) is UNCACHEABLE) is far
