from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import pytest

from mooring.api import ObjectMeta, Pod
from mooring.controllers.controller_metrics import ControllerMetrics
from mooring.controllers.reconcile_loop import ReconcileLoop
from mooring.controllers.reconciler import Context, ObjectCache, Reconciler, Selection
from mooring.kube import Change, KubeError
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE


class Recorder(Reconciler):
    """Records the keys that it reconciles, and does what the test puts into `outcomes`."""

    name = "recorder"

    def __init__(self) -> None:
        super().__init__(cast(Context, None))
        self.keys: list[str] = []
        self.outcomes: list[Any] = []
        self.entered, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    def selections(self) -> Iterable[Selection]:
        return ()

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        return ()

    async def reconcile(self, key: str) -> float | None:
        self.keys.append(key)
        self.entered.set()
        await self.gate.wait()
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return cast(float | None, outcome)


@contextlib.asynccontextmanager
async def loop_of(*reconcilers: Reconciler) -> AsyncIterator[ReconcileLoop]:
    loop = ReconcileLoop(ObjectCache(), reconcilers, ControllerMetrics())
    task = asyncio.ensure_future(loop.run())
    try:
        async with asyncio.timeout(PATIENCE):
            yield loop
    finally:
        task.cancel()
        await asyncio.wait({task})


class Unreadable(Recorder):
    """Cannot read objects whose name starts with "bad"."""

    name = "unreadable"

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        if change.object.name.startswith("bad"):
            raise ValueError("not a number")
        return (change.object.name,)


async def test_an_object_that_a_controller_cannot_read_does_not_stop_it() -> None:
    first, second = Unreadable(), Recorder()
    second.affected_keys = lambda change: (change.object.name,)  # type: ignore[method-assign]
    changes = [Change(None, Pod(metadata=ObjectMeta(name=name))) for name in ("a", "bad-1", "bad-2", "b")]
    async with loop_of(first, second) as loop:
        loop.resume()
        with capture_logs() as logs:
            loop.apply(changes)
        await idle(loop)
    assert first.keys == ["a", "b"]
    assert second.keys == ["a", "bad-1", "bad-2", "b"]
    assert [(each["controller"], each["object"]) for each in logs] == [("unreadable", "default/bad-1")]


async def idle(loop: ReconcileLoop) -> None:
    while loop._queue or loop._in_progress:
        await asyncio.sleep(0.001)


async def test_nothing_is_reconciled_before_resume_or_while_paused() -> None:
    recorder = Recorder()
    async with loop_of(recorder) as loop:
        loop.put(recorder, "a")
        await asyncio.sleep(0)
        assert recorder.keys == []
        loop.resume()
        await idle(loop)
        loop.pause()
        loop.put(recorder, "b")
        await asyncio.sleep(0)
        assert recorder.keys == ["a"]


async def test_a_change_during_reconciliation_reconciles_again_afterwards() -> None:
    recorder = Recorder()
    recorder.gate.clear()
    async with loop_of(recorder) as loop:
        loop.resume()
        loop.put(recorder, "a")
        await recorder.entered.wait()
        loop.put(recorder, "a")
        loop.put(recorder, "a")
        assert recorder.keys == ["a"]
        recorder.gate.set()
        await idle(loop)
        assert recorder.keys == ["a", "a"]


@pytest.mark.parametrize("error", [KubeError("conflict"), ValueError("bug")])
async def test_a_failure_is_retried(error: Exception) -> None:
    recorder = Recorder()
    recorder.outcomes = [error]
    async with loop_of(recorder) as loop:
        loop.resume()
        loop.put(recorder, "a")
        while len(recorder.keys) < 2:
            await asyncio.sleep(0.001)
        await idle(loop)
        assert loop._backoffs == {}


async def test_a_delay_reconciles_again() -> None:
    recorder = Recorder()
    recorder.outcomes = [0.01]
    async with loop_of(recorder) as loop:
        loop.resume()
        loop.put(recorder, "a")
        while len(recorder.keys) < 2:
            await asyncio.sleep(0.001)


async def test_objects_of_an_excluded_reconciler_stay_queued() -> None:
    excluded, other = Recorder(), Recorder()
    async with loop_of(excluded, other) as loop:
        loop.put(excluded, "a")
        loop.put(other, "b")
        loop.resume(without=[excluded])
        while not other.keys:
            await asyncio.sleep(0.001)
        assert excluded.keys == []
        loop.resume()
        await idle(loop)
        assert excluded.keys == ["a"]
