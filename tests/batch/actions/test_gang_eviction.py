"""gangpreempt and gangreclaim: bundles, their order, and evictions for whole gangs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mooring.batch.actions.gang_eviction import Bundle, in_order, job_bundles, total
from mooring.batch.job import JobInfo
from mooring.batch.resource import Resource
from tests.batch.cases import conf, decide, gang, job, node, queue, running, task

PREEMPT = conf(("priority", "gang"), ("predicates", "capacity"), actions="enqueue, allocate, gangpreempt")
RECLAIM = conf(("priority", "gang", "capacity"), ("predicates",), actions="enqueue, allocate, gangreclaim")
NO_WHOLE = "\nconfigurations:\n- {name: gangpreempt, arguments: {allowWholeBundle: false}}\n"


def job_of(least: int, *priorities: int, roles: str = "", **spec: Any) -> JobInfo:
    """A running job with tasks of these priorities; ``roles`` has a letter for each."""
    tasks = []
    for number, priority in enumerate(priorities):
        made = task(f"t{number}", on="a", priority=priority)
        made.role = roles[number] if roles else ""
        tasks.append(made)
    return job(least, *tasks, **spec)


@pytest.mark.parametrize(
    ("least", "priorities", "expected"),
    [
        (1, [1, 1, 1], [(True, ["t0", "t1"]), (False, ["t2"])]),
        (3, [1, 1, 1], [(False, ["t0", "t1", "t2"])]),
        (0, [1, 1], [(True, ["t0", "t1"])]),
        (1, [5, 1, 3], [(True, ["t1", "t2"]), (False, ["t0"])]),
        (4, [1, 1], [(True, ["t0", "t1"])]),
    ],
    ids=["surplus", "none to spare", "all", "least important first", "already incomplete"],
)
def test_bundles(least: int, priorities: list[int], expected: list[tuple[bool, list[str]]]) -> None:
    one = job_of(least, *priorities)
    found = job_bundles(one, list(one.tasks.values()))
    assert [(bundle.safe, [each.name for each in bundle.tasks]) for bundle in found] == expected


def test_roles_keep_their_minimum() -> None:
    one = job_of(2, 1, 1, 1, roles="aab", minTaskMember={"a": 1, "b": 1})
    found = job_bundles(one, list(one.tasks.values()))
    assert [(bundle.safe, [each.name for each in bundle.tasks]) for bundle in found] == [
        (True, ["t0"]), (False, ["t1", "t2"])
    ]  # fmt: skip


def test_worth_is_what_is_freed_for_what_is_lost() -> None:
    one = job_of(2, 1, 1, 1, 1)
    tasks = list(one.tasks.values())
    need = Resource(1000)
    assert Bundle(one, tasks[:1], safe=True).worth(need) == math.inf
    assert Bundle(one, tasks[:2], safe=False).worth(need) == 0.25, "what exceeds the need does not count"
    assert total(tasks).cpu == 4000


def test_a_whole_bundle_is_allowed_completely_or_not_at_all() -> None:
    one = job_of(1, 1, 1)
    tasks = list(one.tasks.values())
    safe, whole = Bundle(one, tasks, safe=True), Bundle(one, tasks, safe=False)
    first = {tasks[0].uid}
    assert [each.name for each in (safe.only(first) or safe).tasks] == ["t0"]
    assert whole.only(first) is None
    assert whole.only({each.uid for each in tasks}) is whole
    assert safe.only(set()) is None


def test_safe_bundles_come_first_then_the_given_order_then_the_worth() -> None:
    one, other = job_of(1, 1, 1), job_of(1, 1)
    small = Bundle(other, list(other.tasks.values()), safe=False)
    large = Bundle(one, list(one.tasks.values())[:1], safe=False)
    safe = Bundle(one, list(one.tasks.values())[1:], safe=True)
    need = Resource(1000)
    assert in_order([large, small, safe], need, lambda left, right: 0) == [safe, small, large]
    assert in_order([small, large], need, lambda left, right: -1 if left is large else 1) == [large, small]


def important(name: str, pods: int, **rest: Any) -> list[dict[str, Any]]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    cls = {**head, "metadata": {"name": "high", "uid": "high"}, "value": 100}
    return [cls, *gang(name, pods, priorityClassName="high", **rest)]


@pytest.mark.parametrize(
    ("text", "least", "pods", "evicted"),
    [
        (PREEMPT, 1, 2, 3),
        (PREEMPT, 2, 2, 2),
        (PREEMPT, 4, 2, 4),
        (PREEMPT + NO_WHOLE, 4, 2, 0),
        (PREEMPT, 1, 5, 0),
    ],
    ids=["the whole safe bundle", "safe", "whole", "whole not allowed", "too large"],
)
def test_gangpreempt(text: str, least: int, pods: int, evicted: int) -> None:
    answer = decide(text, node("a", "4"), running("old", ["a"] * 4, least), important("new", pods))
    assert len(answer["evicted"]) == evicted
    assert len(answer["pipelined"]) == (pods if evicted else 0)


def test_gangreclaim_takes_from_queues_above_what_they_deserve() -> None:
    queues = [queue("p", deserved={"cpu": "2"}), queue("q", deserved={"cpu": "2"})]
    answer = decide(
        RECLAIM, node("a", "4"), *queues, running("old", ["a"] * 4, 1, queue="p"), gang("new", 2, queue="q")
    )
    assert len(answer["evicted"]) == 2
    assert len(answer["pipelined"]) == 2
