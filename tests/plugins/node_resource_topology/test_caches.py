"""Caches of node topologies without accounting of reservations."""

from __future__ import annotations

from typing import Any

from mooring.framework import CycleState
from mooring.plugins.node_resource_topology import NodeResourceTopologyMatch
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod
from tests.plugins.topology_reports import POD, report

ROOM = {"cpu": "4", "memory": "4Gi"}
STALE = "invalid node topology data"


def harness(args: dict[str, Any], *objects: Any, pods: tuple[PodBuilder, ...] = ()) -> PluginHarness:
    node = make_node("n").capacity(cpu="64", memory="64Gi").obj()
    return PluginHarness(
        NodeResourceTopologyMatch, args=args, nodes=[node], objects=objects, pods=[pod.obj() for pod in pods]
    )


def asking(name: str, cpu: str = "3") -> PodBuilder:
    return make_pod(name).uid(name).req(cpu=cpu, memory="1Gi").guaranteed()


def reason(world: PluginHarness, pod: PodBuilder) -> str:
    return ", ".join(world.run(pod.obj()).rejected.get("n", ()))


def reserve(world: PluginHarness, pod: PodBuilder) -> None:
    world.plugin.reserve(CycleState(), pod.obj(), "n")


OVER = {"cacheResyncPeriodSeconds": 5}


def test_reports_are_used_whatever_was_reserved() -> None:
    world = harness({}, report("n", ROOM, attributes=POD))
    reserve(world, asking("a"))
    assert reason(world, asking("b")) == ""


def test_nodes_with_reservations_are_excluded() -> None:
    """Until the pod is bound or given up; this goes before the other cache."""
    world = harness({"discardReservedNodes": True, **OVER}, report("n", ROOM, attributes=POD))
    first, second = asking("a"), asking("b")
    reserve(world, first)
    reserve(world, second)
    world.plugin.unreserve(CycleState(), first.obj(), "n")
    assert reason(world, asking("c")) == STALE
    assert world.run(make_pod("besteffort").obj()).rejected == {}
    world.plugin.post_bind(CycleState(), second.obj(), "n")
    assert reason(world, asking("c")) == ""
