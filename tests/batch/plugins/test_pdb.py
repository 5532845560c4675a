"""pdb: evictions respect PodDisruptionBudgets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.batch.cases import conf, gang, group, node, pod, session_of, tasks_of


def budget(allowed: int, app: str = "x", namespace: str = "default", **status: Any) -> dict[str, Any]:
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    metadata = {"name": f"b-{app}", "namespace": namespace, "uid": f"b-{app}-{namespace}"}
    spec = {"selector": {"matchLabels": {"app": app}}}
    return {**head, "metadata": metadata, "spec": spec, "status": {"disruptionsAllowed": allowed, **status}}


def member(name: str, app: str = "x") -> dict[str, Any]:
    made = pod(name, "old", on="a")
    if app:
        made["metadata"]["labels"] = {"app": app}
    return made


@pytest.mark.parametrize(
    ("budgets", "apps", "victims"),
    [
        ([], ["x", "x"], [0, 1]),
        ([budget(0)], ["x", "x"], []),
        ([budget(1)], ["x", "x"], [0]),
        ([budget(1)], ["y", "x", "x"], [0, 1]),
        ([budget(0, namespace="other")], ["x"], [0]),
        ([budget(0, disruptedPods={"p0": "2026-01-01T00:00:00Z"})], ["x", "x"], [0]),
        ([budget(5)], [""], []),
        ([budget(1), budget(1, "y")], ["x", "y", "y"], [0, 1]),
    ],
    ids=[
        "none",
        "used up",
        "one left",
        "other pods",
        "other namespace",
        "already disrupted",
        "no labels",
        "two budgets",
    ],
)
def test_victims(budgets: list[Any], apps: list[str], victims: list[int]) -> None:
    members = [member(f"p{number}", app) for number, app in enumerate(apps)]
    session = session_of(conf(("pdb",)), node("a"), *budgets, group("old", 1), *members, gang("new", 1))
    tasks = tasks_of(session)
    candidates = [tasks[f"p{number}"] for number in range(len(apps))]
    expected = [candidates[number] for number in victims]
    assert session.preemptable(tasks["new-task-0"], candidates) == expected
    assert session.reclaimable(tasks["new-task-0"], candidates) == expected
    assert session.victim_tasks(candidates) == expected
