"""NodeResourceTopologyMatch: which zones count, who fits into them, how well; columns agree with the rule."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.qos import qos_class
from mooring.config import ConfigError, load_config
from mooring.framework import CycleState
from mooring.plugins.node_resource_topology import NodeResourceTopologyMatch
from mooring.plugins.node_resource_topology.alignment import REASONS, misfit
from mooring.plugins.node_resource_topology.demand import demand_of, is_exclusive
from mooring.plugins.node_resource_topology.strategies import score, variance
from mooring.plugins.node_resource_topology.zones import read
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod
from tests.plugins.topology_reports import POD, SINGLE, raw_report, report

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


# Reading reports


@pytest.mark.parametrize(
    ("attributes", "policies", "expected"),
    [
        ({}, (), (False, False, 8)),
        (SINGLE, (), (True, False, 8)),
        (POD, (), (True, True, 8)),
        ({}, ("SingleNUMANodePodLevel", "BestEffortPodLevel"), (True, True, 8)),
        ({}, ("SingleNUMANodeContainerLevel",), (True, False, 8)),
        ({}, ("RestrictedPodLevel",), (False, True, 8)),
        ({}, ("Restricted",), (False, False, 8)),
        ({"topologyManagerPolicy": "restricted"}, ("SingleNUMANodePodLevel",), (False, True, 8)),
        ({"topologyManagerPolicy": "nonsense"}, ("SingleNUMANodePodLevel",), (True, True, 8)),
        ({"topologyManagerScope": "container"}, ("SingleNUMANodePodLevel",), (True, False, 8)),
        ({"topologyManagerScope": "node"}, ("SingleNUMANodePodLevel",), (True, True, 8)),
        ({"topologyManagerMaxNUMANodes": "2"}, (), (False, False, 2)),
        ({"topologyManagerMaxNUMANodes": "1"}, (), (False, False, 8)),
        ({"topologyManagerMaxNUMANodes": "9999"}, (), (False, False, 1024)),
        ({"topologyManagerMaxNUMANodes": "many"}, (), (False, False, 8)),
    ],
)
def test_the_rules_of_a_kubelet(attributes: dict[str, str], policies: tuple[str, ...], expected: Any) -> None:
    assert read(report("n", attributes=attributes, policies=policies)).settings == expected


@pytest.mark.parametrize(
    ("name", "kind", "number"),
    [
        ("node-0", "Node", 0),
        ("node-64", "Node", 64),
        ("node-65", "Node", None),
        ("node-07", "Node", 7),
        ("numa-0", "Node", None),
        ("node-0-1", "Node", None),
        ("node--1", "Node", None),
        ("node-", "Node", None),
        ("node-99999999999999999999", "Node", None),
        ("node-0", "Socket", None),
    ],
)
def test_which_zones_count(name: str, kind: str, number: int | None) -> None:
    zones = read(raw_report("n", [{"name": name, "type": kind}])).zones
    assert [zone.number for zone in zones] == ([] if number is None else [number])


def test_costs_of_a_number_that_comes_twice() -> None:
    zones = [{"name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": value}]} for value in (10, 11)]
    assert [zone.costs for zone in read(raw_report("n", zones)).zones] == [{0: 11}, {0: 11}]


def test_what_is_no_quantity_is_not_there() -> None:
    assert read(report("n", {"cpu": "lots", "memory": "1"})).zones[0].left == {"memory": 10**9}


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
def test_other_policies_let_everybody_in(policy: str) -> None:
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


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (make_pod("p").req({NIC: 1}), True),
        (make_pod("p").req(cpu="2"), False),
        (asking({"cpu": "2", "memory": "0"}), False),
        (asking({"cpu": "2", "memory": "1"}), True),
        (make_pod("p"), False),
    ],
)
def test_exclusive_resources(pod: PodBuilder, expected: bool) -> None:
    assert is_exclusive(pod.obj()) is expected


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


# Arguments


def config(args: str) -> str:
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}\n"
        f"  pluginConfig: [{{name: NodeResourceTopologyMatch, args: {args}}}]\n"
    )


def test_defaults_of_the_arguments() -> None:
    loaded = load_config(config("{scoringStrategy: {type: MostAllocated, resources: [{name: cpu}]}}"), source="test")
    assert loaded.profiles[0].plugin_config["NodeResourceTopologyMatch"] == {
        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
        "cacheResyncPeriodSeconds": 0,
        "discardReservedNodes": False,
        "cache": {
            "foreignPodsDetect": "All",
            "resyncMethod": "Autodetect",
            "informerMode": "Dedicated",
            "resyncScope": "All",
        },
        "preemptionMode": "Disabled",
    }


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ("{scoringStrategy: {type: Fewest}}", "scoringStrategy.type"),
        ("{scoringStrategy: {}}", "scoringStrategy.type"),
        ("{cache: {foreignPodsDetect: Some}}", "cache.foreignPodsDetect"),
        ("{cache: {resyncScope: Some}}", "cache.resyncScope"),
        ("{preemptionMode: Enabled}", "preemptionMode"),
        ("{cacheResyncPeriod: 3}", "cacheResyncPeriod"),
    ],
)
def test_arguments_that_make_no_sense(args: str, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config(args), source="test")
    assert [error.path for error in caught.value.errors] == [f"profiles[0].pluginConfig[0].args.{path}"]


def test_answers_that_were_kept_are_asked_for_again_when_a_report_changes() -> None:
    """The plugin declares that it depends on the node: it has to say when its topology changes."""
    world = harness(report("n", BIG, attributes=SINGLE))
    before = world.table.node_changes.position
    world.handle.objects.put(report("n", {"cpu": "1"}, attributes=SINGLE))
    assert world.table.node_changes.since(before, 10) == [world.table.row_of["n"]]
    state, pod = CycleState(), asking({"cpu": "2", "memory": "1"}).obj()
    assert world.plugin.filter_nodes(state, pod, world.nodes(["n"])).codes.tolist() == [3]
