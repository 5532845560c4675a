"""Gangs under Coscheduling in an engine: they start as a whole, and those that do not fit are not tried without end."""

from __future__ import annotations

import asyncio
import random
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
        #: Whether binding cycles go on after each attempt, or when no pod is ready.
        self.prompt = False
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
        await self.bind()
        while self.engine.ready or self.assumed:
            if self.prompt:
                self.try_once()
            else:
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


# Not without end


@pytest.mark.parametrize("prompt", [True, False])
async def test_a_gang_that_fits_in_part_is_retried_after_its_backoff(world: World, prompt: bool) -> None:
    world.prompt = prompt
    world.put(group("g", 4), *(member(name) for name in "abcd"))
    world.node("small", "1500m")
    await world.settle()
    first = len(world.attempts)
    assert first <= 8  # each pod, and the one that does not fit next to each of the others
    await world.settle()
    assert len(world.attempts) == first
    await world.pass_time(3)
    assert first < len(world.attempts) <= 3 * first


@pytest.mark.parametrize("prompt", [True, False])
async def test_two_gangs_that_fit_in_part_do_not_wake_each_other_without_end(world: World, prompt: bool) -> None:
    world.prompt = prompt
    for name in "gh":
        world.put(group(name, 3), *(member(f"{name}{number}", name) for number in range(3)))
    world.node("small", "2")
    await world.settle()
    await world.pass_time(3)
    assert len(world.attempts) <= 60
    world.node("large", "96")
    await world.settle()
    await world.pass_time(BACKOFF)
    assert world.started == {"default/g": 3, "default/h": 3}


@pytest.mark.parametrize("prompt", [True, False])
async def test_new_room_starts_a_gang_before_its_backoff_ends(world: World, prompt: bool) -> None:
    world.prompt = prompt
    world.put(group("g", 4), *(member(name) for name in "abcd"))
    world.node("small", "1500m")
    await world.settle()
    world.node("large", "96")
    await world.settle()
    assert sorted(world.bound) == ["a", "b", "c", "d"]


# At random


@pytest.mark.parametrize("seed", range(30))
async def test_gangs_start_as_a_whole_whatever_happens(world: World, seed: int) -> None:
    """Pods and groups come and go, and binding cycles go on later than attempts. In the end there is room for all."""
    rng = random.Random(seed)
    sizes = {name: rng.randint(2, 5) for name in "ghi"}
    pods = [(name, f"{name}{number}") for name, size in sizes.items() for number in range(size)]
    versions = dict.fromkeys((pod for _, pod in pods), 0)
    alive: dict[str, Pod] = {}

    def create(of: str, name: str) -> None:
        versions[name] += 1
        alive[name] = member(name, of).uid(f"{name}-{versions[name]}").obj()
        world.put(alive[name])

    world.node("small", f"{rng.randint(1, 4)}500m")
    missing = list(sizes)
    for _ in range(150):
        of, name = rng.choice(pods)
        match rng.randrange(9):
            case 0 | 1 if name not in alive:
                create(of, name)
            case 2 if name in alive and f"default/{of}" not in world.started:
                world.engine.remove(alive.pop(name))
                if rng.random() < 0.7:
                    create(of, name)
            case 3 if missing:
                world.put(group(found := missing.pop(), sizes[found]))
            case 4:
                await world.bind()
            case 7:
                world.prompt = rng.random() < 0.5
                await world.settle()
            case 5:
                world.now += rng.choice((0.3, 1, 5, 30))
                world.engine.tick()
            case 6:
                number = len(world.attempts)
                world.put(make_pod(f"other-{number}").uid(f"other-{number}").node("small"))
            case _ if world.engine.ready:
                world.try_once()
    world.node("large", "96")
    world.put(*(group(name, sizes[name]) for name in missing))
    for of, name in pods:
        if name not in alive:
            create(of, name)
    await world.settle()
    await world.pass_time(3 * 60)
    assert world.started == {f"default/{name}": size for name, size in sizes.items()}
    assert set(world.bound) == {name for _, name in pods}
