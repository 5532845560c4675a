"""reclaim: across queues."""

from __future__ import annotations

from typing import Any

import pytest

from tests.batch.cases import conf, decide, gang, hyper_node, node, queue, running

TEXT = conf(("gang", "conformance"), ("proportion", "predicates"), actions="enqueue, allocate, reclaim")


def evicted(*objects: Any) -> int:
    return len(decide(TEXT, node("a", "4"), *objects)["evicted"])


@pytest.mark.parametrize(("pods", "expected"), [(1, 1), (2, 2), (3, 0)])
def test_a_queue_reclaims_up_to_what_it_deserves(pods: int, expected: int) -> None:
    """Two equal queues, four cores: a gang of three does not fit into half of them and evicts nothing."""
    old = running("old", ["a"] * 4, queue="p")
    assert evicted(queue("p"), queue("q"), old, gang("new", pods, queue="q")) == expected


@pytest.mark.parametrize(
    ("spec", "expected"), [({}, 1), ({"reclaimable": False}, 0)], ids=["reclaimable", "not reclaimable"]
)
def test_queues_that_are_not_reclaimable_keep_their_tasks(spec: dict[str, Any], expected: int) -> None:
    old = running("old", ["a"] * 4, queue="p")
    assert evicted(queue("p", **spec), queue("q"), old, gang("new", 1, queue="q")) == expected


def test_only_running_tasks_are_reclaimed() -> None:
    old = running("old", ["a"] * 4, queue="p")
    for each in old[1:]:
        each["status"]["phase"] = "Pending"
    assert evicted(queue("p"), queue("q"), old, gang("new", 1, queue="q")) == 0


def test_a_task_that_may_not_preempt_reclaims_nothing() -> None:
    new = gang("new", 1, queue="q")
    new[1]["spec"]["preemptionPolicy"] = "Never"
    assert evicted(queue("p"), queue("q"), running("old", ["a"] * 4, queue="p"), new) == 0


def test_the_gang_of_the_victims_keeps_its_minimum() -> None:
    old = running("old", ["a"] * 4, 4, queue="p")
    answer = decide(
        conf(("gang",), actions="enqueue, allocate, reclaim"), node("a", "4"), queue("p"), queue("q"), old,
        gang("new", 1, queue="q"),
    )  # fmt: skip
    assert answer["evicted"] == []


def test_the_network_topology_is_not_considered() -> None:
    text = conf(("gang",), ("proportion", "predicates", "network-topology-aware"), actions="enqueue, allocate, reclaim")
    domains = [hyper_node(name, 1, nodes=[name]) for name in "ab"]
    new = gang("new", 2, queue="q", networkTopology={"mode": "hard", "highestTierAllowed": 1})
    old = running("old", ["a", "a", "b", "b"], queue="p")
    answer = decide(text, node("a", "2"), node("b", "2"), *domains, queue("p"), queue("q"), old, new)
    assert len(answer["evicted"]) == 2
