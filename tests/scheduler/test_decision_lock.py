"""The decision lock: who waits for it, and what is deferred while it is held."""

from __future__ import annotations

import asyncio

import pytest

from mooring.scheduler.decision_lock import DecisionLock
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE


async def test_waiters_get_the_lock_in_order_of_arrival() -> None:
    lock, order = DecisionLock(), []

    async def decide(name: str) -> None:
        async with lock:
            order.append(name)
            await asyncio.sleep(0)

    await lock.acquire()
    tasks = [asyncio.create_task(decide(name)) for name in "abc"]
    await asyncio.sleep(0)
    assert order == []
    lock.release()
    assert lock.held, "the lock passes to the first waiter without becoming free"
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c"]
    assert not lock.held


async def test_deferred_calls_run_at_release_before_the_next_holder() -> None:
    lock, order = DecisionLock(), []
    lock.defer(order.append, "free")
    assert order == ["free"]

    async def decide() -> None:
        async with lock:
            order.append("next holder")

    async with lock:
        waiting = asyncio.create_task(decide())
        await asyncio.sleep(0)
        lock.defer(order.append, "first")
        lock.defer(order.append, "second")
        assert order == ["free"]
    await waiting
    assert order == ["free", "first", "second", "next holder"]


async def test_a_deferred_call_that_raises_does_not_keep_the_lock() -> None:
    lock, order = DecisionLock(), []
    lock.take()
    lock.defer([].remove, "absent")
    lock.defer(order.append, "later")
    with capture_logs() as logs:
        lock.release()
    assert [each["error"] for each in logs] == ["ValueError: list.remove(x): x not in list"]
    assert not lock.held
    async with lock:
        pass
    assert order == ["later"]


def test_taking_a_held_lock_is_an_error() -> None:
    lock = DecisionLock()
    lock.take()
    with pytest.raises(RuntimeError, match="another decision is in progress"):
        lock.take()


@pytest.mark.parametrize("released_first", [False, True])
async def test_a_cancelled_waiter_does_not_keep_the_lock(released_first: bool) -> None:
    lock = DecisionLock()
    lock.take()
    waiting = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    if released_first:
        lock.release()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not released_first:
        lock.release()
    assert not lock.held


def test_release_notifies_after_the_deferred_calls() -> None:
    lock, order = DecisionLock(), []
    lock.on_release = lambda: order.append("released")
    lock.take()
    lock.defer(order.append, "deferred")
    lock.release()
    assert order == ["deferred", "released"]


async def test_who_defers_too_many_calls_waits_for_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.scheduler.decision_lock.MAX_DEFERRED", 3)
    lock, made = DecisionLock(), list[int]()

    async def flood() -> None:
        for number in range(10):
            lock.defer(made.append, number)
            await lock.throttle()

    await lock.acquire()
    flooding = asyncio.create_task(flood())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not flooding.done()
    assert (made, len(lock._deferred)) == ([], 3)
    lock.release()
    await asyncio.wait_for(flooding, PATIENCE)
    assert made == list(range(10))
