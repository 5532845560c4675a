"""Scores of zones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.resources import qos_class
from mooring.plugins.node_resource_topology import NodeResourceTopologyMatch
from mooring.plugins.node_resource_topology.strategies import variance
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod
from tests.plugins.topology_reports import SINGLE, report

BIG, SMALL = {"cpu": "8", "memory": "8Gi"}, {"cpu": "1", "memory": "1"}


def harness(*reports: Any, args: dict[str, Any] | None = None, offers: dict[str, Any] | None = None) -> PluginHarness:
    names = {each.name for each in reports} | {"plain"}
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", **(offers or {})}
    nodes = [make_node(name).capacity(amounts).obj() for name in sorted(names)]
    return PluginHarness(NodeResourceTopologyMatch, args=args, nodes=nodes, objects=reports)


def scores(world: PluginHarness, pod: PodBuilder) -> dict[str, int]:
    return world.run(pod.obj()).scores


def asking(*containers: dict[str, Any]) -> PodBuilder:
    pod = make_pod("p")
    for each in containers:
        pod = pod.req(each)
    return pod.guaranteed()


# Score


def with_strategy(kind: str, *weights: tuple[str, int]) -> dict[str, Any]:
    resources = {"resources": [{"name": name, "weight": weight} for name, weight in weights]} if weights else {}
    return {"scoringStrategy": {"type": kind, **resources}}


ONE = asking({"cpu": "2", "memory": "2Gi"})


@pytest.mark.parametrize(
    ("args", "pod", "zones", "expected"),
    [
        ({}, ONE, [BIG], 75),
        (with_strategy("MostAllocated"), ONE, [BIG], 25),
        (with_strategy("LeastAllocated", ("cpu", 3), ("memory", 1)), ONE, [{"cpu": "4", "memory": "8Gi"}], 56),
        ({}, ONE, [BIG, {"cpu": "4", "memory": "4Gi"}], 50),
        ({}, ONE, [BIG, {"cpu": "1", "memory": "1Gi"}], 75),
        ({}, asking({"cpu": "1500m", "memory": "2Gi"}), [{"cpu": "3500m", "memory": "4Gi"}], 50),
        (with_strategy("BalancedAllocation"), ONE, [BIG], 100),
        (with_strategy("BalancedAllocation"), ONE, [{"cpu": "2", "memory": "8Gi"}], 71),
        (with_strategy("BalancedAllocation"), ONE, [{"cpu": "2", "memory": "8Gi"}, {"cpu": "1", "memory": "1"}], 71),
        ({}, asking({"cpu": "2", "memory": "2Gi"}, {"cpu": "4", "memory": "4Gi"}), [BIG], 62),
        (with_strategy("LeastNUMANodes"), ONE, [BIG, BIG], 94),
        (with_strategy("LeastNUMANodes"), asking({"cpu": "9", "memory": "2Gi"}), [BIG, BIG], 82),
        (with_strategy("LeastNUMANodes"), asking({"cpu": "17", "memory": "2Gi"}), [BIG, BIG], 0),
    ],
)
def test_scores(args: dict[str, Any], pod: PodBuilder, zones: list[Any], expected: int) -> None:
    """The lowest score of a zone that is not 0; containers' mean; cpu counts in whole cores.

    Where no costs are known, all distances are the same, and so the best possible.
    """
    attributes = SINGLE if "LeastNUMANodes" not in str(args) else {}
    world = harness(report("n", *zones, attributes=attributes), args=args)
    assert scores(world, pod) == {"n": expected, "plain": 0}


def test_pods_whose_resources_are_not_their_own_do_not_care() -> None:
    assert scores(harness(report("n", BIG, attributes=SINGLE)), make_pod("p").req(cpu="1")) == {"n": 100, "plain": 100}


def test_near_zones_are_better() -> None:
    costs = {here: {there: 10 if here == there else 20 if here // 2 == there // 2 else 40 for there in range(4)}
             for here in range(4)}  # fmt: skip
    args = with_strategy("LeastNUMANodes")
    small = {"cpu": "2", "memory": "2Gi"}
    near = report("near", small, small, {"cpu": "0", "memory": "0"}, small, costs=costs)
    far = report("far", small, {"cpu": "0", "memory": "0"}, small, {"cpu": "0", "memory": "0"}, costs=costs)
    pod = asking({"cpu": "4", "memory": "1Gi"})
    assert scores(harness(near, far, args=args), pod) == {"near": 82, "far": 76, "plain": 0}


def test_more_zones_than_the_kubelet_takes_score_nothing_worse_than_nothing() -> None:
    zones = [{"cpu": "1", "memory": "1Gi"}] * 3
    world = harness(report("n", *zones, attributes={"topologyManagerMaxNUMANodes": "2"}),
                    args=with_strategy("LeastNUMANodes"))  # fmt: skip
    assert scores(world, asking({"cpu": "3", "memory": "1Gi"})) == {"n": 0, "plain": 0}


def test_a_container_that_asks_for_nothing_in_a_guaranteed_pod() -> None:
    """Guaranteed as a whole; the plugin that we follow divides by nothing here."""
    pod = make_pod("p").req().req(cpu="2", memory="2Gi").pod_req(cpu="2", memory="2Gi").obj()
    whole = msgspec.structs.replace(pod.spec.resources, limits=pod.spec.resources.requests)
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resources=whole))
    assert qos_class(pod) == "Guaranteed"
    for strategy in ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"):
        world = harness(report("n", BIG, attributes=SINGLE), args=with_strategy(strategy))
        assert 0 <= world.run(pod).scores["n"] <= 100


def test_variance() -> None:
    assert variance([0.5]) == 0
    assert variance([0.0, 1.0]) == pytest.approx(0.5)
