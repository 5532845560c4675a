"""The scheduling loop goes on whatever fails: an attempt, a binding cycle, a report, or the loop itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.scheduler import binding, scheduling_loop
from mooring.scheduler.attempt_budget import AttemptBudget
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.scheduling_loop import SchedulingLoop
from mooring.testing import make_node, make_pod
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE


class Reporter:
    def __init__(self) -> None:
        self.bound_pods: list[str] = []
        self.messages: dict[str, str] = {}

    async def flushed(self, uid: str) -> None:
        pass

    def bound(self, assumed: AssumedPod) -> None:
        self.bound_pods.append(assumed.pod.name)

    async def failed(self, failed: FailedAttempt, pod: Pod) -> None:
        self.messages[pod.name] = failed.failure.message


class World:
    def __init__(self, budget: AttemptBudget | None = None) -> None:
        self.engine = Engine(default_config(), budget=budget)
        self.reporter = Reporter()
        self.loop = SchedulingLoop(
            self.engine, self.reporter, evict=self.evict, latest=lambda _key: None, in_flight=lambda: 0
        )
        self.engine.put(make_node("n").capacity(cpu="4", memory="8Gi", pods="10").obj())

    async def evict(self, failed: FailedAttempt) -> None:
        raise AssertionError

    def add(self, name: str) -> None:
        self.engine.put(make_pod(name).req(cpu="1").obj())
        self.loop.wake()

    async def until_bound(self, name: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while name not in self.reporter.bound_pods:
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    task = asyncio.ensure_future(world.loop.run())
    yield world
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(scheduling_loop, "_FAILURE_SECONDS", 0.001)
    async with running(World()) as world:
        yield world


def failing(function: Callable[..., Any], should: Callable[..., bool]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if should(*arguments):
            raise ZeroDivisionError("a bug")
        return function(*arguments, **named)

    return call


async def test_an_attempt_that_raises_fails_only_its_pod(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = world.engine
    monkeypatch.setattr(
        engine, "_assume_and_reserve", failing(engine._assume_and_reserve, lambda queued, *_: queued.pod.name == "bad")
    )
    with capture_logs() as logs:
        world.add("bad")
        world.add("good")
        await world.until_bound("good")
    assert world.reporter.messages == {"bad": "internal error: ZeroDivisionError: a bug"}
    assert [info.pod.name for info in engine.cache.table.pods.values()] == ["good"]
    # It stays in the queue, with backoff.
    assert engine.queue.find("default/bad") is not None
    (line,) = [each for each in logs if each["log_level"] == "error"]
    assert (line["event"], line["pod"]) == ("a scheduling attempt failed", "default/bad")
    assert "in scheduling_cycle" in line["traceback"]


async def test_a_failure_that_cannot_be_recorded_returns_the_pod_to_the_queue(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = world.engine
    is_bad = lambda queued, *_: queued.pod.name == "bad"  # noqa: E731
    monkeypatch.setattr(engine, "_assume_and_reserve", failing(engine._assume_and_reserve, is_bad))
    monkeypatch.setattr(engine, "handle_failure", failing(engine.handle_failure, is_bad))
    world.add("bad")
    world.add("good")
    await world.until_bound("good")
    assert engine.queue.find("default/bad") is not None
    assert world.reporter.messages == {"bad": "internal error: ZeroDivisionError: a bug"}


async def test_a_binding_cycle_that_raises_is_undone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = world.engine
    monkeypatch.setattr(
        "mooring.scheduler.schedule_one.binding.pre_flight",
        failing(binding.pre_flight, lambda _profile, _state, pod, *_: pod.name == "bad"),
    )
    world.add("bad")
    world.add("good")
    await world.until_bound("good")
    assert world.reporter.messages == {"bad": "internal error: ZeroDivisionError: a bug"}
    assert [info.pod.name for info in engine.cache.table.pods.values()] == ["good"]
    assert engine.queue.find("default/bad") is not None


async def test_a_failure_of_the_loop_is_reported_once_and_it_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = True
    queue = world.engine.queue
    monkeypatch.setattr(type(queue), "tick", failing(type(queue).tick, lambda *_: broken))
    with capture_logs() as logs:
        world.add("good")
        async with asyncio.timeout(PATIENCE):
            while not logs:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        broken = False
        await world.until_bound("good")
    errors = [each["event"] for each in logs if each["log_level"] == "error"]
    assert errors == ["the scheduling loop failed"]


async def test_a_report_that_fails_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.reporter, "bound", failing(world.reporter.bound, lambda each: each.pod.name == "bad"))
    with capture_logs() as logs:
        world.add("bad")
        world.add("good")
        await world.until_bound("good")
        async with asyncio.timeout(PATIENCE):
            while not any(each["log_level"] == "error" for each in logs):  # it is reported in a later step
                await asyncio.sleep(0.001)
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["a bound pod cannot be reported"]


async def test_after_too_many_pending_writes_decisions_continue_when_some_are_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = scheduling_loop._MAX_IN_FLIGHT
    monkeypatch.setattr(world.loop, "_in_flight", lambda: pending)
    await asyncio.sleep(0.01)
    world.add("a")
    for pending in (scheduling_loop._MAX_IN_FLIGHT, scheduling_loop._RESUME_IN_FLIGHT):  # noqa: B007 - read above
        world.loop.wake()
        await asyncio.sleep(0.01)
        assert world.reporter.bound_pods == []
    pending = scheduling_loop._RESUME_IN_FLIGHT - 1
    world.loop.wake()
    await world.until_bound("a")


async def test_binding_cycles_share_a_task_which_ends_with_the_loop(world: World) -> None:
    tasks = set()
    for name in ("a", "b", "c"):
        world.add(name)
        await world.until_bound(name)
        tasks |= world.loop._tasks
    assert len(tasks) == 1
    async with asyncio.timeout(PATIENCE):
        await world.loop.finish(10 * PATIENCE)
    assert all(task.done() and not task.cancelled() for task in tasks)


async def test_bound_pods_are_reported_before_the_loop_has_finished(world: World) -> None:
    world.add("a")
    async with asyncio.timeout(PATIENCE):
        while not world.loop._bound:
            await asyncio.sleep(0)
        assert world.reporter.bound_pods == []
        await world.loop.finish(0)
    assert world.reporter.bound_pods == ["a"]


# Attempts that pause at every checkpoint


async def test_other_tasks_run_while_an_attempt_pauses():
    async with running(World(AttemptBudget(slice_seconds=0.0))) as world:
        world.add("a")
        turns = 0
        while "a" not in world.reporter.bound_pods:
            turns += world.engine.lock.held
            await asyncio.sleep(0)
        assert turns > 5


async def test_changes_during_a_pause_apply_after_the_attempt():
    async with running(World(AttemptBudget(slice_seconds=0.0))) as world:
        world.add("a")
        while not world.engine.lock.held:
            await asyncio.sleep(0)
        world.add("b")
        assert world.engine.queue.find("default/b") is None
        await world.until_bound("a")
        await world.until_bound("b")
        assert not world.engine.lock.held


async def test_the_end_of_the_loop_closes_a_paused_attempt():
    async with running(World(AttemptBudget(slice_seconds=0.0))) as world:
        world.add("a")
        while not world.engine.lock.held:
            await asyncio.sleep(0)
    await world.loop.finish(0.0)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not world.engine.lock.held
    assert world.reporter.bound_pods == []
    assert world.engine.cache.table.check() == []
