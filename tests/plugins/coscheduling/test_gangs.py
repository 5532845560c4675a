"""Gangs under Coscheduling in an engine: they start as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from mooring.api.pod import Pod
from mooring.config import load_config
from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup, group_key
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue import Place
from mooring.testing import PodBuilder, make_node, make_pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}}
"""
#: More attempts than a gang needs without the passing of time or an event.
MANY = 200
#: Longer than the longest backoff.
BACKOFF = 12


def group(name: str, members: int) -> PodGroup:
    raw = {"metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": members}}
    return msgspec.convert(raw, PodGroup)


def member(name: str, of: str = "g") -> PodBuilder:
    return make_pod(name).uid(f"uid-{name}").label({LABEL: of}).req(cpu="1")


class World:
    """An engine, and the binding cycles that it starts."""

    def __init__(self, *objects: Any) -> None:
        self.now = 1_000_000.0
        self.engine = Engine(load_config(CONFIG, source="test"), clock=lambda: self.now)
        self.attempts: list[str] = []
        self.bound: dict[str, Pod] = {}
        #: The pods whose binding cycles do not run yet: the event loop may run further attempts before.
        self.assumed: list[AssumedPod] = []
        #: Groups of which pods were allowed, with the number of these at that time.
        self.started: dict[str, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.put(*objects)

    def put(self, *objects: Any) -> None:
        for each in objects:
            self.engine.put(each.obj() if hasattr(each, "obj") else each)

    def node(self, name: str, cpu: str) -> None:
        self.put(make_node(name).capacity(cpu=cpu, memory="64Gi", pods="100"))

    def try_once(self) -> None:
        outcome = self.engine.schedule_one()
        if isinstance(outcome, AssumedPod):
            self.assumed.append(outcome)
            if not outcome.waits:  # it has completed its group
                key = group_key(outcome.pod)
                waiting = self.engine.profiles.waiting_pods
                allowed = [each.pod for each in waiting if each.verdict is not None and each.verdict.is_success]
                together = {pod.uid for pod in (outcome.pod, *allowed) if group_key(pod) == key}
                self.started.setdefault(key, len(together))
        if isinstance(outcome, AssumedPod | FailedAttempt):
            self.attempts.append(outcome.queued.pod.name)

    def try_ready(self) -> None:
        """Try pods until none is ready."""
        already = len(self.attempts)
        while self.engine.ready:
            self.try_once()
            assert len(self.attempts) < already + MANY, "pods are tried without end"

    async def bind(self) -> None:
        """Let the binding cycles go on."""
        self._tasks += [asyncio.ensure_future(self._bind(each)) for each in self.assumed]
        self.assumed.clear()
        for _ in range(5):
            await asyncio.sleep(0)

    async def _bind(self, assumed: AssumedPod) -> None:
        if await self.engine.bind(assumed) is None:
            self.bound[assumed.pod.name] = assumed.pod
            self.engine.put(assumed.pod)

    async def settle(self) -> None:
        """Go on until nothing happens any more without the passing of time or an event."""
        already = len(self.attempts)
        while self.engine.ready or self.assumed:
            self.try_ready()
            await self.bind()
            assert len(self.attempts) < already + MANY, "pods are tried without end"

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 2)):
            self.now += 0.5
            self.engine.tick()
            await self.settle()

    def place(self, name: str) -> Place | None:
        found = self.engine.queue.find(f"default/{name}")
        return found[0] if found is not None else None

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()


# Started as a whole


async def test_a_pod_that_was_rejected_at_permit_does_not_count(world: World) -> None:
    """Its binding cycle notices that later than the next attempts, for example while a report is being written."""
    world.put(group("g", 4), *(member(name) for name in "abcd"))
    world.node("small", "1500m")
    world.try_ready()
    assert world.assumed[0].pod.name == "a"
    world.node("large", "96")
    world.try_ready()
    assert world.started == {}
    await world.settle()
    await world.pass_time(BACKOFF)
    assert world.started == {"default/g": 4}
    assert sorted(world.bound) == ["a", "b", "c", "d"]


async def test_a_pod_that_waited_too_long_does_not_count(world: World) -> None:
    world.put(group("g", 3), *(member(name) for name in "abc"))
    world.node("two", "2")
    world.try_ready()
    world.now += 61
    world.engine.tick()
    world.node("large", "96")
    world.try_ready()
    assert world.started.get("default/g", 3) == 3
    await world.settle()
    await world.pass_time(BACKOFF)
    assert world.started == {"default/g": 3}
    assert sorted(world.bound) == ["a", "b", "c"]


async def test_a_group_that_is_created_after_its_pods(world: World) -> None:
    world.node("large", "96")
    world.put(*(member(name) for name in "abc"))
    await world.settle()
    assert world.bound == {}
    world.put(group("g", 3))
    await world.settle()
    assert sorted(world.bound) == ["a", "b", "c"]


async def test_pods_that_arrive_one_by_one(world: World) -> None:
    world.node("large", "96")
    world.put(group("g", 3), member("a"))
    await world.settle()
    world.put(make_pod("other").uid("other"))
    world.put(member("b"))
    await world.settle()
    assert set(world.bound) == {"other"}
    world.put(member("c"))
    await world.settle()
    assert set(world.bound) == {"a", "b", "c", "other"}
