"""Limits on requests by priority: a rate limiter and a limit on concurrent requests.

Hand-written because asyncio.Semaphore has no priorities.
"""

import asyncio
import enum
import time
from collections import deque
from collections.abc import Callable
from typing import Final


class Priority(enum.IntEnum):
    """The priority of a request."""

    BIND = 0
    STATUS = 1
    EVENT = 2


#: One in this many turns is reserved for lower priorities, so that they do not starve.
_FAIR_TURN: Final = 16


class Waiters:
    """Queues of waiting tasks, one for each priority, each in FIFO order."""

    def __init__(self) -> None:
        self._queues: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in Priority)
        self._turns = 0

    def __len__(self) -> int:
        return sum(not each.done() for queue in self._queues for each in queue)

    def __bool__(self) -> bool:
        return any(self._queues) and any(not each.done() for queue in self._queues for each in queue)

    def join(self, priority: Priority) -> "asyncio.Future[None]":
        """Return a future that is done on the caller's turn. Cancel it to leave the queue."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues[priority].append(future)
        return future

    def wake(self) -> bool:
        """Wake the next waiting task. Return False if there is none."""
        self._turns += 1
        for queue in self._order():
            while queue:
                future = queue.popleft()
                if not future.done():
                    future.set_result(None)
                    return True
        return False

    def _order(self) -> "tuple[deque[asyncio.Future[None]], ...]":
        fair, rest = divmod(self._turns, _FAIR_TURN)
        # The reserved turns rotate among the lower priorities.
        first = 1 + fair % (len(self._queues) - 1) if rest == 0 else 0
        return self._queues[first:] + self._queues[:first] if first else self._queues


class ConcurrencyLimiter:
    """A limit on concurrent requests, by priority. Not thread-safe."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiters = Waiters()

    def try_enter(self) -> bool:
        """Take a free place if there is one. Never waits."""
        if self._free > 0:
            self._free -= 1
            return True
        return False

    async def enter(self, priority: Priority) -> None:
        """Wait for a free place. A task that is cancelled while waiting takes none."""
        if self.try_enter():
            return
        turn = self._waiters.join(priority)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Free a place, or pass it to the next waiting task."""
        if self._free or not self._waiters.wake():  # no task waits while a place is free
            self._free += 1


class RateLimiter:
    """A token bucket of `burst` tokens, refilled at `qps` per second; tokens are assigned by priority.

    `qps` of 0 or less means no limit. Not thread-safe.
    """

    def __init__(self, qps: float, burst: int = 0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._qps = qps
        self._burst = max(1, burst)
        self._clock = clock
        self._tokens = float(self._burst)
        self._filled_at = clock()
        self._waiters = Waiters()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a token."""
        return len(self._waiters)

    def try_acquire(self, now: float) -> bool:
        """Take a token if there is one and no request waits for it. Never waits. `now` is the time of the clock."""
        # Without a timer, no request waits.
        return self._qps <= 0 or ((self._timer is None or not self._waiters) and self._take(now))

    async def acquire(self, priority: Priority = Priority.STATUS) -> None:
        """Wait for a token. A request that is cancelled while waiting takes none."""
        if self.try_acquire(self._clock()):
            return
        turn = self._waiters.join(priority)
        self._schedule()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # The token was assigned at the same time: put it back.
                self._tokens = min(self._burst, self._tokens + 1)
                self._schedule()
            raise

    def _take(self, now: float) -> bool:
        tokens = self._tokens + (now - self._filled_at) * self._qps
        self._filled_at = now
        # Timers fire early by a rounding error, so slightly less than one token is enough.
        if tokens < 1 - 1e-9:
            self._tokens = tokens
            return False
        self._tokens = (tokens if tokens < self._burst else self._burst) - 1
        return True

    def _schedule(self) -> None:
        if self._timer is None and self._waiters:
            delay = max(0.0, (1 - self._tokens) / self._qps - (self._clock() - self._filled_at))
            self._timer = asyncio.get_running_loop().call_later(delay, self._hand_out)

    def _hand_out(self) -> None:
        self._timer = None
        while self._waiters and self._take(self._clock()):
            self._waiters.wake()
        self._schedule()
