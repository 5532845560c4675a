"""The use of quotas follows pods and quotas."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.pod import Pod
from mooring.framework import CycleState, Status
from mooring.plugins.capacity_scheduling import CapacityScheduling
from mooring.plugins.capacity_scheduling.elastic_quota import ElasticQuota
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod


def quota(namespace: str, least: Any = None, most: Any = None, name: str = "quota") -> ElasticQuota:
    raw = {"metadata": {"name": name, "namespace": namespace}, "spec": {"min": least, "max": most}}
    return msgspec.convert(raw, ElasticQuota)


def pod(name: str, namespace: str = "a", **amounts: Any) -> PodBuilder:
    return make_pod(name, namespace).uid(f"{namespace}/{name}").req(amounts)


def harness(*objects: Any) -> PluginHarness:
    made = [each.obj() if isinstance(each, PodBuilder) else each for each in objects]
    nodes = [make_node("n").capacity(cpu="64", memory="64Gi").obj()]
    pods = [each for each in made if isinstance(each, Pod)]
    return PluginHarness(
        CapacityScheduling, nodes=nodes, pods=pods, objects=[each for each in made if not isinstance(each, Pod)]
    )


def reason(world: PluginHarness, what: PodBuilder) -> str:
    status = world.plugin.pre_filter(CycleState(), what.obj(), world.nodes())
    if status is None:
        return ""
    assert status.code is Status.unschedulable().code
    text = status.message.partition("because ")[2]
    return str(text)


def test_usage_follows_pods_and_quotas() -> None:
    """Reserved, bound and gone; a quota that comes after its pods, changes, goes."""
    world = harness(quota("a", {"cpu": "4"}))
    one = pod("one", cpu="4")
    world.plugin.reserve(CycleState(), one.obj(), "n")
    world.plugin.reserve(CycleState(), one.obj(), "n")
    assert reason(world, pod("p", cpu="1"))
    world.handle.objects.put(one.node("n").obj())
    assert reason(world, pod("p", cpu="1"))
    world.handle.objects.put(quota("a", {"cpu": "5"}))
    assert reason(world, pod("p", cpu="1")) == ""
    world.plugin.unreserve(CycleState(), one.obj(), "n")
    assert reason(world, pod("p", cpu="5")) == ""
    world.handle.objects.put(one.node("n").obj())
    world.handle.objects.remove(one.obj())
    assert reason(world, pod("p", cpu="5")) == ""
    world.handle.objects.remove(quota("a"))
    assert reason(world, pod("p", cpu="50")) == ""
    world.handle.objects.put(pod("two", cpu="4").node("n").obj())
    world.handle.objects.put(quota("a", {"cpu": "5"}))
    assert reason(world, pod("p", cpu="2"))


def test_of_two_quotas_the_first_counts() -> None:
    world = harness(quota("a", {"cpu": "1"}), quota("a", {"cpu": "9"}, name="second"))
    assert reason(world, pod("p", cpu="2"))
    world.handle.objects.remove(quota("a"))
    assert reason(world, pod("p", cpu="2")) == ""
