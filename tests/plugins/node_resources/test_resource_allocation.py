"""Allocation scores: every form gives the score of kube-scheduler's formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.plugins.node_resources.resource_allocation import AllocationScorer, fits_empty, freed_by, grown, tracked
from mooring.plugins.node_resources.scoring import Ratio, ResourceSpec, ScoringStrategy
from mooring.plugins.shape_score import ShapePoint
from mooring.testing import PluginHarness, make_node, make_pod

CPU_AND_MEMORY = (ResourceSpec(name="cpu", weight=3), ResourceSpec(name="memory"))
LEAST = ScoringStrategy(resources=CPU_AND_MEMORY)
MOST = ScoringStrategy(type="MostAllocated", resources=CPU_AND_MEMORY)
RATIO = ScoringStrategy(
    type="RequestedToCapacityRatio",
    resources=CPU_AND_MEMORY,
    requested_to_capacity_ratio=Ratio(
        shape=(ShapePoint(utilization=0, score=0), ShapePoint(utilization=100, score=10))
    ),
)


def scorer_of(args: ScoringStrategy, *nodes: Node) -> tuple[AllocationScorer, PluginHarness]:
    harness = PluginHarness(NodeResourcesFit, nodes=nodes)
    return AllocationScorer(harness.table, args), harness


def score(args: ScoringStrategy, pod: Pod, *nodes: Node) -> list[int]:
    """Return the score of each node; all forms must agree."""
    scorer, harness = scorer_of(args, *nodes)
    plan = scorer.plan(harness.table.templates.of(pod))
    single = [scorer.score_row(plan, row) for row in range(len(nodes))]
    everything: Any = scorer.score_rows(plan, None)
    assert np.broadcast_to(everything, (len(nodes),)).tolist() == single
    assert scorer._score_ints(plan, None).tolist() == single
    return single


@pytest.mark.parametrize(("args", "expected"), [(LEAST, (3 * 75 + 50) // 4), (MOST, (3 * 25 + 50) // 4), (RATIO, 31)])
def test_weighted_mean_of_resources(args: ScoringStrategy, expected: int) -> None:
    node = make_node("n").capacity(cpu=4, memory="8Gi", pods=10).obj()
    assert score(args, make_pod("p").req(cpu="1", memory="4Gi").obj(), node) == [expected]


def test_a_resource_that_a_node_lacks_is_left_out_there() -> None:
    nodes = [
        make_node("n1").capacity(cpu=4, pods=10).obj(),
        make_node("n2").capacity(cpu=4, memory="8Gi", pods=10).obj(),
    ]
    assert score(LEAST, make_pod("p").req(cpu="1", memory="8Gi").obj(), *nodes) == [75, 3 * 75 // 4]


def test_amounts_beyond_floats() -> None:
    node = make_node("n").capacity(cpu=4, memory=str(2**55), pods=10).obj()
    assert score(LEAST, make_pod("p").req(cpu="4", memory=str(2**54)).obj(), node) == [50 // 4]


def test_extended_resources_count_only_if_requested() -> None:
    args = ScoringStrategy(resources=(ResourceSpec(name="cpu"), ResourceSpec(name="example.com/gpu")))
    scorer, harness = scorer_of(args, make_node("n").capacity({"example.com/gpu": 4}, cpu=4, pods=10).obj())
    templates = harness.table.templates
    assert len(scorer.plan(templates.of(make_pod("p").req(cpu="1").obj()))) == 1
    assert len(scorer.plan(templates.of(make_pod("q").req({"example.com/gpu": 1}, cpu="1").obj()))) == 2


def test_requests_are_reported_in_a_fixed_order() -> None:
    asked = {"example.com/b": 1, "memory": 2, "example.com/a": 3, "cpu": 4, "untracked": 5}
    assert list(tracked(asked).items()) == [("cpu", 4), ("memory", 2), ("example.com/a", 3), ("example.com/b", 1)]


def test_whether_an_empty_node_has_room() -> None:
    pod = make_pod("p").req(cpu="2").obj()
    assert fits_empty(pod, make_node("n").capacity(cpu=2, pods=1).obj())
    assert not fits_empty(pod, make_node("n").capacity(cpu=1, pods=1).obj())
    assert not fits_empty(pod, make_node("n").capacity(cpu=2, pods=0).obj())


def test_whether_a_node_grew_in_what_the_pod_requests() -> None:
    pod, old = make_pod("p").req(cpu="2").obj(), make_node("n").capacity(cpu=1, memory=1, pods=1).obj()
    assert grown(pod, old, make_node("n").capacity(cpu=2, memory=1, pods=1).obj())
    assert grown(pod, old, make_node("n").capacity(cpu=1, memory=1, pods=2).obj())
    assert not grown(pod, old, make_node("n").capacity(cpu=1, memory=2, pods=1).obj())


def test_whether_a_resize_frees_what_the_pod_requests() -> None:
    pod = make_pod("p").req(cpu="1").obj()
    old, smaller = make_pod("q").req(cpu="2", memory="2").obj(), make_pod("q").req(cpu="1", memory="2").obj()
    assert freed_by(pod, old, smaller)
    assert not freed_by(pod, smaller, old)
    assert not freed_by(pod, old, make_pod("q").req(cpu="2", memory="1").obj())
