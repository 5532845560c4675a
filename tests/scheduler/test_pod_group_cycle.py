"""The scheduling cycle of a PodGroup of scheduling.k8s.io."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from mooring.api.meta import ObjectMeta
from mooring.api.pod import Pod, PodSchedulingGroup
from mooring.api.scheduling import (
    BasicSchedulingPolicy,
    GangSchedulingPolicy,
    NativePodGroup,
    NativePodGroupSpec,
    PodGroupResourceClaim,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    TopologyConstraint,
)
from mooring.config import default_config
from mooring.config.model import Extender
from mooring.releases import Release, release_named, with_gates
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt, PendingAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.extenders import Extenders, Reply, Request, Send
from mooring.scheduler.queue import Place
from mooring.testing import make_node, make_pod
from mooring.testing.pod_builder import PodBuilder
from tests.plugins.device_world import allocated, claim, gpu_class, gpu_slice

RELEASE = with_gates(release_named("1.37"), {"GenericWorkload": True})[0]
TOPOLOGY = with_gates(RELEASE, {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True})[0]


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
    return grouped(builder, of)


def grouped(builder: PodBuilder, of: str = "g") -> Pod:
    pod = builder.obj()
    spec = msgspec.structs.replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name=of))
    return msgspec.structs.replace(pod, spec=spec)


class World:
    def __init__(self, *cpus: str, release: Release = RELEASE, send: Send | None = None, **settings: Any) -> None:
        self.now = 1000.0
        config = msgspec.structs.replace(default_config(release), **settings)
        extenders = None if send is None else Extenders(config.extenders, send)
        self.engine = Engine(config, clock=lambda: self.now, rng=random.Random(0), extenders=extenders)
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


GROUP_CLAIMS = with_gates(RELEASE, {"GenericWorkload": True, "DRAWorkloadResourceClaims": True})[0]


def claiming(name: str) -> Pod:
    return grouped(make_pod(name).req(cpu="1").resource_claim("c", "shared"))


def test_the_pods_of_a_group_share_its_claim() -> None:
    world = World("4", "4", release=GROUP_CLAIMS)
    claims = (PodGroupResourceClaim(name="c", resource_claim_name="shared"),)
    world.add(gpu_class(), gpu_slice("n0", 1), claim(name="shared"))
    world.add(group(2, resource_claims=claims), claiming("a"), claiming("b"))
    assert world.run() == (["a", "b"], {})


def test_a_claim_of_a_group_that_cannot_be_scheduled_is_given_up() -> None:
    world = World("4", release=GROUP_CLAIMS)
    claims = (PodGroupResourceClaim(name="c", resource_claim_name="shared"),)
    user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
    gone = {**allocated("gpu-0", pool="gone"), "reservedFor": [user]}
    world.add(gpu_class(), gpu_slice("n0", 1), claim(name="shared", status=gone))
    world.add(group(2, resource_claims=claims), claiming("a"), claiming("b"))
    assert world.run()[0] == []
    # NO_VICTIMS is unresolvable, so its message stands alone, as in kube-scheduler.
    assert world.conditions[0][2].endswith(NO_VICTIMS)
    reserved = {**allocated("gpu-0", pool="n0"), "reservedFor": [user]}
    world = World("1", release=GROUP_CLAIMS)
    world.add(gpu_class(), gpu_slice("n0", 1), claim(name="shared", status=reserved))
    world.add(group(2, resource_claims=claims), claiming("a"), claiming("b"))
    assert world.run()[0] == []
    assert world.conditions[0][2].endswith("ResourceClaim unreserved for PodGroup")


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


def test_all_pods_have_the_preemption_policy_of_the_group() -> None:
    world = World("4")
    world.add(group(1, preemption_policy="Never"), member("a"))
    text = (
        "all pods in a single pod group should have the same preemption policy as the pod group's preemption policy, "
        "got PreemptLowerPriority and Never"
    )
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


# Placements


def racks(world: World, *cpus: str, per_rack: int = 1) -> None:
    """Add racks r0, r1 and so on, each with nodes of the same size."""
    for index, cpu in enumerate(cpus):
        for number in range(per_rack):
            node = make_node(f"r{index}-{number}").capacity(cpu=cpu, memory="64Gi", pods=99)
            world.add(node.label(rack=f"r{index}").obj())


def in_rack(minimum: int | None, name: str = "g", **spec: object) -> NativePodGroup:
    constraints = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key="rack"),))
    return group(minimum, name, scheduling_constraints=constraints, **spec)


def racks_of(world: World) -> set[str]:
    return {info.node.labels["rack"] for info in world.engine.cache.table.pods.values() if info.node is not None}


def test_a_constraint_without_the_gate_is_reported() -> None:
    world = World("4")
    world.add(in_rack(1), member("a"))
    text = (
        "PodGroup default/g has spec.schedulingConstraints.topology, which needs the feature gate "
        "TopologyAwareWorkloadScheduling"
    )
    assert world.run() == ([], {"a": text})


def test_all_pods_of_a_group_run_in_one_rack() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "2", "2", "4", per_rack=2)
    world.add(in_rack(6), *(member(f"p{index}") for index in range(6)))
    assert len(world.run()[0]) == 6
    assert racks_of(world) == {"r2"}
    assert world.conditions == [("g", "Scheduled", "")]
    assert world.engine.cache.table.check() == []


def test_the_fullest_rack_with_room_is_preferred() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "8", "8", "8", per_rack=2)
    world.add(make_pod("running").req(cpu="6").node("r1-0").obj())
    world.add(in_rack(4), *(member(f"p{index}", cpu="2") for index in range(4)))
    assert len(world.run()[0]) == 4
    assert {info.node.labels["rack"] for info in world.engine.cache.table.pods.values() if info.node} == {"r1"}


def test_more_pods_count_more_than_a_full_rack() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "2", "16")
    world.add(in_rack(2), *(member(f"p{index}") for index in range(4)))
    assert len(world.run()[0]) == 4
    assert racks_of(world) == {"r1"}


def test_a_group_that_fits_in_no_rack() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "2", "2", "2")
    world.add(in_rack(3), *(member(f"p{index}") for index in range(3)))
    placed, failed = world.run()
    text = (
        "pod group is unschedulable, 0/3 placements are available, first placement status: minCount (3) cannot be "
        f"satisfied: 2 scheduled, 0 remaining, {NO_VICTIMS}"
    )
    assert placed == []
    assert world.conditions == [("g", "Unschedulable", text)]
    assert failed["p0"] == f"pod group is unschedulable, {text}"
    assert failed["p2"] == "0/1 nodes are available: 1 Insufficient cpu."


def test_pods_that_have_a_node_pin_the_rack() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "4", "4", "4")
    world.add(in_rack(1), grouped(make_pod("old").node("r2-0")), member("new"))
    assert world.run() == (["new"], {})
    assert racks_of(world) == {"r2"}


def test_no_node_has_the_label() -> None:
    world = World("4", release=TOPOLOGY)
    world.add(in_rack(1), member("a"))
    assert world.run() == ([], {"a": "no feasible placements found"})
    assert world.conditions == [("g", "Unschedulable", f"no feasible placements found, {NO_VICTIMS}")]


def test_scheduled_pods_without_a_rack_are_an_error() -> None:
    world = World("4", release=TOPOLOGY)
    racks(world, "4")
    world.add(in_rack(1), grouped(make_pod("old").node("n0")), member("new"))
    text = "cannot determine domain for already scheduled pods: no topology domain found for pod default/old"
    assert world.run() == ([], {"new": text})
    assert world.conditions == [("g", "SchedulerError", text)]


@pytest.mark.parametrize("seed", range(6))
def test_all_racks_at_once_decide_as_one_after_the_other(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def story(*, columns: bool) -> tuple[dict[str, str], dict[str, str], list[tuple[str, str, str]]]:
        rng = random.Random(seed)
        if not columns:
            monkeypatch.setattr("mooring.scheduler.pod_group_cycle.search", lambda *_args, **_keywords: None)
        world = World(release=TOPOLOGY, tie_break="stable")
        for number in range(24):
            node = make_node(f"n{number}").capacity(cpu=str(rng.choice((2, 4, 8))), memory="16Gi", pods=9)
            if rng.random() < 0.9:
                node = node.label(rack=f"r{rng.randrange(5)}")
            if rng.random() < 0.2:
                node = node.taint("dedicated", "x", "NoSchedule")
            world.add(node.obj())
        for number in range(8):
            running = make_pod(f"old{number}").req(cpu=str(rng.choice((1, 2)))).node(f"n{rng.randrange(24)}")
            world.add(running.obj())
        failed: dict[str, str] = {}
        for number in range(6):
            size = rng.randrange(1, 8)
            world.add(in_rack(rng.randrange(1, size + 1), f"g{number}"))
            sizes = [rng.choice(("500m", "1", "2")) for _ in range(size)]
            world.add(*(member(f"g{number}-{i}", cpu=cpu, of=f"g{number}") for i, cpu in enumerate(sizes)))
            failed |= world.run()[1]
        assert world.engine.cache.table.check() == []
        placed = {info.pod.name: info.pod.node_name for info in world.engine.cache.table.pods.values()}
        return placed, failed, world.conditions

    assert story(columns=True) == story(columns=False)


@pytest.mark.parametrize("spread", [False, True])
def test_pods_that_need_more_than_amounts_are_tried_rack_by_rack(spread: bool) -> None:
    world = World(release=TOPOLOGY)
    racks(world, "8", "8", per_rack=3)
    pods = []
    for index in range(3):
        pod = make_pod(f"p{index}").req(cpu="1").label(app="a")
        host = "kubernetes.io/hostname"
        pods.append(grouped(pod.spread(host, {"app": "a"}) if spread else pod.pod_anti_affinity(host, {"app": "a"})))
    world.add(in_rack(3), *pods)
    assert len(world.run()[0]) == 3
    assert len(racks_of(world)) == 1
    assert len({info.pod.node_name for info in world.engine.cache.table.pods.values()}) == 3


def test_assumed_pods_pin_the_rack_too() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "4", "4", "4")
    world.add(in_rack(2), member("a"), member("b"))
    assert world.run() == (["a", "b"], {})
    chosen = racks_of(world)
    world.add(member("c"))
    assert world.run() == (["c"], {}), "the bindings of the first two were not observed yet"
    assert racks_of(world) == chosen


async def test_an_extender_call_that_raises_fails_all_pods_of_the_group() -> None:
    """No pod of the group stays popped."""

    async def send(request: Request) -> Reply:
        raise RuntimeError("no such luck")

    extender = Extender(
        url_prefix="http://example.com", filter_verb="filter", node_cache_capable=True, http_timeout=10**9
    )
    world = World("4", send=send, extenders=(extender,))
    world.add(group(2), member("a"), member("b"))
    pending = world.engine.schedule_one()
    assert isinstance(pending, PendingAttempt)
    outcome = await world.engine.complete(pending)
    assert isinstance(outcome, FailedAttempt)
    world.run()
    assert {name: world.place(name) for name in "ab"} == {"a": Place.BACKOFF, "b": Place.BACKOFF}
    assert not world.engine.cache.table.pods
