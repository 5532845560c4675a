"""Zones in columns give the same results as the rule for one node."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.plugins.node_resource_topology import NodeResourceTopologyMatch
from mooring.plugins.node_resource_topology.alignment import REASONS, misfit
from mooring.plugins.node_resource_topology.demand import demand_of
from mooring.plugins.node_resource_topology.strategies import score
from mooring.plugins.node_resource_topology.zones import read
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod
from tests.plugins.topology_reports import POD, SINGLE, report

NIC = "vendor.com/nic"


def harness(*reports: Any, args: dict[str, Any] | None = None, offers: dict[str, Any] | None = None) -> PluginHarness:
    names = {each.name for each in reports} | {"plain"}
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", **(offers or {})}
    nodes = [make_node(name).capacity(amounts).obj() for name in sorted(names)]
    return PluginHarness(NodeResourceTopologyMatch, args=args, nodes=nodes, objects=reports)


# Score


def with_strategy(kind: str, *weights: tuple[str, int]) -> dict[str, Any]:
    resources = {"resources": [{"name": name, "weight": weight} for name, weight in weights]} if weights else {}
    return {"scoringStrategy": {"type": kind, **resources}}


# Columns


AMOUNT = st.sampled_from(["0", "500m", "1", "2", "3500m", "4", "1Gi", "2Gi", "1500u", "-1", "4Ei"])
LEFT = st.dictionaries(st.sampled_from(["cpu", "memory", "hugepages-2Mi", NIC, "vendor.com/gpu"]), AMOUNT, max_size=4)
REPORT = st.builds(
    lambda zones, attributes, order: report(
        "n", *(zone for zone, _ in zones), attributes=attributes,
        numbers=tuple(number for _, number in zones) if order else None,
    ),
    st.lists(st.tuples(LEFT, st.integers(0, 5)), max_size=4),
    st.sampled_from([SINGLE, POD, {}]),
    st.booleans(),
)  # fmt: skip
REQUEST = st.dictionaries(
    st.sampled_from(["cpu", "memory", "hugepages-2Mi", NIC, "vendor.com/gpu", "ephemeral-storage"]),
    st.sampled_from(["0", "500m", "1", "2", "3", "1500u", "1Gi"]),
    max_size=4,
)


@st.composite
def pods(draw: st.DrawFn) -> PodBuilder:
    pod = make_pod("p")
    for request in draw(st.lists(REQUEST, min_size=1, max_size=3)):
        pod = pod.req(request)
    for request, sidecar in draw(st.lists(st.tuples(REQUEST, st.booleans()), max_size=2)):
        pod = pod.init(request, sidecar=sidecar)
    return pod.guaranteed() if draw(st.booleans()) else pod


@settings(max_examples=150, deadline=None)
@given(
    st.lists(REPORT, min_size=1, max_size=4),
    st.lists(pods(), min_size=1, max_size=2),
    st.sampled_from(["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"]),
    st.lists(st.integers(0, 3), max_size=3),
)
def test_columns_agree_with_the_rule(
    reports: list[Any], asked: list[PodBuilder], kind: str, changes: list[int]
) -> None:
    """On all nodes, and after reports have changed."""
    named = [msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, name=f"n{number}"))
             for number, each in enumerate(reports)]  # fmt: skip
    world = harness(*named, args=with_strategy(kind), offers={NIC: "4", "hugepages-2Mi": "0"})
    current = {each.name: each for each in named}
    for change in [None, *changes]:
        if change is not None:
            name = f"n{change % len(named)}"
            other = msgspec.structs.replace(named[(change + 1) % len(named)], metadata=current[name].metadata)
            current[name] = other
            world.handle.objects.put(other)
        for pod in asked:
            _agrees(world, pod, kind, current)


def _agrees(world: PluginHarness, pod: PodBuilder, kind: str, reports: dict[str, Any]) -> None:
    demand = demand_of(pod.obj())
    run = world.run(pod.obj())
    weights = {"cpu": 1, "memory": 1}
    for name, each in reports.items():
        topology, row = read(each), world.table.row_of[name]
        code = misfit(topology, demand, functools.partial(world.plugin._columns.offers, row)) if demand.matters else 0
        assert run.filter[name].reasons == ((REASONS[code],) if code else ())
        if name in run.scores:
            assert run.scores[name] == (score(topology, demand, kind, weights) if demand.guaranteed else 100)
