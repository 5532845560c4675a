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


class Recorder:
    """Collects the events of a plugin."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str, str]] = []

    def record(self, regarding: Any, *, reason: str, note: str, **_: Any) -> None:
        self.notes.append((regarding.name, reason, note))


def test_an_invalid_amount_counts_as_0_and_its_author_is_told() -> None:
    world, recorder = harness(), Recorder()
    world.plugin.handle.events = recorder
    world.handle.objects.put(quota("a", {"cpu": "1e1.5"}, {"cpu": "lots", "memory": "1Gi"}, name="bad"))
    assert reason(world, pod("p", cpu="1")) == "ElasticQuota a is more than Max"
    ((name, why, note),) = recorder.notes
    assert (name, why) == ("bad", "Invalid")
    assert note.startswith("spec.min: cpu: '1e1.5' is not a quantity: ")
    assert "; spec.max: cpu: 'lots' is not a quantity: " in note
    assert "the amount counts as 0" in note
