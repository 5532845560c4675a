"""The plugin: which nodes can serve a pod's claims, what is reserved, and what a failed pod deallocates."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import fit
from mooring.api.devices import DeviceTaintRule
from mooring.framework import CycleState, Hint, Status
from mooring.framework.declarations import declared_kinds
from mooring.framework.status import Code
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.dynamic_resources.pod_devices import DEVICES
from mooring.releases import V1_36, V1_37, Release, with_gates
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.device_world import allocated, claim, exactly, gpu_class, gpu_slice
from tests.plugins.dynamic_resources.test_claim_binder import Server

NODES = [make_node("n0").obj(), make_node("n1").obj()]
PLAIN = make_pod("p").req(cpu=1).obj()
CLAIMING = make_pod("p").resource_claim("gpu", "c").obj()


def harness(*objects: Any, nodes: Any = NODES) -> PluginHarness:
    return PluginHarness(DynamicResources, nodes=nodes, objects=objects, release=V1_36)


def test_pods_without_claims_are_skipped() -> None:
    result = run_plugin(DynamicResources, PLAIN, nodes=NODES)
    assert result.pre_filter.code is Code.SKIP
    assert result.feasible == ["n0", "n1"]


@pytest.mark.parametrize(
    ("objects", "rejected"),
    [
        ([claim(), gpu_class(), gpu_slice("n1")], {"n0": ("cannot allocate all claims",)}),
        ([claim(status=allocated("gpu-0"))], {"n1": ("resourceclaim not available on the node",)}),
        (
            [claim(), gpu_class(), gpu_slice("n0", 1), gpu_slice("n1", 1), claim(name="o", status=allocated("gpu-0"))],
            {"n0": ("cannot allocate all claims",)},
        ),
    ],
)
def test_filter(objects: Any, rejected: Any) -> None:
    assert run_plugin(DynamicResources, CLAIMING, nodes=NODES, objects=objects).rejected == rejected


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'could not find ResourceClaim "default/c"'),
        ([claim()], "request r: device class gpu does not exist"),
        ([claim({"name": "r"})], "resource claim default/c, request r: unknown request type"),
    ],
)
def test_pre_filter(objects: Any, reason: str) -> None:
    assert run_plugin(DynamicResources, CLAIMING, nodes=NODES, objects=objects).pre_filter == Status.unresolvable(
        reason
    )


def reserved(world: PluginHarness, pod: Any = CLAIMING, node: str = "n0") -> CycleState:
    state = CycleState()
    world.pre_filter(state, pod)
    world.filter(state, pod, world.nodes())
    assert world.plugin.reserve(state, pod, node) is None
    return state


def test_reserved_devices_are_in_use_until_they_are_given_back() -> None:
    world = harness(claim(), claim(name="d"), gpu_class(), gpu_slice("n0", 1))
    state = reserved(world)
    other = make_pod("q").resource_claim("gpu", "d").obj()
    second = CycleState()
    world.pre_filter(second, other)
    assert not any(status.is_success for status in world.filter(second, other, world.nodes()).values())
    busy, _ = world.pre_filter(CycleState(), CLAIMING)
    assert busy.reasons == ("resource claim default/c is in the process of being allocated",)
    world.plugin.unreserve(state, CLAIMING, "n0")
    assert world.filter(second, other, world.nodes())["n0"].is_success


def test_reserve_without_filter_is_an_error() -> None:
    world = harness(claim(), gpu_class(), gpu_slice("n0", 1))
    state = CycleState()
    world.pre_filter(state, CLAIMING)
    assert world.plugin.reserve(state, CLAIMING, "n0") == Status.error("claim allocation not found for node")


def test_score_prefers_the_first_alternative() -> None:
    alternatives = [{"name": f"s{n}", **exactly(n)["exactly"]} for n in (2, 1)]
    made = claim({"name": "l", "firstAvailable": alternatives})
    objects = [made, gpu_class(), gpu_slice("n0", 2), gpu_slice("n1", 1)]
    result = run_plugin(DynamicResources, CLAIMING, nodes=NODES, objects=objects)
    assert (result.raw_scores, result.scores) == ({"n0": 8, "n1": 7}, {"n0": 100, "n1": 87})


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (allocated("gpu-0", pool="gone"), "deallocation of ResourceClaim completed"),
        (
            {**allocated("gpu-0", pool="gone"), "reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}]},
            "still not schedulable",
        ),
    ],
)
def test_post_filter(status: Any, answer: str) -> None:
    world = harness(claim(status=status))
    state = CycleState()
    world.pre_filter(state, CLAIMING)
    world.filter(state, CLAIMING, world.nodes())
    assert world.plugin.post_filter(state, CLAIMING, None) == Status.unschedulable(answer)


def test_post_filter_without_claims() -> None:
    world = harness()
    state = CycleState()
    assert world.plugin.post_filter(state, PLAIN, None) == Status.error("not found")
    world.pre_filter(state, PLAIN)
    state.skip_filter.add("DynamicResources")
    assert world.plugin.post_filter(state, PLAIN, None) == Status.unschedulable("no new claims to deallocate")


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        # Without a gate of the experimental allocator, the field is ignored.
        ({}, {"n0": (), "n1": ()}),
        ({"DRADerivedAttributes": True}, {}),
        ({"DRAOptionalNodeOperations": True}, {"n1": ("*",)}),
    ],
)
def test_devices_whose_operations_are_skipped(gates: dict[str, bool], expected: dict[str, tuple[str, ...]]) -> None:
    nodes = [make_node("n0").obj(), make_node("n1").features("DRAOptionalNodeOperations").obj()]
    slices = [gpu_slice(each, skipNodeOperations=["*"]) for each in ("n0", "n1")]
    release, _ = with_gates(V1_37, gates)
    world = PluginHarness(DynamicResources, nodes=nodes, objects=[claim(), gpu_class(), *slices], release=release)
    state = CycleState()
    world.pre_filter(state, CLAIMING)
    world.filter(state, CLAIMING, world.nodes())
    found = {each.name: world.plugin.allocations(state, CLAIMING, each.name) for each in nodes}
    assert {
        name: chosen[1][0].devices.results[0].skip_node_operations for name, chosen in found.items() if chosen
    } == expected


@pytest.mark.parametrize(("release", "feasible"), [(V1_36, ["n0", "n1"]), (V1_37, ["n1"])])
def test_an_allocation_whose_operations_are_skipped_needs_a_node_with_the_feature(
    release: Release, feasible: list[str]
) -> None:
    nodes = [make_node("n0").obj(), make_node("n1").features("DRAOptionalNodeOperations").obj()]
    status = {"allocation": {"devices": allocated("gpu-0", skipNodeOperations=["*"])["allocation"]["devices"]}}
    world = PluginHarness(DynamicResources, nodes=nodes, objects=[claim(status=status)], release=release)
    state = CycleState()
    world.pre_filter(state, CLAIMING)
    found = world.filter(state, CLAIMING, world.nodes())
    assert [name for name, each in found.items() if each.is_success] == feasible
    assert {each.reasons for each in found.values() if not each.is_success} <= {
        ("resourceclaim not available on the node",)
    }


GPU = "example.com/gpu"


def test_extended_resources_become_a_claim_where_no_device_plugin_serves_them() -> None:
    nodes = [make_node("n0").obj(), make_node("n1").capacity({GPU: "4"}).obj()]
    world = harness(gpu_class(extendedResourceName=GPU), gpu_slice("n0", 1), nodes=nodes)
    pod = make_pod("p").req({GPU: "1"}).obj()
    state = CycleState()
    assert world.pre_filter(state, pod)[0].is_success
    assert all(status.is_success for status in world.filter(state, pod, world.nodes()).values())
    chosen = world.plugin.allocations(state, pod, "n0")
    assert chosen is not None
    plan, allocations = chosen
    assert [each.name for each in plan.requests] == ["container-0-request-0"]
    assert len(allocations) == 1
    assert world.plugin.allocations(state, pod, "n1") is None
    found = state.get(DEVICES)
    assert found is not None
    assert found.claims[0].name == "<extended-resources>"


TAINT_RULE = fit(
    {
        "metadata": {"name": "rule"},
        "spec": {"deviceSelector": {"pool": "n0"}, "taint": {"key": "bad", "effect": "NoSchedule"}},
    },
    DeviceTaintRule,
)


def test_taint_rules_are_obeyed_since_1_37() -> None:
    objects = [claim(), gpu_class(), gpu_slice("n0"), gpu_slice("n1"), TAINT_RULE]
    for release, feasible in ((V1_36, ["n0", "n1"]), (V1_37, ["n1"])):
        world = PluginHarness(DynamicResources, nodes=NODES, objects=objects, release=release)
        state = CycleState()
        world.pre_filter(state, CLAIMING)
        verdicts = world.filter(state, CLAIMING, world.nodes())
        assert [name for name, status in verdicts.items() if status.is_success] == feasible
        watched = DeviceTaintRule in declared_kinds([DynamicResources], release)
        registered = "DeviceTaintRule" in {event.resource for event in world.plugin.events_to_register()}
        assert watched == registered == (release is V1_37)


def test_a_taint_rule_requeues_pods_if_a_device_changes() -> None:
    world = PluginHarness(DynamicResources, nodes=NODES, objects=[gpu_slice("n0")], release=V1_37)
    hint = next(each.hint for each in world.plugin.events_to_register() if each.resource == "DeviceTaintRule")
    assert hint is not None
    elsewhere = fit({"metadata": {"name": "rule"}, "spec": {"deviceSelector": {"pool": "n9"}}}, DeviceTaintRule)
    changes = [(None, TAINT_RULE), (TAINT_RULE, None), (TAINT_RULE, elsewhere), (TAINT_RULE, TAINT_RULE)]
    expected = [Hint.QUEUE, Hint.QUEUE, Hint.QUEUE, Hint.SKIP]
    assert [hint(CLAIMING, old, new) for old, new in changes] == expected
    assert hint(CLAIMING, elsewhere, None) is Hint.SKIP


def gated(gate: str, *objects: Any) -> PluginHarness:
    """A world in which a feature gate of 1.36 is off."""
    release, _ = with_gates(V1_36, {gate: False})
    return PluginHarness(DynamicResources, nodes=NODES[:1], objects=[*objects, gpu_class()], release=release)


def test_without_device_taints_tainted_devices_are_allocated() -> None:
    tainted = [{"name": "gpu-0", "taints": [{"key": "k", "effect": "NoSchedule"}]}]
    objects = (claim(), gpu_slice("n0", tainted))
    for world, success in (
        (harness(*objects, gpu_class(), nodes=NODES[:1]), False),
        (gated("DRADeviceTaints", *objects), True),
    ):
        state = CycleState()
        world.pre_filter(state, CLAIMING)
        assert world.filter(state, CLAIMING, world.nodes())["n0"].is_success is success


def test_without_prioritized_lists_a_claim_with_a_list_is_refused() -> None:
    alternatives = [{"name": "s", **exactly()["exactly"]}]
    listed = claim({"name": "r", "firstAvailable": alternatives})
    status, _ = gated("DRAPrioritizedList", listed, gpu_slice("n0")).pre_filter(CycleState(), CLAIMING)
    problem = "has subrequests, but the DRAPrioritizedList feature is disabled"
    assert status == Status.unresolvable(f"resource claim default/c, request r: {problem}")


def test_without_extended_resources_classes_provide_none() -> None:
    pod = make_pod("p").req({"deviceclass.resource.kubernetes.io/gpu": 1}).obj()
    for world, code in ((harness(gpu_class()), Code.SUCCESS), (gated("DRAExtendedResource"), Code.SKIP)):
        status, _ = world.pre_filter(CycleState(), pod)
        assert status.code is code


def test_without_the_filter_timeout_its_argument_is_ignored() -> None:
    assert gated("DRASchedulerFilterTimeout").plugin._filter_timeout == 0
    assert harness().plugin._filter_timeout == 10


def test_a_pod_uses_the_allocation_that_is_being_written_for_another_pod() -> None:
    """On a cluster. Until it is written, PostFilter must not deallocate it."""
    world = harness(claim(), gpu_class(), gpu_slice("n0", 1), gpu_slice("n1", 1))
    reserved(world, node="n1")
    other = make_pod("q").resource_claim("gpu", "c").obj()
    server = world.plugin.handle.claims = Server(claim())
    state = CycleState()
    assert world.pre_filter(state, other)[0].is_success
    assert [name for name, status in world.filter(state, other, world.nodes()).items() if status.is_success] == ["n1"]
    assert world.plugin.reserve(state, other, "n1") is None
    assert world.plugin.post_filter(state, other, None).reasons != ("deallocation of ResourceClaim completed",)
    assert server.calls == []
    world.plugin.unreserve(state, other, "n1")
    assert world.plugin._tracker.is_in_flight("uid-c")
