"""gangpreempt and gangreclaim: bundles, their order, and evictions for whole gangs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mooring.batch.actions.gang_eviction import Bundle, in_order, job_bundles, total
from mooring.batch.job import JobInfo
from mooring.batch.resource import Resource
from tests.batch.cases import conf, decide, gang, hyper_node, job, node, opened, queue, running, task

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


TOPOLOGY = ("network-topology-aware",)
PREEMPT_IN_DOMAINS = conf(("priority", "gang"), ("predicates", *TOPOLOGY), actions="enqueue, allocate, gangpreempt")
RECLAIM_IN_DOMAINS = conf(
    ("priority", "gang", "capacity"), ("predicates", *TOPOLOGY), actions="enqueue, allocate, gangreclaim"
)
RACKS = [
    *(node(f"n{number}", "4") for number in range(4)),
    hyper_node("r0", 1, nodes=["n0", "n1"]),
    hyper_node("r1", 1, nodes=["n2", "n3"]),
    hyper_node("z", 2, within=["r0", "r1"]),
]
HARD = {"mode": "hard", "highestTierAllowed": 1}


def racks_of(placed: dict[str, str]) -> set[int]:
    return {int(place[1:]) // 2 for place in placed.values()}


def fixed(nodes: list[str]) -> list[dict[str, Any]]:
    """A running gang that must not be evicted."""
    made = running("fixed", nodes, len(nodes))
    made[0]["metadata"]["annotations"] = {"volcano.sh/preemptable": "false"}
    return made


@pytest.mark.parametrize(
    ("topology", "pods", "racks"),
    [
        (HARD, 6, {1}),
        (HARD, 9, None),
        ({"mode": "hard", "highestTierAllowed": 2}, 9, {0, 1}),
        ({"mode": "soft"}, 9, {0, 1}),
    ],
    ids=["within a rack", "too large for a rack", "within a zone", "soft"],
)
def test_gangpreempt_evicts_within_one_domain(topology: dict[str, Any], pods: int, racks: set[int] | None) -> None:
    old = running("old", ["n1", "n1", *["n2"] * 4, *["n3"] * 4], 1)
    answer = decide(PREEMPT_IN_DOMAINS, RACKS, fixed(["n0"] * 4), old, important("new", pods, networkTopology=topology))
    assert len(answer["pipelined"]) == (pods if racks else 0)
    assert bool(answer["evicted"]) is bool(racks)
    if racks:
        assert racks_of(answer["pipelined"]) == racks


def test_gangpreempt_places_each_part_within_a_domain() -> None:
    policy = {"name": "p", "subGroupSize": 4, "minSubGroups": 2, "matchLabelKeys": ["part"], "networkTopology": HARD}
    new = important("new", 8, subGroupPolicy=[policy])
    for number, each in enumerate(new[2:]):
        each["metadata"]["labels"] = {"part": str(number // 4)}
    old = running("old", [f"n{number // 3}" for number in range(12)], 1)
    answer = decide(PREEMPT_IN_DOMAINS, RACKS, old, new)
    parts = [{place for name, place in answer["pipelined"].items() if int(name[-1]) // 4 == part} for part in range(2)]
    assert all(len({int(each[1]) // 2 for each in part}) == 1 for part in parts), parts
    assert len(answer["pipelined"]) == 8


def test_gangreclaim_evicts_within_one_domain() -> None:
    queues = [queue("p", deserved={"cpu": "8"}), queue("q", deserved={"cpu": "8"})]
    old = running("old", [f"n{number // 3}" for number in range(12)], 1, queue="p")
    answer = decide(RECLAIM_IN_DOMAINS, RACKS, *queues, old, gang("new", 6, queue="q", networkTopology=HARD))
    assert len(answer["pipelined"]) == 6
    assert len(racks_of(answer["pipelined"])) == 1


def test_parts_beyond_the_minimum_are_safe() -> None:
    policy = {"name": "p", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["part"]}
    old = running("old", ["n0"] * 4, 2)
    old[0]["spec"]["subGroupPolicy"] = [policy]
    for number, each in enumerate(old[1:]):
        each["metadata"]["labels"] = {"part": str(number // 2)}
    _, session, _ = opened(PREEMPT_IN_DOMAINS, RACKS, old)
    one = session.jobs["default/old"]
    found = job_bundles(one, list(one.tasks.values()))
    assert [(bundle.safe, [each.name for each in bundle.tasks]) for bundle in found] == [
        (True, ["old-task-0", "old-task-1"]), (False, ["old-task-2", "old-task-3"])
    ]  # fmt: skip


@pytest.mark.parametrize(("most", "pods"), [(8, 4), (1, 0)])
def test_the_number_of_domains_is_limited(most: int, pods: int) -> None:
    limit = f"\nconfigurations:\n- {{name: gangpreempt, arguments: {{maxDomains: {most}}}}}\n"
    # The domain of tier 2, which is tried first, has no pods that may be evicted.
    parts = {"name": "p", "subGroupSize": 4, "minSubGroups": 1, "matchLabelKeys": ["part"], "networkTopology": HARD}
    new = important("new", 4, networkTopology={"mode": "hard", "highestTierAllowed": 2}, subGroupPolicy=[parts])
    for each in new[2:]:
        each["metadata"]["labels"] = {"part": "0"}
    domains = [each for each in RACKS if each["kind"] == "Node"]
    domains += [hyper_node("r0", 1, nodes=["n0", "n1"]), hyper_node("other", 2, nodes=["n2"])]
    domains += [hyper_node("r1", 1, nodes=["n3"]), hyper_node("z", 3, within=["r0", "r1", "other"])]
    old = running("old", ["n0", "n0", "n0", "n3", "n3", "n3"], 6)
    answer = decide(PREEMPT_IN_DOMAINS + limit, domains, fixed(["n1"] * 4 + ["n2"] * 4), old, new)
    assert len(answer["pipelined"]) == pods
