"""The scheduling cycle of a PodGroup of scheduling.k8s.io."""

from __future__ import annotations

import random

import msgspec
import pytest

from mooring.api.meta import ObjectMeta
from mooring.api.pod import Pod, PodSchedulingGroup
from mooring.api.scheduling import (
    BasicSchedulingPolicy,
    DisruptAll,
    DisruptionMode,
    GangSchedulingPolicy,
    NativePodGroup,
    NativePodGroupSpec,
    PodGroupResourceClaim,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    TopologyConstraint,
)
from mooring.config import default_config
from mooring.releases import release_named, with_gates
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue import Place
from mooring.testing import make_node, make_pod

RELEASE = with_gates(release_named("1.37"), {"GenericWorkload": True})[0]


def group(minimum: int | None, name: str = "g", **spec: object) -> NativePodGroup:
    gang = None if minimum is None else GangSchedulingPolicy(min_count=minimum)
    policy = PodGroupSchedulingPolicy(gang=gang, basic=BasicSchedulingPolicy() if gang is None else None)
    made = NativePodGroupSpec(scheduling_policy=policy, **spec)
    return NativePodGroup(metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"), spec=made)


def member(name: str, *, cpu: str = "1", gates: bool = False, priority: int | None = None, of: str = "g") -> Pod:
    builder = make_pod(name).req(cpu=cpu)
    if gates:
        builder = builder.gate("wait")
    if priority is not None:
        builder = builder.priority(priority)
    pod = builder.obj()
    spec = msgspec.structs.replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name=of))
    return msgspec.structs.replace(pod, spec=spec)


class World:
    def __init__(self, *cpus: str) -> None:
        self.now = 1000.0
        self.engine = Engine(default_config(RELEASE), clock=lambda: self.now, rng=random.Random(0))
        self.conditions: list[tuple[str, str, str]] = []
        self.engine.report_group = lambda group, status: self.conditions.append(
            (group.name, status.reason, status.message)
        )
        for index, cpu in enumerate(cpus):
            self.engine.put(make_node(f"n{index}").capacity(cpu=cpu, memory="9Gi", pods=99).obj())

    def add(self, *items: object) -> None:
        for item in items:
            self.now += 0.001
            self.engine.put(item)

    def run(self) -> tuple[list[str], dict[str, str]]:
        """Run all attempts; return the pods with a node, and the messages of the others."""
        placed, failed = [], {}
        while self.engine.ready:
            outcome = self.engine.schedule_one()
            if isinstance(outcome, AssumedPod):
                assert not outcome.waits
                placed.append(outcome.pod.name)
            elif isinstance(outcome, FailedAttempt):
                failed[outcome.queued.pod.name] = outcome.failure.message
        return placed, failed

    def place(self, name: str) -> Place | None:
        found = self.engine.queue.find(f"default/{name}")
        return found[0] if found is not None else None


NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


def test_a_gang_is_placed_when_enough_pods_exist() -> None:
    world = World("4")
    world.add(group(3), member("a"), member("b"))
    assert world.run() == ([], {})
    assert world.place("a") is Place.GATED
    world.add(member("c"))
    assert world.run() == (["a", "b", "c"], {})
    assert world.conditions == [("g", "Scheduled", "")]


def test_pods_wait_for_their_group_object() -> None:
    world = World("4")
    world.add(member("a"))
    assert world.run() == ([], {})
    world.add(group(None))
    assert world.run() == (["a"], {})


def test_a_gang_that_does_not_fit_leaves_nothing_behind() -> None:
    world = World("2")
    world.add(group(3), member("a"), member("b"), member("c"), member("d"))
    placed, failed = world.run()
    message = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    assert placed == []
    fitted = f"pod group is unschedulable, {message}, {NO_VICTIMS}"
    assert failed == {"a": fitted, "b": fitted, "c": NO_ROOM, "d": NO_ROOM}
    assert world.conditions == [("g", "Unschedulable", f"{message}, {NO_VICTIMS}")]
    assert not world.engine.cache.table.pods
    assert world.place("a") is Place.BACKOFF
    world.add(make_node("more").capacity(cpu="4", memory="9Gi", pods=9).obj())
    world.now += 10
    world.engine.tick()
    assert sorted(world.run()[0]) == ["a", "b", "c", "d"]


def test_pods_that_are_not_tried_have_the_message_of_the_group() -> None:
    world = World("1")
    world.add(group(3), member("a"), member("b"), member("c"))
    message = "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"
    fitted = f"pod group is unschedulable, {message}, {NO_VICTIMS}"
    assert world.run()[1] == {"a": fitted, "b": NO_ROOM, "c": message}


@pytest.mark.parametrize("minimum", [None, 2])
def test_pods_beyond_the_minimum_are_tried_again(minimum: int | None) -> None:
    world = World("2")
    world.add(group(minimum), member("a"), member("b"), member("c"))
    assert world.run() == (["a", "b"], {"c": NO_ROOM})
    assert world.conditions[0] == ("g", "Scheduled", "")
    assert world.conditions[1] == ("g", "Unschedulable", f"pod group is unschedulable, {NO_VICTIMS}")
    assert world.place("c") is Place.BACKOFF


def test_one_gated_pod_holds_the_group() -> None:
    world = World("4")
    world.add(group(2), member("a"), member("b"), member("c", gates=True))
    assert world.run() == ([], {})
    world.add(member("c"))
    assert sorted(world.run()[0]) == ["a", "b", "c"]


def test_all_pods_have_the_priority_of_the_group() -> None:
    world = World("4")
    world.add(group(1), member("a", priority=5))
    text = "all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 0"
    assert world.run() == ([], {"a": text})
    assert world.conditions == [("g", "SchedulerError", text)]


def test_groups_are_independent() -> None:
    world = World("3")
    world.add(group(2, "g"), group(2, "h"), member("a"), member("b", of="h"), member("c"), member("d", of="h"))
    placed, failed = world.run()
    assert placed == ["a", "c"]
    assert set(failed) == {"b", "d"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {"scheduling_constraints": PodGroupSchedulingConstraints(topology=(TopologyConstraint(key="rack"),))},
            "spec.schedulingConstraints.topology",
        ),
        ({"disruption_mode": DisruptionMode(all=DisruptAll())}, "spec.disruptionMode.all"),
        ({"resource_claims": (PodGroupResourceClaim(name="c"),)}, "spec.resourceClaims"),
        ({"parent_composite_pod_group_name": "c"}, "spec.parentCompositePodGroupName"),
    ],
)
def test_what_is_missing_is_refused(spec: dict[str, object], field: str) -> None:
    world = World("4")
    world.add(group(1, **spec), member("a"))
    text = f"PodGroup default/g has {field}, which is not supported yet"
    assert world.run() == ([], {"a": text})
    assert world.conditions == [("g", "Unschedulable", text)]


def test_preemption_is_reported_as_missing() -> None:
    world = World("2")
    world.add(make_pod("low").req(cpu="1").node("n0").priority(-1).obj())
    world.add(group(2), member("a"), member("b"))
    world.run()
    assert world.conditions[0][2].endswith(
        "pod group preemption: not supported yet, although there are pods with a lower priority"
    )


def test_a_new_member_of_a_scheduled_group_is_placed_alone() -> None:
    world = World("4")
    world.add(group(2), member("a"), member("b"))
    assert world.run() == (["a", "b"], {})
    world.add(member("c"))
    assert world.run() == (["c"], {})


def test_a_lower_minimum_requeues_the_gang() -> None:
    world = World("4")
    world.add(group(3), member("a"), member("b"))
    assert world.run() == ([], {})
    world.add(group(2))
    assert sorted(world.run()[0]) == ["a", "b"]


def test_an_exception_fails_the_whole_group(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("4")

    def broken(*_args: object, **_keywords: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(world.engine, "reserve", broken)
    world.add(group(2), member("a"), member("b"))
    placed, failed = world.run()
    assert placed == []
    assert set(failed) == {"a", "b"}
    assert all("internal error" in message for message in failed.values())


def test_groups_are_off_by_default() -> None:
    world = World("4")
    world.engine = Engine(default_config(release_named("1.37")), clock=lambda: world.now)
    world.add(make_node("n").capacity(cpu="4", memory="9Gi", pods=9).obj(), group(1), member("a"))
    placed, failed = world.run()
    assert placed == []
    assert "they need the feature gate GenericWorkload" in failed["a"]
