"""The client's own rate limit, in virtual time."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube import Backoff, Priority, RateLimiter
from mooring.kube.request_limits import ConcurrencyLimiter, Waiters
from tests.kube.virtual import run


async def times(limiter: RateLimiter, count: int) -> list[float]:
    loop = asyncio.get_running_loop()
    done: list[float] = []

    async def one() -> None:
        await limiter.acquire()
        done.append(round(loop.time(), 3))

    await asyncio.gather(*(one() for _ in range(count)))
    return done


@pytest.mark.parametrize(
    ("qps", "burst", "expected"),
    [
        (10, 3, [0, 0, 0, 0.1, 0.2, 0.3]),
        (2, 1, [0, 0.5, 1, 1.5, 2, 2.5]),
        (10, 0, [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (0.5, 5, [0, 0, 0, 0, 0, 2]),
        (0, 1, [0] * 6),
        (-1, 1, [0] * 6),
    ],
)
def test_a_burst_then_so_many_a_second(qps: float, burst: int, expected: list[float]) -> None:
    async def main() -> list[float]:
        return await times(RateLimiter(qps, burst, clock=asyncio.get_running_loop().time), 6)

    assert run(main()) == expected


def test_the_bucket_fills_up_to_the_burst_and_no_further() -> None:
    async def main() -> list[float]:
        limiter = RateLimiter(10, 2, clock=asyncio.get_running_loop().time)
        await times(limiter, 4)
        await asyncio.sleep(100)
        return await times(limiter, 4)

    begun = 100.2
    assert run(main()) == pytest.approx([begun, begun, begun + 0.1, begun + 0.2])


def test_binds_go_first_then_status_then_events() -> None:
    async def main() -> list[Priority]:
        limiter = RateLimiter(10, 1, clock=asyncio.get_running_loop().time)
        await limiter.acquire()
        order: list[Priority] = []

        async def one(priority: Priority) -> None:
            await limiter.acquire(priority)
            order.append(priority)

        waiting = [Priority.EVENT, Priority.BIND, Priority.STATUS] * 3
        await asyncio.gather(*(one(priority) for priority in waiting))
        return order

    assert run(main()) == [Priority.BIND] * 3 + [Priority.STATUS] * 3 + [Priority.EVENT] * 3


def test_nobody_starves_though_binds_never_end() -> None:
    async def main() -> tuple[int, int, int]:
        limiter = RateLimiter(100, 1, clock=asyncio.get_running_loop().time)
        counts = dict.fromkeys(Priority, 0)

        async def stream(priority: Priority) -> None:
            while True:
                await limiter.acquire(priority)
                counts[priority] += 1

        tasks = [asyncio.create_task(stream(priority)) for priority in Priority for _ in range(5)]
        await asyncio.sleep(10)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return counts[Priority.BIND], counts[Priority.STATUS], counts[Priority.EVENT]

    binds, status, events = run(main())
    assert binds > 900
    assert min(status, events) >= 30


@given(st.lists(st.tuples(st.sampled_from(Priority), st.booleans()), min_size=1, max_size=40), st.integers(1, 4))
def test_who_leaves_the_queue_takes_nothing_with_it(guests: list[tuple[Priority, bool]], limit: int) -> None:
    async def main() -> None:
        limiter = ConcurrencyLimiter(limit)
        inside = 0
        most = 0

        async def guest(priority: Priority, delay: int) -> None:
            nonlocal inside, most
            await limiter.enter(priority)
            inside += 1
            most = max(most, inside)
            try:
                await asyncio.sleep(delay)
            finally:
                inside -= 1
                limiter.leave()

        tasks = [asyncio.create_task(guest(priority, 1 + index % 3)) for index, (priority, _) in enumerate(guests)]
        await asyncio.sleep(0.5)
        for task, (_, leaves) in zip(tasks, guests, strict=True):
            if leaves:
                task.cancel()
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= limit
        # All places are free again.
        assert [limiter.try_enter() for _ in range(limit + 1)] == [True] * limit + [False]

    run(main())


def test_a_token_handed_to_one_who_just_left_is_not_lost() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        limiter = RateLimiter(1, 1, clock=loop.time)
        await limiter.acquire()
        leaver = asyncio.create_task(limiter.acquire())
        stayer = asyncio.create_task(limiter.acquire())
        # Both the token and the cancellation come in the same moment.
        loop.call_at(1.0, lambda: loop.call_soon(leaver.cancel))
        await stayer
        assert leaver.done()
        return loop.time()

    assert run(main()) <= 2.0


def test_waiters_can_be_counted() -> None:
    async def main() -> None:
        waiters = Waiters()
        assert not waiters
        futures = [waiters.join(Priority.BIND) for _ in range(3)]
        futures[0].cancel()
        assert len(waiters) == 2
        assert waiters.wake()
        assert futures[1].done()
        assert waiters.wake()
        assert not waiters.wake()

    run(main())


def test_backoff_grows_is_bounded_and_jittered() -> None:
    backoff = Backoff(first=1, cap=10, jitter=0.5)
    delays = [backoff.next() for _ in range(100)]
    for delay, whole in zip(delays, itertools.chain([1, 2, 4, 8], itertools.repeat(10)), strict=False):
        assert whole / 2 <= delay <= whole
    assert len(set(delays[4:])) > 90
    backoff.reset()
    assert backoff.next() <= 1
    assert Backoff(tries=10**6).next() <= 30
