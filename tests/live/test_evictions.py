"""Preemptions on an engine and a client that counts the DELETEs: no victim is evicted twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from mooring.api.meta import Condition
from mooring.api.pod import Pod
from mooring.config import PluginSpec, load_config
from mooring.framework import PermitWait, Plugin, PostFilterResult, Status
from mooring.framework.api_clients import Binding
from mooring.framework.points import points_of
from mooring.kube import Forbidden, KubeError, NotFound
from mooring.live.evictions import Evictions
from mooring.live.reporter import Reporter
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue import Place
from mooring.testing import make_node, make_pod

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PERMIT = f"{CONFIG}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: Hold}}]}}}}}}]\n"
EVICTOR = """
profiles:
- plugins:
    postFilter: {enabled: [{name: Evictor}], disabled: [{name: DefaultPreemption}]}
    multiPoint: {enabled: [{name: Hold}]}
"""


class Hold(Plugin):
    """Keeps pods named ``held`` waiting at Permit and pods named ``slow`` in PreBind."""

    name = "Hold"

    def permit(self, state: Any, pod: Pod, node_name: str) -> Any:
        return PermitWait(1000.0) if pod.name == "held" else None

    def pre_bind_pre_flight(self, state: Any, pod: Pod, node_name: str) -> Any:
        return None if pod.name == "slow" else Status.skip()

    async def pre_bind(self, state: Any, pod: Pod, node_name: str) -> Any:
        await asyncio.sleep(1000)


class Evictor(Plugin):
    """A custom preemption plugin that evicts everything on the first node."""

    name = "Evictor"

    def post_filter(self, state: Any, pod: Pod, statuses: Any) -> Any:
        node = self.handle.table.nodes[0]
        victims = tuple(info.pod.uid for info in node.pods if info.priority < pod.priority)
        if not victims:
            return Status.unschedulable("no victims")
        return PostFilterResult(node.name, victims), Status()


class Binder:
    """Binds at once; the watch event comes later."""

    async def bind(self, binding: Binding) -> Status | None:
        return None


class Server:
    """The client and the API server in one: counts DELETEs, and carries requests out when the gate is open."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.gate = asyncio.Event()
        #: Set unless the responses to DELETEs are delayed.
        self.responds = asyncio.Event()
        self.responds.set()
        self.deletes: Counter[str] = Counter()
        self.preempted: Counter[str] = Counter()
        #: The fields of the status that were patched, by pod.
        self.patches: list[tuple[str, list[str]]] = []
        #: Errors of the next DELETEs of a pod, by name.
        self.errors: dict[str, list[KubeError]] = {}
        #: Whether a deleted pod keeps running for its grace period.
        self.graceful = False

    async def patch_status(self, kind: Any, name: str, patch: bytes, *, namespace: str) -> None:
        await self.gate.wait()
        self.patches.append((name, sorted(msgspec.json.decode(patch)["status"])))

    async def delete(self, kind: Any, name: str, *, namespace: str, uid: str) -> None:
        await self.gate.wait()
        self.deletes[name] += 1
        if self.errors.get(name):
            raise self.errors[name].pop(0)
        assert self.engine is not None
        pod = self.engine.cache.objects.lister(Pod).get(name, namespace)
        if pod is None or pod.uid != uid:
            raise NotFound(404)
        self.engine.put(leaving(pod)) if self.graceful else self.engine.remove(pod)
        await self.responds.wait()

    def record(self, regarding: Any, **said: Any) -> None:
        if said["reason"] == "Preempted":
            self.preempted[regarding.name] += 1


def leaving(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z", resource_version="9")
    return msgspec.structs.replace(pod, metadata=metadata)


class World:
    """An engine, its evictions and the server."""

    def __init__(self, config: str = CONFIG) -> None:
        classes = {"Hold": Hold, "Evictor": Evictor}
        specs = {name: PluginSpec(name, points_of(each), None) for name, each in classes.items()}
        self.now = 1000.0
        self.server = Server()
        self.engine = Engine(
            load_config(config, source="test", plugins=specs),
            plugins=classes,
            clock=lambda: self.now,
            rng=random.Random(0),
            binder=Binder(),
            evicts_later=True,
        )
        self.server.engine = self.engine
        stand_in: Any = self.server
        self.evictions = Evictions(stand_in, self.engine, Reporter(stand_in, stand_in, lambda: self.now), lambda: 0.0)
        self.bound: dict[str, str] = {}
        self.failures: list[FailedAttempt] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def put(self, *objects: Any) -> None:
        for each in objects:
            self.engine.put(each.obj() if hasattr(each, "obj") else each)

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def decide(self) -> None:
        """Run attempts until the queue is empty; requests go on concurrently."""
        while (outcome := self.engine.schedule_one()) is not None:
            if isinstance(outcome, AssumedPod):
                self.start(self._bind(outcome))
            else:
                assert isinstance(outcome, FailedAttempt)
                self._failed(outcome)
            await asyncio.sleep(0)

    async def _bind(self, assumed: AssumedPod) -> None:
        failed = await self.engine.bind(assumed)
        if failed is not None:
            self._failed(failed)
            return
        self.bound[assumed.pod.name] = assumed.node_name
        spec = msgspec.structs.replace(assumed.pod.spec, node_name=assumed.node_name)
        self.engine.put(msgspec.structs.replace(assumed.pod, spec=spec))

    def _failed(self, failed: FailedAttempt) -> None:
        self.failures.append(failed)
        if failed.failure.result.victims:
            self.start(self.evictions.carry_out(failed))

    async def settle(self, seconds: int = 60) -> None:
        """Let the cluster run for a while."""
        for _ in range(seconds):
            await self.decide()
            for _ in range(20):
                await asyncio.sleep(0)
            self.now += 1.0
            self.engine.queue.tick()

    @property
    def evicting(self) -> set[str]:
        return self.engine.cache.table.evicting


def full_world(nodes: int, per_node: int) -> World:
    world = World()
    world.put(*(make_node(f"n{node}").capacity(cpu=str(per_node), memory="99Gi", pods="99") for node in range(nodes)))
    for node in range(nodes):
        world.put(
            *(make_pod(f"low-{node}-{i}").req(cpu="1").node(f"n{node}").uid(f"v{node}-{i}") for i in range(per_node))
        )
    return world


@pytest.mark.parametrize("graceful", [False, True])
async def test_sixty_preemptors_evict_sixty_pods_once_each(graceful: bool) -> None:
    """Every decision is made before the first eviction is carried out."""
    world = full_world(3, 20)
    world.server.graceful = graceful
    world.put(*(make_pod(f"high-{i}").req(cpu="1").priority(100).uid(f"h{i}") for i in range(60)))
    await world.decide()
    world.server.gate.set()
    await world.settle()
    assert set(world.server.deletes.values()) == {1}
    assert len(world.server.deletes) == 60
    assert set(world.server.preempted.values()) == {1}
    if graceful:
        for pod in world.engine.cache.objects.lister(Pod).list():
            if pod.metadata.deletion_timestamp:
                world.engine.remove(pod)
        await world.settle()
    assert len(world.bound) == 60
    assert len(world.server.deletes) == 60
    assert not world.evicting
    assert not world.engine.preempting


async def test_a_preemptor_waits_for_the_evictions_on_its_nominated_node() -> None:
    """The nomination is not on the API server yet and no victim terminates, so only the marks show the evictions."""
    world = full_world(2, 1)
    world.put(make_pod("high").req(cpu="1").priority(100).uid("h"))
    await world.decide()
    (failed,) = world.failures
    assert len(world.evicting) == 1
    world.engine.preempting.pop("h")
    world.engine.queue.activate(["default/high"])
    await world.decide()
    again = world.failures[1]
    assert again.victims == ()
    assert again.nominated_node is None
    assert "not eligible due to a terminating pod on the nominated node." in again.failure.message
    assert world.engine.cache.nominator.node_of("h") == failed.nominated_node


async def test_a_failed_eviction_is_retried() -> None:
    world = full_world(1, 2)
    world.server.errors = {f"low-0-{i}": [Forbidden(403)] for i in range(2)}
    world.put(*(make_pod(f"high-{i}").req(cpu="1").priority(100).uid(f"h{i}") for i in range(2)))
    await world.decide()
    assert len(world.evicting) == 2
    world.server.gate.set()
    await world.settle()
    assert set(world.server.deletes.values()) == {2}
    assert set(world.server.preempted.values()) == {1}
    assert len(world.bound) == 2
    assert not world.evicting


@pytest.mark.parametrize("broken", ["low-0-0", "low-0-1", "low-0-2"])
async def test_one_of_several_evictions_fails(broken: str) -> None:
    """The marks of the others are removed too if they are not carried out."""
    world = full_world(1, 3)
    world.server.errors = {broken: [Forbidden(403)]}
    world.put(make_pod("high").req(cpu="3").priority(100).uid("h"))
    await world.decide()
    world.server.gate.set()
    await world.settle()
    assert world.bound == {"high": "n0"}
    assert world.server.deletes.pop(broken) == 2
    assert set(world.server.deletes.values()) == {1}
    assert not world.evicting


async def test_a_failed_eviction_wakes_others_that_wait_for_it() -> None:
    """A more important pod takes over a victim that is being evicted already. Its eviction fails."""
    world = full_world(1, 1)
    world.server.errors = {"low-0-0": [Forbidden(403)]}
    world.put(make_pod("high").req(cpu="1").priority(100).uid("h"))
    await world.decide()
    world.put(make_pod("higher").req(cpu="1").priority(200).uid("hh"))
    await world.decide()
    assert [failed.victims for failed in world.failures] == [("v0-0",), ()]
    assert world.failures[1].nominated_node == "n0"
    world.server.gate.set()
    await asyncio.sleep(0)
    assert world.engine.cache.nominator.node_of("h") is None
    await world.settle(20)
    assert world.bound == {"higher": "n0"}
    assert world.server.deletes == {"low-0-0": 2}
    assert ("high", ["nominatedNodeName"]) in world.server.patches


def preemptions(world: World) -> int:
    return sum(bool(failed.victims) for failed in world.failures)


@pytest.mark.parametrize("preemptors", [1, 3])
async def test_evictions_that_always_fail_are_retried_with_a_growing_backoff(preemptors: int) -> None:
    """For example because an admission webhook refuses the DELETEs."""
    world = full_world(1, preemptors)
    world.server.errors = {f"low-0-{i}": [Forbidden(403)] * 1000 for i in range(preemptors)}
    world.put(*(make_pod(f"high-{i}").req(cpu="1").priority(100).uid(f"h{i}") for i in range(preemptors)))
    world.server.gate.set()
    await world.settle(15)
    assert 3 * preemptors <= preemptions(world) <= 4 * preemptors  # after 0, 1, 3, 7 and 15 seconds
    await world.settle(45)
    assert 5 * preemptors <= preemptions(world) <= 8 * preemptors  # then every 10 seconds
    assert not world.bound
    assert not world.server.preempted
    assert not world.engine.preempting
    world.server.errors.clear()
    await world.settle(20)
    assert len(world.bound) == preemptors


async def test_the_condition_of_a_victim_is_written_once() -> None:
    world = full_world(1, 1)
    world.server.errors = {"low-0-0": [Forbidden(403)] * 3}
    world.put(make_pod("high").req(cpu="1").priority(100).uid("h"))
    world.server.gate.set()
    await world.settle(2)
    message = "default-scheduler: preempting to accommodate a higher priority pod"
    victim = world.engine.cache.objects.lister(Pod).get("low-0-0", "default")
    assert victim is not None
    said = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message=message)
    world.put(msgspec.structs.replace(victim, status=msgspec.structs.replace(victim.status, conditions=(said,))))
    await world.settle(20)
    assert world.bound == {"high": "n0"}
    assert world.server.deletes == {"low-0-0": 4}
    written = [patch for patch in world.server.patches if patch[0] == "low-0-0"]
    assert len(written) < 4


@pytest.mark.parametrize("graceful", [False, True])
async def test_a_preemptor_is_gated_until_its_last_victim_terminates(graceful: bool) -> None:
    world = full_world(1, 2)
    world.server.graceful = graceful
    world.put(make_pod("high").req(cpu="2").priority(100).uid("h"))
    await world.decide()
    for _ in range(20):
        world.engine.queue.activate(["default/high"])
        await world.decide()
    assert len(world.failures) == 1
    found = world.engine.queue.find("default/high")
    assert found is not None
    assert found[0] is Place.GATED
    world.server.gate.set()
    await world.settle(3)
    world.engine.queue.activate(["default/high"])
    await world.decide()
    assert (len(world.failures) == 2) is graceful  # it may try again while its victims terminate
    assert set(world.server.deletes.values()) == {1}


async def test_a_late_response_does_not_open_the_gate_of_the_next_preemption() -> None:
    world = full_world(2, 1)
    world.server.responds.clear()
    world.put(make_pod("high").req(cpu="1").priority(100).uid("h"))
    await world.decide()
    world.server.gate.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(world.server.deletes) == 1, "the victim is gone, but the response is late"
    (freed,) = {"n0", "n1"} - {info.pod.node_name for info in world.engine.cache.table.pods.values()}
    world.put(make_pod("taker").req(cpu="1").priority(200).node(freed).uid("t"))
    world.engine.queue.activate(["default/high"])
    world.server.gate.clear()
    await world.decide()
    assert [len(failed.victims) for failed in world.failures] == [1, 1]
    world.server.responds.set()
    for _ in range(20):
        await asyncio.sleep(0)
    world.engine.queue.activate(["default/high"])
    found = world.engine.queue.find("default/high")
    assert found is not None
    assert found[0] is Place.GATED
    world.server.gate.set()
    await world.settle(5)
    assert len(world.bound) == 1
    assert not world.engine.preempting


async def test_a_victim_that_was_allowed_a_moment_ago_is_deleted() -> None:
    """It no longer waits at Permit, and is bound soon."""
    world = World(PERMIT)
    world.server.gate.set()
    world.put(make_node("n0").capacity(cpu="1", memory="9Gi", pods="9"))
    world.put(make_pod("held").req(cpu="1").uid("v"))
    await world.decide()
    await asyncio.sleep(0)
    waiting = world.engine.profiles.waiting_pods.get("v")
    assert waiting is not None
    world.put(make_pod("high").req(cpu="1").priority(100).uid("h"))
    failed = world.engine.schedule_one()
    assert isinstance(failed, FailedAttempt)
    waiting.allow("Hold")
    await world.evictions.carry_out(failed)
    assert world.server.deletes == {"held": 1}
    await world.settle(3)
    assert world.bound["high"] == "n0"
    assert not world.evicting


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("held", "waiting on permit for pod: preempted"),
        ("slow", 'running PreBind plugin "Hold": preempted by {plugin}'),
    ],
)
@pytest.mark.parametrize("plugin", ["DefaultPreemption", "Evictor"])
async def test_a_victim_that_is_not_bound_yet_returns_to_the_queue(plugin: str, name: str, message: str) -> None:
    """The message names the plugin that chose it, and the pod can be preempted again later."""
    world = World(PERMIT if plugin == "DefaultPreemption" else CONFIG + EVICTOR)
    world.server.gate.set()
    world.put(make_node("n0").capacity(cpu="1", memory="9Gi", pods="9"))
    world.put(make_pod(name).req(cpu="1").uid("v"))
    await world.decide()
    await asyncio.sleep(0.01)
    world.put(make_pod("high").req(cpu="1").priority(100).uid("h"))
    await world.settle(3)
    assert world.bound == {"high": "n0"}
    first = next(each for each in world.failures if each.queued.uid == "v")
    assert first.failure.message == message.format(plugin=plugin)
    assert not world.server.deletes
    assert world.server.preempted == {name: 1}
    assert not world.evicting


async def test_a_custom_plugin_cannot_evict_a_victim_twice() -> None:
    world = World(CONFIG + EVICTOR)
    world.put(make_node("n0").capacity(cpu="1", memory="9Gi", pods="9"))
    world.put(make_pod("low").req(cpu="1").node("n0").uid("v"))
    world.put(*(make_pod(f"high-{i}").req(cpu="1").priority(100).uid(f"h{i}") for i in range(3)))
    await world.decide()
    assert [failed.victims for failed in world.failures] == [("v",), (), ()]
