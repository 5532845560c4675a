"""What happens to pods meanwhile: deleted, bound by others, nominated and not, while their attempts are under way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from mooring.api.pod import Pod
from mooring.config import PluginSpec, load_config
from mooring.framework import Code, PermitWait, Plugin, PostFilterResult, PreFilterResult, Status
from mooring.framework.points import points_of
from mooring.releases import NEWEST, Release, with_gates
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue import Place
from mooring.testing import make_node, make_pod
from tests.waiting import PATIENCE

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: Custom}]}
"""


class Custom(Plugin):
    """Does what a test sets it to."""

    name = "Custom"

    def setup(self) -> None:
        self.held: dict[str, Any] = {}
        self.unreserved: list[str] = []

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> Any:
        return self.held.get("pre_filter")

    def filter(self, state: Any, pod: Pod, node: Any) -> Any:
        return self.held.get("filter")

    def reserve(self, state: Any, pod: Pod, node_name: str) -> Any:
        return self.held.get("reserve")

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self.unreserved.append(pod.name)

    def permit(self, state: Any, pod: Pod, node_name: str) -> Any:
        return self.held.get("permit")

    def pre_bind_pre_flight(self, state: Any, pod: Pod, node_name: str) -> Any:
        return None if "pre_bind" in self.held else Status.skip()

    async def pre_bind(self, state: Any, pod: Pod, node_name: str) -> Any:
        answer = self.held.get("pre_bind")
        return await answer if isinstance(answer, asyncio.Future) else answer

    def bind(self, state: Any, pod: Pod, node_name: str) -> Any:
        return self.held.get("bind")


class Events:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def record(self, regarding: Any, *, type: str, reason: str, action: str, note: str, related: Any = None) -> None:
        self.notes.append(f"{type} {reason}: {note}")


class World:
    """An engine whose one plugin besides the built-in ones does as it is told."""

    def __init__(self, *objects: Any, release: Release = NEWEST, **answers: Any) -> None:
        specs = {"Custom": PluginSpec("Custom", points_of(Custom), None)}
        self.now = 1000.0
        self.events = Events()
        self.expected: list[tuple[str, str]] = []
        config = CONFIG.replace("enabled: [", "disabled: [{name: DefaultBinder}], enabled: [")
        self.engine = Engine(
            load_config(config, source="test", plugins=specs, release=release),
            plugins={"Custom": Custom},
            clock=lambda: self.now,
            rng=random.Random(0),
            recorder=self.events,
            expect=self._expect,
            evicts_later=True,
        )
        plugin = self.engine.profiles.first.profile.plugins["Custom"]
        assert isinstance(plugin, Custom)
        self.answers, self.unreserved = plugin.held, plugin.unreserved
        self.answers.update(answers)
        self.put(make_node("n").capacity(cpu="2", memory="8Gi", pods="10"), *objects)

    def _expect(self, pod: Pod, node: str) -> Callable[[], Awaitable[None]]:
        self.expected.append((pod.name, node))

        async def end() -> None:
            self.expected.append((pod.name, "ended"))

        return end

    def put(self, *objects: Any) -> None:
        for each in objects:
            self.engine.put(each.obj() if hasattr(each, "obj") else each)

    def decided(self) -> AssumedPod:
        outcome = self.engine.schedule_one()
        assert isinstance(outcome, AssumedPod)
        return outcome

    def failed(self) -> FailedAttempt:
        outcome = self.engine.schedule_one()
        assert isinstance(outcome, FailedAttempt)
        return outcome

    def place(self, name: str) -> Place | None:
        found = self.engine.queue.find(f"default/{name}")
        return found[0] if found is not None else None

    @property
    def on_node(self) -> list[str]:
        return [info.name for info in self.engine.cache.table.pods.values()]


def changed(pod: Pod, **status: Any) -> Pod:
    """The pod as an API server shows it after a change of its status."""
    version = str(int(pod.metadata.resource_version or 0) + 1)
    metadata = msgspec.structs.replace(pod.metadata, resource_version=version)
    return msgspec.structs.replace(pod, metadata=metadata, status=msgspec.structs.replace(pod.status, **status))


def leaving(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z", resource_version="9")
    return msgspec.structs.replace(pod, metadata=metadata)


P = make_pod("p").req(cpu="2").uid("p").obj()
NOMINATED = make_pod("p").req(cpu="1").uid("p").nominated("n").obj()


# A failure that is not for want of room takes the nomination away


@pytest.mark.parametrize(
    ("answers", "cleared"),
    [
        ({"filter": Status.error("broken")}, ""),
        ({"reserve": "no"}, ""),
        ({"permit": Status.error("broken")}, ""),
        ({"filter": Status.unresolvable("never")}, ""),
    ],
    ids=["error", "reserve", "permit", "no room can be made"],
)
def test_what_clears_a_nomination(answers: dict[str, Any], cleared: str) -> None:
    world = World(NOMINATED, **answers)
    assert world.engine.cache.nominator.node_of("p") == "n"
    assert world.failed().nominated_node == cleared
    assert world.engine.cache.nominator.node_of("p") is None


def test_no_nodes_clear_a_nomination() -> None:
    world = World(NOMINATED)
    world.engine.remove(make_node("n").obj())
    assert world.failed().nominated_node == ""


async def test_a_failed_bind_clears_a_nomination() -> None:
    world = World(NOMINATED, bind=Status.error("conflict"))
    failed = await world.engine.bind(world.decided())
    assert failed is not None
    assert failed.nominated_node == ""


def test_a_nominated_node_is_tried_whatever_pre_filter_left() -> None:
    world = World(
        make_node("m").capacity(cpu="2", memory="8Gi", pods="10"), NOMINATED, pre_filter=PreFilterResult.only(["m"])
    )
    assert world.decided().node_name == "n"


# Nominations that end let others in


@pytest.mark.parametrize("how", ["withdrawn", "moved", "deleted"])
@pytest.mark.parametrize(("priority", "woken"), [(5, True), (6, False)])
def test_the_end_of_a_nomination_wakes_those_it_kept_out(how: str, priority: int, woken: bool) -> None:
    rival = make_pod("rival").req(cpu="2").uid("rival").priority(5).nominated("n").gate("later").obj()
    waiting = make_pod("p").req(cpu="3").uid("p").priority(priority).obj()
    world = World(rival, waiting)
    world.failed()
    assert world.place("p") is Place.UNSCHEDULABLE
    if how == "deleted":
        world.engine.remove(rival)
    else:
        world.put(changed(rival, nominated_node_name="" if how == "withdrawn" else "elsewhere"))
    assert (world.place("p") is not Place.UNSCHEDULABLE) == woken


def test_a_withdrawn_nomination_keeps_no_room() -> None:
    world = World(NOMINATED)
    world.put(changed(NOMINATED, nominated_node_name=""))
    assert world.engine.cache.nominator.node_of("p") is None


def test_a_nomination_made_here_survives_an_update_that_does_not_know_of_it() -> None:
    world = World(P)
    world.engine.cache.nominate(P, "n")
    world.put(changed(P, phase="Pending"))
    assert world.engine.cache.nominator.node_of("p") == "n"


# Pods that go while they are on their way to a node


async def test_a_pod_deleted_while_held_at_permit_waits_no_longer() -> None:
    world = World(P, permit=PermitWait(600))
    binding = asyncio.ensure_future(world.engine.bind(world.decided()))
    await asyncio.sleep(0)
    world.engine.remove(P)
    failed = await asyncio.wait_for(binding, PATIENCE)
    assert failed is not None
    assert failed.failure.status.reasons == ("removed",)
    assert world.on_node == []
    assert world.place("p") is None


async def test_a_pod_that_is_told_to_go_while_held_at_permit_waits_no_longer() -> None:
    """Pods with finalizers, as jobs' have, stay for a while after they were deleted."""
    world = World(P, permit=PermitWait(600))
    binding = asyncio.ensure_future(world.engine.bind(world.decided()))
    await asyncio.sleep(0)
    world.put(leaving(P))
    assert await asyncio.wait_for(binding, PATIENCE) is not None
    assert world.on_node == []


async def test_room_of_a_pod_that_goes_while_it_is_bound_is_free_at_once() -> None:
    world = World(P)
    release = asyncio.Event()

    async def slow() -> Status:
        await release.wait()
        return Status.error("pod is being deleted")

    world.answers["bind"] = slow()
    binding = asyncio.ensure_future(world.engine.bind(world.decided()))
    await asyncio.sleep(0)
    other = make_pod("other").req(cpu="2").uid("other").obj()
    world.put(other)
    world.failed()
    assert world.place("other") is Place.UNSCHEDULABLE
    world.put(leaving(P))
    assert world.on_node == []
    assert world.place("other") is not Place.UNSCHEDULABLE
    release.set()
    failed = await binding
    assert failed is not None
    assert world.on_node == []
    world.engine.remove(leaving(P))
    assert world.place("p") is None


def test_a_pod_that_is_on_its_way_out_is_not_tried_and_told_so() -> None:
    world = World(leaving(P))
    assert world.engine.schedule_one() is None
    assert world.events.notes == ["Warning FailedScheduling: skip schedule deleting pod: default/p"]
    assert world.place("p") is None


# Pods bound by another scheduler


async def test_a_pod_that_another_scheduler_binds_elsewhere_counts_there() -> None:
    world = World(make_node("m").capacity(cpu="2", memory="8Gi", pods="10"), P, bind=Status.error("conflict"))
    decided = world.decided()
    elsewhere = "m" if decided.node_name == "n" else "n"
    bound = msgspec.structs.replace(P, spec=msgspec.structs.replace(P.spec, node_name=elsewhere))
    world.put(bound)
    failed = await world.engine.bind(decided)
    assert failed is not None
    row = world.engine.cache.table.row_of[elsewhere]
    assert [info.name for info in world.engine.cache.table.nodes[row].pods] == ["p"]
    assert world.place("p") is None
    assert world.engine.cache.assumed == set()
    world.engine.cache.table.check()


async def test_a_node_that_vanishes_takes_no_assumption_with_it() -> None:
    world = World(P, bind=Status.error("node is gone"))
    decided = world.decided()
    world.engine.remove(make_node("n").obj())
    assert await world.engine.bind(decided) is not None
    assert world.engine.cache.assumed == set()
    world.put(make_node("n").capacity(cpu="2", memory="8Gi", pods="10"))
    world.engine.cache.table.check()
    assert world.on_node == []


# Rejected while held at Permit


async def test_a_pod_rejected_at_permit_leaves_its_node_before_the_next_attempt() -> None:
    """Its binding cycle may notice that only after many attempts."""
    world = World(P, permit=PermitWait(600))
    decided = world.decided()
    other = make_pod("other").req(cpu="2").uid("other").obj()
    world.put(other)
    held = world.engine.profiles.waiting_pods.get("p")
    assert held is not None
    held.reject("Custom", "no")
    assert world.on_node == ["p"]
    world.answers["permit"] = None
    assert world.decided().pod.uid == "other"
    assert (world.on_node, world.place("p")) == (["other"], Place.IN_FLIGHT)
    failed = await world.engine.bind(decided)
    assert failed is not None
    assert failed.failure.message == "0/1 nodes are available: 1 no."
    assert (world.on_node, world.place("p")) == (["other"], Place.UNSCHEDULABLE)
    world.engine.cache.table.check()


async def test_unreserve_runs_once_for_a_pod_rejected_at_permit() -> None:
    world = World(P, permit=PermitWait(600))
    decided = world.decided()
    held = world.engine.profiles.waiting_pods.get("p")
    assert held is not None
    held.reject("Custom", "no")
    assert world.engine.schedule_one() is None
    assert await world.engine.bind(decided) is not None
    assert world.engine.schedule_one() is None
    assert world.unreserved == ["p"]


# Preempted while held at Permit


async def test_a_preempted_pod_held_at_permit_is_tried_again_after_its_back_off() -> None:
    world = World(P, permit=PermitWait(600))
    binding = asyncio.ensure_future(world.engine.bind(world.decided()))
    await asyncio.sleep(0)
    held = world.engine.profiles.waiting_pods.get("p")
    assert held is not None
    held.preempt("DefaultPreemption")
    failed = await binding
    assert failed is not None
    assert failed.failure.status.code is Code.ERROR
    assert failed.failure.message == "waiting on permit for pod: preempted"
    assert world.place("p") is Place.BACKOFF


async def test_a_preempted_pod_whose_volumes_are_not_ready_is_called_back() -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    world = World(P, pre_bind=never)
    binding = asyncio.ensure_future(world.engine.bind(world.decided()))
    while not world.engine.pre_binds.cancel("p", "preempted by DefaultPreemption"):
        await asyncio.sleep(0)
    failed = await binding
    assert failed is not None
    assert failed.failure.status.code is Code.ERROR
    assert failed.failure.message == 'running PreBind plugin "Custom": preempted by DefaultPreemption'
    assert world.place("p") is Place.BACKOFF
    assert world.engine.cache.assumed == set()
    assert not world.engine.pre_binds.cancel("p", "too late")


async def test_a_pod_is_not_called_back_once_its_plugins_are_done() -> None:
    world = World(P, pre_bind=None)
    assert await world.engine.bind(world.decided()) is None
    assert not world.engine.pre_binds.cancel("p", "preempted by DefaultPreemption")


async def test_a_process_that_ends_is_no_preemptor() -> None:
    """Then the binding itself is cancelled, and says so."""
    world = World(P, pre_bind=asyncio.get_running_loop().create_future())
    binding = asyncio.ensure_future(world.engine.bind(world.decided()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    binding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await binding
    assert not world.engine.pre_binds.cancel("p", "too late")


# Room that takes a while to make


def test_a_pod_that_room_is_made_for_stays_out_of_the_queue_until_it_is() -> None:
    """Otherwise any event could bring it back before its victims are seen to go, and it would evict still others."""
    victim = make_pod("victim").req(cpu="2").uid("victim").node("n").obj()
    urgent = make_pod("p").req(cpu="2").uid("p").priority(10).obj()
    world = World(victim, urgent)
    failed = world.failed()
    assert (failed.nominated_node, failed.victims) == ("n", ("victim",))
    bystander = make_pod("bystander").req(cpu="0").uid("bystander").node("n").obj()
    world.put(bystander)
    world.engine.remove(bystander)
    assert world.place("p") is Place.GATED
    world.engine.preempting.pop("p")
    world.engine.remove(victim)
    assert world.place("p") is Place.BACKOFF
    assert world.decided().node_name == "n"


class Evictor(Plugin):
    """Preemption of a user's own: evicts everything on the first node."""

    name = "Evictor"

    def post_filter(self, state: Any, pod: Pod, statuses: Any) -> Any:
        node = self.handle.table.nodes[0]
        victims = tuple(info.pod.uid for info in node.pods)
        return PostFilterResult(node.name, victims), Status()


def test_a_preemptor_of_a_users_own_plugin_is_gated_until_its_victims_are_gone() -> None:
    victim = make_pod("victim").req(cpu="2").uid("victim").node("n").obj()
    urgent = make_pod("p").req(cpu="2").uid("p").obj()
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: Evictor}], disabled: [{name: DefaultPreemption}]}
"""
    specs = {"Evictor": PluginSpec("Evictor", points_of(Evictor), None)}
    loaded = load_config(config, source="test", plugins=specs)
    engine = Engine(loaded, plugins={"Evictor": Evictor}, clock=lambda: 1000.0, evicts_later=True)
    bystander = make_pod("bystander").req(cpu="0").uid("bystander").node("n").obj()
    for each in (make_node("n").capacity(cpu="2", memory="8Gi", pods="10").obj(), victim, urgent):
        engine.put(each)
    failed = engine.schedule_one()
    assert isinstance(failed, FailedAttempt)
    assert (failed.nominated_node, failed.victims) == ("n", ("victim",))
    engine.put(bystander)
    engine.remove(bystander)
    found = engine.queue.find("default/p")
    assert found is not None
    assert (found[0], found[1].gating_plugin) == (Place.GATED, "Evictor")
    engine.preempting.pop("p")
    engine.remove(victim)
    assert isinstance(engine.schedule_one(), AssumedPod)


async def test_a_bind_that_fails_is_undone_only_when_the_lock_is_free() -> None:
    """A batch session, or an attempt that awaits extenders, counts the pod on its node until it is done."""
    world = World(P, bind=Status.error("conflict"))
    decided = world.decided()
    async with world.engine.lock:
        binding = asyncio.ensure_future(world.engine.bind(decided))
        await asyncio.sleep(0.01)
        assert world.on_node == ["p"]
        assert not binding.done()
    failed = await binding
    assert failed is not None
    assert world.on_node == []


async def test_events_are_deferred_while_the_lock_is_held() -> None:
    world = World()
    async with world.engine.lock:
        world.put(make_pod("other").req(cpu="1").uid("other").node("n"))
        world.engine.remove(make_node("n").obj())
        assert (world.on_node, len(world.engine.cache.table)) == ([], 1)
    assert (world.on_node, len(world.engine.cache.table)) == (["other"], 0)


# Where a pod will be is told when its binding takes a while

TOLD = [("p", "n"), ("p", "ended")]


@pytest.mark.parametrize(
    ("answers", "told"),
    [({}, []), ({"pre_bind": None}, TOLD), ({"permit": PermitWait(0)}, TOLD)],
    ids=["quick", "pre_bind", "permit"],
)
async def test_the_expected_node_is_told(answers: dict[str, Any], told: list[tuple[str, str]]) -> None:
    world = World(P, **answers)
    binding = asyncio.ensure_future(world.engine.bind(world.decided()))
    await asyncio.sleep(0)
    world.engine.profiles.waiting_pods.expire(world.now + 1)
    await binding
    assert world.expected == told


@pytest.mark.parametrize("answers", [{"pre_bind": None}, {"permit": PermitWait(0)}], ids=["pre_bind", "permit"])
async def test_the_expected_node_is_not_told_without_the_gate(answers: dict[str, Any]) -> None:
    world = World(P, release=with_gates(NEWEST, {"NominatedNodeNameForExpectation": False})[0], **answers)
    binding = asyncio.ensure_future(world.engine.bind(world.decided()))
    await asyncio.sleep(0)
    world.engine.profiles.waiting_pods.expire(world.now + 1)
    await binding
    assert world.expected == []
