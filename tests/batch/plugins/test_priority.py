"""priority: order, victims and starvation."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.eviction import EvictionContext
from tests.batch.cases import conf, gang, group, jobs_of, node, pod, running, session_of, tasks_of

TEXT = conf(("priority",))


def priority_class(name: str, value: int) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**head, "metadata": {"name": name, "uid": name}, "value": value}


HIGH = priority_class("high", 10)


def test_jobs_and_tasks_with_higher_priority_come_first() -> None:
    members = [pod("a-x-1", "high", priority=1), pod("a-x-2", "high", priority=5)]
    high = group("high", 1, priorityClassName="high")
    session = session_of(TEXT, HIGH, node("a"), gang("low", 1), high, *members)
    jobs, tasks = jobs_of(session), tasks_of(session)
    assert session.job_less(jobs["high"], jobs["low"])
    assert session.task_less(tasks["a-x-2"], tasks["a-x-1"])


def test_victims_of_other_jobs_have_a_lower_job_priority() -> None:
    high = [group("high", 1, priorityClassName="high"), pod("h", "high")]
    session = session_of(TEXT, HIGH, node("a"), running("low", ["a"]), running("equal", ["a"]), high)
    jobs, tasks = jobs_of(session), tasks_of(session)
    jobs["equal"].priority = 10
    candidates = [tasks["low-task-0"], tasks["equal-task-0"]]
    assert session.preemptable(tasks["h"], candidates) == candidates[:1]
    for kind, expected in (("preempt", candidates[:1]), ("reclaim", candidates)):
        context = EvictionContext(kind, jobs["high"])  # type: ignore[arg-type]
        assert session.unified_evictable(context, candidates) == expected
    assert session.reclaimable(tasks["h"], candidates) == [], "priority has no callback for reclaim"


def test_victims_of_the_same_job_have_a_lower_task_priority() -> None:
    members = [pod("low", "g", on="a", priority=1), pod("equal", "g", on="a", priority=5), pod("new", "g", priority=5)]
    session = session_of(TEXT, node("a"), group("g", 1), *members)
    tasks = tasks_of(session)
    assert session.preemptable(tasks["new"], [tasks["low"], tasks["equal"]]) == [tasks["low"]]


@pytest.mark.parametrize(("pending", "starving"), [(0, False), (1, True)])
def test_a_job_starves_while_a_task_is_pending(pending: int, starving: bool) -> None:
    more = [pod(f"more-{number}", "g") for number in range(pending)]
    session = session_of(TEXT, node("a"), running("g", ["a"]), *more)
    assert session.job_starving(jobs_of(session)["g"]) is starving
