"""The over-reserve cache: reservations, fingerprints and resyncs."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import CycleState
from mooring.plugins.node_resource_topology import NodeResourceTopologyMatch
from mooring.plugins.node_resource_topology.over_reserve import fingerprint, xxhash64
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod
from tests.plugins.topology_reports import POD, SINGLE, report

ROOM = {"cpu": "4", "memory": "4Gi"}
FINGERPRINT = "nodeTopologyPodsFingerprint"
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


@pytest.mark.parametrize("attributes", [POD, SINGLE])
def test_reservations_are_charged_to_all_zones(attributes: dict[str, str]) -> None:
    what = "pod" if attributes is POD else "container"
    world = harness(OVER, report("n", ROOM, ROOM, attributes=attributes))
    reserve(world, asking("a"))
    world.plugin.post_bind(CycleState(), asking("a").obj(), "n")
    assert reason(world, asking("b", "2")) == f"cannot align {what}"
    assert reason(world, asking("b", "1")) == ""
    world.plugin.unreserve(CycleState(), asking("a").obj(), "n")
    assert reason(world, asking("b", "2")) == ""


def test_free_amounts_are_not_negative() -> None:
    world = harness(OVER, report("n", ROOM, attributes=POD))
    for name in "abc":
        reserve(world, asking(name))
    assert reason(world, asking("d", "1")) == "cannot align pod"
    for name in "bc":
        world.plugin.unreserve(CycleState(), asking(name).obj(), "n")
    assert reason(world, asking("d", "1")) == ""


@pytest.mark.parametrize(
    ("mode", "pod", "stale"),
    [
        ("All", make_pod("f").scheduler("other").node("n"), True),
        ("All", make_pod("f").node("n"), False),
        ("All", make_pod("f").scheduler("other"), False),
        ("All", make_pod("f").scheduler("other").node("elsewhere"), False),
        ("OnlyExclusiveResources", make_pod("f").scheduler("other").node("n"), False),
        ("OnlyExclusiveResources", asking("f").scheduler("other").node("n"), True),
        ("None", asking("f").scheduler("other").node("n"), False),
    ],
)
@pytest.mark.parametrize("order", ["before", "after", "report last"])
def test_foreign_pods(mode: str, pod: PodBuilder, stale: bool, order: str) -> None:
    """Whenever they are noticed."""
    args, told = {**OVER, "cache": {"foreignPodsDetect": mode}}, report("n", ROOM, attributes=POD)
    if order == "before":
        world = harness(args, told, pods=(pod.uid("f"),))
    else:
        world = harness(args, *(() if order == "report last" else (told,)))
        world.add(pod.uid("f").obj())
        world.add(told)
    assert reason(world, asking("a")) == (STALE if stale else "")


# Reports that are taken over


def running(name: str, *, foreign: bool = False) -> PodBuilder:
    pod = asking(name, "1").node("n").phase("Running")
    return pod.scheduler("other") if foreign else pod


def told(pods: tuple[str, ...], *, method: str = "", cpu: str = "4", annotation: bool = False) -> Any:
    mark = fingerprint(("default", name) for name in pods)
    attributes = {**POD, "nodeTopologyPodsFingerprintMethod": method}
    if annotation:
        annotations = {"topology.node.k8s.io/fingerprint": mark}
        return report("n", {**ROOM, "cpu": cpu}, attributes=attributes, annotations=annotations)
    return report("n", {**ROOM, "cpu": cpu}, attributes={**attributes, FINGERPRINT: mark})


@pytest.mark.parametrize("annotation", [False, True])
def test_a_report_that_includes_all_pods_is_taken_over(annotation: bool) -> None:
    world = harness(OVER, told((), annotation=annotation), pods=(running("a"), running("f", foreign=True)))
    world.plugin._cache.resync()
    assert reason(world, asking("b", "2")) == STALE
    world.handle.objects.put(told(("a",), cpu="2", annotation=annotation))
    world.plugin._cache.resync()
    assert reason(world, asking("b", "2")) == STALE
    world.handle.objects.put(told(("a", "f"), cpu="2", annotation=annotation))
    assert reason(world, asking("b", "2")) == STALE
    world.plugin._cache.resync()
    assert reason(world, asking("b", "2")) == ""
    assert reason(world, asking("b", "3")) == "cannot align pod"


def test_only_uncertain_nodes_are_resynced() -> None:
    """A report is not taken over where nobody was turned down."""
    world = harness(OVER, told(()), pods=(running("a"),))
    world.handle.objects.put(told(("a",), cpu="1"))
    world.plugin._cache.resync()
    assert reason(world, asking("b", "2")) == ""
    reserve(world, asking("c", "4"))
    assert reason(world, asking("b", "2")) == "cannot align pod"
    world.plugin._cache.resync()
    assert reason(world, asking("b", "1")) == ""  # the reservation is part of the report now
    assert reason(world, asking("b", "2")) == "cannot align pod"


@pytest.mark.parametrize(
    ("cache", "method", "counted", "taken_over"),
    [
        ({}, "", ("a", "idle"), True),
        ({}, "with-exclusive-resources", ("a",), True),
        ({}, "with-exclusive-resources", ("a", "idle"), False),
        ({"resyncMethod": "All"}, "with-exclusive-resources", ("a", "idle"), True),
        ({"resyncMethod": "OnlyExclusiveResources"}, "", ("a",), True),
        ({"informerMode": "Shared"}, "", ("a", "idle"), True),
    ],
)
def test_which_pods_a_fingerprint_is_of(
    cache: dict[str, str], method: str, counted: tuple[str, ...], taken_over: bool
) -> None:
    idle = make_pod("idle").uid("idle").node("n").phase("Running")
    pending = asking("new").node("n").phase("Pending")
    foreign = running("a", foreign=True)
    world = harness({**OVER, "cache": cache}, told(counted, method=method), pods=(foreign, idle, pending))
    world.plugin._cache.resync()
    assert (reason(world, asking("b", "1")) == "") is taken_over


def test_other_rules_of_the_kubelet_are_taken_over_without_a_fingerprint() -> None:
    world = harness(OVER, report("n", ROOM, attributes=POD))
    world.handle.objects.put(report("n", ROOM))
    assert reason(world, asking("b", "9")) == "cannot align pod"
    world.plugin._cache.resync()
    assert reason(world, asking("b", "9")) == ""
    strict = harness({**OVER, "cache": {"resyncScope": "OnlyResources"}}, report("n", ROOM, attributes=POD))
    strict.handle.objects.put(report("n", ROOM))
    strict.plugin._cache.resync()
    assert reason(strict, asking("b", "9")) == "cannot align pod"


def test_a_report_that_goes() -> None:
    item = report("n", ROOM, attributes=POD)
    world = harness(OVER, item)
    assert reason(world, asking("b", "9"))
    world.handle.objects.remove(item)
    assert reason(world, asking("b", "9")) == ""


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
    ],
)
def test_the_hash(data: bytes, seed: int, expected: int) -> None:
    """Vectors that everybody publishes."""
    assert xxhash64(data, seed) == expected


def test_the_fingerprint_knows_no_order() -> None:
    pods = [("production", "jaeger-dpgjk"), ("production", "nginx-rt684"), ("production", "envoy-g9m22")]
    assert fingerprint(pods) == fingerprint(reversed(pods)) == "pfp0v001607b76a0e9d3aeb4"
