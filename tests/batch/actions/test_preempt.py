"""preempt: within a queue, and within a job."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.actions.preempt import Candidate, DryRun, _earliest_start, _evictable
from mooring.batch.run import run_actions
from tests.batch.cases import conf, decide, gang, group, node, opened, pod, queue, running, session_of, task

ACTIONS = "enqueue, allocate, preempt"
TEXT = conf(("priority", "gang", "conformance"), ("predicates", "proportion", "nodeorder"), actions=ACTIONS)
AWARE = TEXT + "\nconfigurations:\n- {name: preempt, arguments: {enableTopologyAwarePreemption: true}}\n"


def priority_class(name: str, value: int) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**head, "metadata": {"name": name, "uid": name}, "value": value}


def important(name: str, pods: int, **rest: Any) -> list[dict[str, Any]]:
    return [priority_class("high", 100), *gang(name, pods, priorityClassName="high", **rest)]


@pytest.mark.parametrize("text", [TEXT, AWARE], ids=["plain", "topology-aware"])
@pytest.mark.parametrize(
    ("least", "pods", "evicted"),
    [(1, 1, 1), (1, 2, 2), (3, 1, 1), (4, 1, 0), (3, 2, 0)],
)
def test_surplus_tasks_make_room_for_a_more_important_gang(text: str, least: int, pods: int, evicted: int) -> None:
    """Four running tasks, of which ``least`` stay. A gang that would not be complete evicts nothing."""
    answer = decide(text, node("a", "4"), running("old", ["a"] * 4, least), important("new", pods))
    assert len(answer["evicted"]) == evicted
    assert len(answer["pipelined"]) == evicted


def test_equal_priority_evicts_nothing() -> None:
    answer = decide(TEXT, node("a", "2"), running("old", ["a"] * 2, 1), gang("new", 1))
    assert answer["evicted"] == []


def test_a_pod_with_preferences_that_no_node_can_take() -> None:
    """Scorers that compare nodes are not called without any."""
    wanted = gang("g", 1)
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    wanted[1]["spec"].update(priority=100, nodeSelector={"disk": "none"}, affinity={"podAffinity": preferred})
    liked = running("r", ["a"])
    liked[1]["metadata"]["labels"] = {"a": "b"}
    answer = decide(conf(actions="enqueue, allocate, preempt"), node("a"), liked, wanted)
    assert (answer["bound"], answer["evicted"]) == ({}, [])


def test_other_queues_are_not_touched() -> None:
    objects = [node("a", "4"), queue("p"), queue("q"), running("old", ["a"] * 4, 1, queue="p")]
    assert decide(TEXT, *objects, important("new", 1, queue="q"))["evicted"] == []


def test_pods_that_may_not_preempt_or_be_preempted() -> None:
    new = important("new", 1)
    new[2]["spec"]["preemptionPolicy"] = "Never"
    assert decide(TEXT, node("a", "2"), running("old", ["a"] * 2, 1), new)["evicted"] == []
    old = running("old", ["a"] * 2, 1)
    for each in old[1:]:
        each["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"
    assert decide(TEXT, node("a", "2"), old, important("new", 1))["evicted"] == []


def test_jobs_with_a_network_topology_do_not_preempt_and_are_reported() -> None:
    new = important("new", 1, networkTopology={"mode": "soft"})
    _, session, _ = opened(TEXT, node("a", "2"), running("old", ["a"] * 2, 1), new)
    run_actions(session)
    assert session.evictions == []
    (warning,) = session.job_warnings
    assert (warning[0].uid, warning[1]) == ("default/new", "NotSupported")
    assert "gangpreempt" in warning[2]


def test_more_important_tasks_preempt_within_their_job() -> None:
    members = [pod(f"g-t-{number}", "g", on="a", priority=1) for number in range(2)]
    text = TEXT.replace("- name: gang", "- {name: gang, enableJobStarving: false}")
    answer = decide(text, node("a", "2"), group("g", 1, phase="Running"), *members, pod("g-t-9", "g", priority=9))
    assert len(answer["evicted"]) == 1
    assert list(answer["pipelined"]) == ["default/g-t-9"]


@pytest.mark.parametrize(
    ("task_cpu", "other_cpu", "status", "expected"),
    [
        ("1", "1", "Running", True),
        ("1", "1", "Bound", True),
        ("1", "1", "Releasing", False),
        ("", "1", "Running", False),
        ("", "", "Running", True),
        ("1", "", "Running", True),
    ],
)
def test_evictable(task_cpu: str, other_cpu: str, status: Any, expected: bool) -> None:
    """A best-effort task evicts best-effort tasks only."""
    other = task("other", cpu=other_cpu)
    other.status = status
    assert _evictable(task(cpu=task_cpu), other) is expected


def victims(*priorities: int) -> list[Any]:
    return [task(f"v{number}", priority=value) for number, value in enumerate(priorities)]


@pytest.mark.parametrize(
    ("left", "right", "best"),
    [
        ([1], [2], 0),
        ([5, 1], [5, 2], 0),
        ([5], [5, -(2**31)], 0),
        ([3, 3], [3], 1),
    ],
    ids=["top priority", "sum", "fewest", "sum counts every victim"],
)
def test_the_best_candidate(left: list[int], right: list[int], best: int) -> None:
    session = session_of(TEXT, node("a"), node("b"))
    run = DryRun(session, session.conf.arguments("preempt"))
    candidates = [Candidate(each, victims(*own)) for each, own in zip(session.node_list, (left, right), strict=True)]
    assert run._best(candidates) is candidates[best]


def test_a_pod_without_start_time_counts_as_started_now() -> None:
    assert _earliest_start(victims(1, 2), 77.0) == 77.0
