"""conformance: critical pods are never victims."""

from __future__ import annotations

import pytest

from mooring.batch.eviction import EvictionContext
from tests.batch.cases import conf, gang, group, jobs_of, node, pod, session_of, tasks_of


@pytest.mark.parametrize(
    ("priority_class", "namespace", "victim"),
    [
        ("", "default", True),
        ("mine", "default", True),
        ("system-cluster-critical", "default", False),
        ("system-node-critical", "default", False),
        ("", "kube-system", False),
    ],
)
def test_victims(priority_class: str, namespace: str, victim: bool) -> None:
    old = [group("old", 1), pod("p", "old", on="a", priorityClassName=priority_class)]
    for each in old:
        each["metadata"]["namespace"] = namespace
    session = session_of(conf(("conformance",)), node("a"), old, gang("new", 1))
    tasks = tasks_of(session)
    evictor, candidates = tasks["new-task-0"], [tasks["p"]]
    expected = candidates if victim else []
    assert session.preemptable(evictor, candidates) == expected
    assert session.reclaimable(evictor, candidates) == expected
    context = EvictionContext("reclaim", jobs_of(session)["new"])
    assert session.unified_evictable(context, candidates) == expected
