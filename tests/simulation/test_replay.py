"""Replays of recorded engines: random inputs, Permit, failed binds, extenders, a reload; and invalid recordings."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.pod import Pod
from mooring.config import PluginSpec, SchedulerConfiguration, default_config, load_config
from mooring.framework import PermitWait, Plugin, Status
from mooring.framework.api_clients import Binding
from mooring.framework.points import points_of
from mooring.live.recording import LiveRecording
from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup
from mooring.recording.recording_file import RecordingWriter
from mooring.recording.records import Header, Kind, RecordingError
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt, PendingAttempt
from mooring.scheduler.extenders import Extenders
from mooring.scheduler.extenders.request import Reply, Request
from mooring.scheduler.profiles import swap
from mooring.scheduler.recorded_engine import RecordedEngine
from mooring.simulation.replay import ReplayResult, replay
from mooring.testing import make_node, make_pod
from tests.scheduler.test_pod_group_cycle import TOPOLOGY, group, grouped, in_rack

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
HELD = f"{HEAD}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: Hold}}]}}}}}}]\n"
_GANG_PLUGINS = "{multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}}"
GANGS = f"{HEAD}profiles: [{{plugins: {_GANG_PLUGINS}}}]\n"
EXTENDED = f"{HEAD}extenders: [{{urlPrefix: 'http://example.com', filterVerb: filter, nodeCacheCapable: true}}]\n"


class Hold(Plugin):
    """Keeps pods named ``held-...`` waiting at Permit for ten seconds."""

    name = "Hold"

    def permit(self, state: Any, pod: Pod, node_name: str) -> Any:
        return PermitWait(10.0) if pod.name.startswith("held") else None


class Cluster:
    """A recorded engine, whose clock and API server the test plays."""

    def __init__(
        self,
        folder: Path,
        config: SchedulerConfiguration,
        plugins: dict[str, type[Plugin]] | None = None,
        reply: Callable[[Request], Reply] | None = None,
    ) -> None:
        self.now = 1000.0
        self.failing: set[str] = set()
        self._plugins = plugins or {}
        self.recording = LiveRecording(folder, config, seed=5, clock=lambda: self.now)

        async def send(request: Request) -> Reply:
            assert reply is not None
            await asyncio.sleep(0)
            return reply(request)

        self.engine = RecordedEngine(
            config,
            inputs=self.recording.inputs,
            describe=lambda config: self.recording.describe(config, plugins=tuple),
            plugins=self._plugins,
            rng=self.recording.rng,
            binder=self,
            extenders=Extenders(config.extenders, self.recording.inputs.send(send)),
            evicts_later=True,
        )
        self._binds: list[tuple[asyncio.Task[FailedAttempt | None], AssumedPod]] = []

    def bind(self, binding: Binding) -> Status | None:
        return Status.error("conflict") if binding.name in self.failing else None

    async def step(self) -> None:
        """Run what is ready, and bind concurrently."""
        self.engine.tick()
        while self.engine.ready:
            self.now += 0.001
            outcome = self.engine.schedule_one()
            if isinstance(outcome, PendingAttempt):
                outcome = await self.engine.complete(outcome)
            if isinstance(outcome, AssumedPod):
                self._binds.append((asyncio.create_task(self.engine.bind(outcome)), outcome))
            elif isinstance(outcome, FailedAttempt):
                self._evict(outcome)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task, assumed in [each for each in self._binds if each[0].done()]:
            self._binds.remove((task, assumed))
            if task.result() is None:
                self.engine.put(assumed.pod)

    def _evict(self, failed: FailedAttempt) -> None:
        preemptor = failed.queued.uid
        for uid in failed.victims:
            self.engine.evicts_last(preemptor, uid)
            self.engine.remove(self.engine.cache.table.pods[uid].pod)
        if failed.victims:
            self.engine.end_preemption(preemptor)

    def replayed(self) -> ReplayResult:
        for task, _ in self._binds:
            task.cancel()
        self.recording.close()
        return replay(self.recording.writer.path, plugins=self._plugins)


def pod(name: str, cpu: int = 1, priority: int = 0) -> Pod:
    return make_pod(name).uid(name).req({"cpu": cpu}).priority(priority).obj()


def nodes(cluster: Cluster, count: int) -> None:
    for number in range(count):
        cluster.engine.put(make_node(f"n{number}").capacity({"cpu": 8, "pods": 20}).obj())


def held_config() -> SchedulerConfiguration:
    return load_config(HELD, source="held", plugins={"Hold": PluginSpec("Hold", points=points_of(Hold))})


@pytest.mark.parametrize("seed", range(5))
async def test_random_inputs_are_repeated(tmp_path: Path, seed: int) -> None:
    """Pods arrive, wait at Permit, fail to bind, preempt others and are deleted; nodes come and go; time passes."""
    rng = random.Random(seed)
    cluster = Cluster(tmp_path, held_config(), {"Hold": Hold})
    nodes(cluster, 4)
    for number in range(120):
        name = f"{rng.choice(['plain', 'held'])}-{number}"
        if rng.random() < 0.1:
            cluster.failing.add(name)
        cluster.engine.put(pod(name, rng.choice([1, 1, 2, 5, 9]), rng.choice([0, 0, 0, 100])))
        if rng.random() < 0.3:
            placed = sorted(cluster.engine.cache.table.pods)
            if placed:
                cluster.engine.remove(cluster.engine.cache.table.pods[rng.choice(placed)].pod)
        if rng.random() < 0.05:
            cluster.engine.put(make_node(f"late-{number}").capacity({"cpu": 8, "pods": 20}).obj())
        for waiting in list(cluster.engine.profiles.waiting_pods):
            if rng.random() < 0.05:
                cluster.engine.cancel_binding(waiting.pod.uid, "DefaultPreemption")
        cluster.now += rng.choice([0.01, 0.5, 3.0, 40.0])
        await cluster.step()
    result = await asyncio.to_thread(cluster.replayed)
    assert result.differences == []
    assert result.placed > 20
    assert result.failed > 5


@pytest.mark.parametrize("seed", range(3))
async def test_gangs_at_permit_are_repeated(tmp_path: Path, seed: int) -> None:
    """Gangs that fit in part are rejected and retried; nodes and other pods come and go."""
    rng = random.Random(seed)
    cluster = Cluster(tmp_path, load_config(GANGS, source="gangs"))
    for name in "abc":
        head = {"name": name, "namespace": "default"}
        cluster.engine.put(msgspec.convert({"metadata": head, "spec": {"minMember": 4}}, PodGroup))
    nodes(cluster, 1)
    for number in range(60):
        gang = rng.choice("abc")
        cluster.engine.put(make_pod(f"{gang}-{number}").uid(f"{gang}-{number}").label({LABEL: gang}).req(cpu="3").obj())
        if rng.random() < 0.1:
            cluster.engine.put(make_node(f"late-{number}").capacity({"cpu": 8, "pods": 20}).obj())
        cluster.now += rng.choice([0.01, 0.5, 3.0, 70.0])
        await cluster.step()
    result = await asyncio.to_thread(cluster.replayed)
    assert result.differences == []
    assert result.placed > 5
    assert result.failed > 50


async def test_a_reload_of_the_configuration_is_repeated(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, default_config())
    nodes(cluster, 3)
    cluster.engine.put(pod("before"))
    await cluster.step()
    swap(cluster.engine, load_config(f"{HEAD}profiles: [{{schedulerName: other}}]\n", source="other"), {}, {})
    cluster.engine.put(pod("abandoned"))
    cluster.engine.put(make_pod("after").uid("after").scheduler("other").obj())
    await cluster.step()
    result = await asyncio.to_thread(cluster.replayed)
    assert (result.different, result.placed) == (0, 2)


async def test_replies_of_extenders_are_repeated(tmp_path: Path) -> None:
    """The extender accepts one node at random, which a replay cannot know otherwise."""
    rng = random.Random(2)

    def reply(request: Request) -> Reply:
        return Reply(msgspec.json.encode({"nodenames": [f"n{rng.randrange(4)}"]}))

    cluster = Cluster(tmp_path, load_config(EXTENDED, source="extended"), reply=reply)
    nodes(cluster, 4)
    for number in range(12):
        cluster.engine.put(pod(f"p{number}"))
        await cluster.step()
    result = await asyncio.to_thread(cluster.replayed)
    assert result.differences == []
    assert result.placed == 12


async def test_another_decision_is_reported(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, held_config(), {"Hold": Hold})
    nodes(cluster, 2)
    cluster.engine.put(pod("held-1"))
    await cluster.step()
    cluster.recording.inputs.add((Kind.PUT, cluster.now, "Pod", pod("unexpected", priority=5)))
    cluster.engine.put(pod("second"))
    await cluster.step()
    result = await asyncio.to_thread(cluster.replayed)
    assert result.different == 1
    assert result.differences[0].pod == "default/second"
    assert "pod unexpected" in result.differences[0].replayed


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((Kind.PUT, 1.0, "Pod", {"spec": 7}), "invalid Pod"),
        ((Kind.ATTEMPT, 1.0, {"uid": 7}), "invalid attempt"),
        ((Kind.ATTEMPT, 1.0), "invalid attempt"),
        ((Kind.BIND_FAILED, 1.0, "u"), None),
        ((Kind.RELOAD, 1.0, 3), "invalid header"),
        ((Kind.EVICTION_FAILED, 1.0), "invalid record"),
        ((99, 1.0), "unknown kind of record"),
        ((Kind.TICK, "now"), "unknown kind of record"),
    ],
)
def test_an_invalid_recording_is_refused_in_one_line(
    tmp_path: Path, record: tuple[Any, ...], message: str | None
) -> None:
    recording = LiveRecording(tmp_path, default_config())
    recording.writer.add(record)
    recording.close()
    with pytest.raises(RecordingError, match=message):
        replay(recording.writer.path)


def test_a_recording_of_another_scheduler_has_no_decisions_to_repeat(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a.mooring", Header(source="mooring record"), time=1.0)
    writer.close()
    with pytest.raises(RecordingError, match="no decisions of Mooring to repeat; --compare"):
        replay(writer.path)


async def test_groups_are_repeated(tmp_path: Path) -> None:
    """Gangs in racks, of several sizes and priorities: they are placed, rejected, and preempt others."""
    rng = random.Random(3)
    cluster = Cluster(tmp_path, default_config(TOPOLOGY))
    for number in range(9):
        node = make_node(f"n{number}").capacity({"cpu": 4, "pods": 20}).label(rack=f"r{number % 3}")
        cluster.engine.put(node.obj())
    for number in range(25):
        size, priority, name = rng.randrange(1, 6), rng.choice([0, 0, 10]), f"g{number}"
        cluster.engine.put(
            (in_rack if rng.random() < 0.7 else group)(rng.randrange(1, size + 1), name, priority=priority)
        )
        for index in range(size):
            member = make_pod(f"{name}-{index}").uid(f"{name}-{index}").req({"cpu": rng.choice([1, 2])})
            cluster.engine.put(grouped(member.priority(priority), name))
        cluster.now += rng.choice([0.01, 3.0, 40.0])
        await cluster.step()
    result = await asyncio.to_thread(cluster.replayed)
    assert result.differences == []
    assert result.placed > 10
    assert result.failed > 5


async def test_extenders_filter_the_pods_of_a_group(tmp_path: Path) -> None:
    def reply(request: Request) -> Reply:
        given = msgspec.json.decode(request.body())["NodeNames"]
        return Reply(msgspec.json.encode({"nodenames": [name for name in given if name == "n2"]}))

    config = load_config(EXTENDED, source="extended", release=TOPOLOGY)
    cluster = Cluster(tmp_path, config, reply=reply)
    for number in range(4):
        node = make_node(f"n{number}").capacity({"cpu": 8, "pods": 20}).label(rack=f"r{number % 2}")
        cluster.engine.put(node.obj())
    cluster.engine.put(in_rack(3))
    for index in range(3):
        cluster.engine.put(grouped(make_pod(f"p{index}").uid(f"p{index}").req({"cpu": 1})))
    await cluster.step()
    placed = {info.pod.node_name for info in cluster.engine.cache.table.pods.values()}
    assert (placed, len(cluster.engine.cache.table.pods)) == ({"n2"}, 3)
    result = await asyncio.to_thread(cluster.replayed)
    assert result.differences == []
