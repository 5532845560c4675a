"""The client's own rate limit: a bucket of `burst` tokens that fills at `qps` a second."""

import asyncio
import time
from collections.abc import Callable

from mooring.kube.waiters import Priority, Waiters


class RateLimiter:
    """Lets at most `burst` requests go at once and `qps` a second after that, the important ones first.

    `qps` of 0 or less means no limit. Belongs to one event loop.
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
        """How many requests wait for a token."""
        return len(self._waiters)

    async def acquire(self, priority: Priority = Priority.STATUS) -> None:
        """Wait for a token. A request that is cancelled while waiting takes none."""
        if self._qps <= 0:
            return
        if not self._waiters and self._take():
            return
        turn = self._waiters.join(priority)
        self._schedule()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # The token had been handed over in the same moment: put it back.
                self._tokens = min(self._burst, self._tokens + 1)
                self._schedule()
            raise

    def _take(self) -> bool:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        # A hair under one token is one: timers wake us a rounding error too early.
        if self._tokens < 1 - 1e-9:
            return False
        self._tokens -= 1
        return True

    def _schedule(self) -> None:
        if self._timer is None and self._waiters:
            delay = max(0.0, (1 - self._tokens) / self._qps - (self._clock() - self._filled_at))
            self._timer = asyncio.get_running_loop().call_later(delay, self._hand_out)

    def _hand_out(self) -> None:
        self._timer = None
        while self._waiters and self._take():
            self._waiters.wake()
        self._schedule()
