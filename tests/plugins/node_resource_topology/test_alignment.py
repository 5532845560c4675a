"""Whether pods fit into the zones of a node."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.plugins.node_resource_topology import NodeResourceTopologyMatch
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod
from tests.plugins.topology_reports import POD, SINGLE, report

NIC = "vendor.com/nic"
BIG, SMALL = {"cpu": "8", "memory": "8Gi"}, {"cpu": "1", "memory": "1"}


def harness(*reports: Any, args: dict[str, Any] | None = None, offers: dict[str, Any] | None = None) -> PluginHarness:
    names = {each.name for each in reports} | {"plain"}
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", **(offers or {})}
    nodes = [make_node(name).capacity(amounts).obj() for name in sorted(names)]
    return PluginHarness(NodeResourceTopologyMatch, args=args, nodes=nodes, objects=reports)


def reasons(world: PluginHarness, pod: PodBuilder) -> dict[str, str]:
    return {name: ", ".join(why) for name, why in world.run(pod.obj()).rejected.items()}


def scores(world: PluginHarness, pod: PodBuilder) -> dict[str, int]:
    return world.run(pod.obj()).scores


def asking(*containers: dict[str, Any]) -> PodBuilder:
    pod = make_pod("p")
    for each in containers:
        pod = pod.req(each)
    return pod.guaranteed()


# Filter


@pytest.mark.parametrize(
    ("zones", "pod", "reason"),
    [
        ([BIG, BIG], asking({"cpu": "8", "memory": "1Gi"}), ""),
        ([BIG, BIG], asking({"cpu": "9", "memory": "1Gi"}), "container"),
        ([{"cpu": "8", "memory": "1"}, {"cpu": "1", "memory": "8"}], asking({"cpu": "2", "memory": "2"}), "container"),
        ([BIG], make_pod("p").req(cpu="9"), ""),
        ([{"cpu": "0"}], make_pod("p").req(cpu="9"), ""),
        ([{"memory": "1"}], make_pod("p").req(cpu="9"), "container"),
        ([], make_pod("p").req(cpu="1"), "container"),
        ([BIG], make_pod("p"), ""),
        ([BIG], make_pod("p").req({NIC: 1}), ""),
        ([{**BIG, NIC: 1}], make_pod("p").req({NIC: 2}), "container"),
        ([{**BIG, NIC: 1}, {**BIG, NIC: 2}], make_pod("p").req({NIC: 2}), ""),
        ([{**BIG, NIC: 1}, BIG], asking({"cpu": "8", "memory": "1"}, {"cpu": "1", "memory": "1", NIC: 1}), "container"),
        ([BIG, BIG], asking({"cpu": "8", "memory": "1Gi"}, {"cpu": "8", "memory": "1Gi"}), ""),
        ([BIG, BIG], asking(*[{"cpu": "8", "memory": "1"}] * 3), "container"),
        ([BIG], asking({"cpu": "1", "memory": "0"}), ""),
        ([BIG], asking({"cpu": "1", "memory": "1", "ephemeral-storage": "1Gi"}), ""),
        ([BIG], asking({"cpu": "1", "memory": "1", "hugepages-2Mi": "2Mi"}), "container"),
        ([BIG], asking({"cpu": "1", "memory": "1", "vendor.com/unknown": 1}), "container"),
        ([BIG], asking({"cpu": "1", "memory": "1", "vendor.com/unknown": 0}), ""),
        ([BIG], asking({"cpu": "1", "memory": "1"}).init(cpu="9", memory="1").guaranteed(), "init container"),
        ([BIG], asking(SMALL).init(cpu="9", memory="1", sidecar=True).guaranteed(), "sidecar container"),
        ([BIG], asking({"cpu": "8", "memory": "1"}).init(cpu="8", memory="1", sidecar=True).guaranteed(), ""),
    ],
)  # fmt: skip
def test_container_scope(zones: list[dict[str, Any]], pod: PodBuilder, reason: str) -> None:
    """Each container into one zone; those that run together share them, init containers and sidecars do not."""
    world = harness(report("n", *zones, attributes=SINGLE), offers={NIC: "8", "hugepages-2Mi": "0"})
    assert reasons(world, pod) == ({"n": f"cannot align {reason}"} if reason else {})


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        (asking({"cpu": "4", "memory": "1"}, {"cpu": "4", "memory": "1"}), True),
        (asking({"cpu": "4", "memory": "1"}, {"cpu": "5", "memory": "1"}), False),
        (asking({"cpu": "4", "memory": "1"}).init(cpu="9", memory="1").guaranteed(), False),
        (asking({"cpu": "4", "memory": "1"}).init(cpu="8", memory="1").guaranteed(), True),
        (asking({"cpu": "8", "memory": "1"}).overhead(cpu="1m"), False),
    ],
)
def test_pod_scope(pod: PodBuilder, fits: bool) -> None:
    """The pod as a whole into one zone: containers together or the biggest init container, and overhead."""
    world = harness(report("n", BIG, BIG, attributes=POD))
    assert reasons(world, pod) == ({} if fits else {"n": "cannot align pod"})


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_other_policies_accept_all_pods(policy: str) -> None:
    world = harness(report("n", {"cpu": "0"}, attributes={"topologyManagerPolicy": policy}))
    assert reasons(world, asking({"cpu": "9", "memory": "1"})) == {}


def test_gaps_in_the_numbers_and_twice_the_same() -> None:
    """What the plugin that we follow does not survive."""
    gaps = report("gaps", BIG, {"cpu": "1", "memory": "1Gi"}, attributes=SINGLE, numbers=(3, 64))
    twice = report("twice", {"cpu": "1"}, BIG, attributes=SINGLE, numbers=(1, 1))
    world = harness(gaps, twice)
    fine = asking({"cpu": "8", "memory": "1Gi"})
    assert reasons(world, fine) == {}
    assert reasons(world, asking({"cpu": "9", "memory": "1Gi"})) == dict.fromkeys(
        ("gaps", "twice"), "cannot align container"
    )
    for strategy in ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"):
        scored = scores(harness(gaps, twice, args={"scoringStrategy": {"type": strategy}}), fine)
        assert all(0 <= each <= 100 for each in scored.values())
