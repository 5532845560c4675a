"""DecisionLock: the lock that a decision holds while it spans several steps of the event loop.

A synchronous attempt runs within one step and needs no lock. An attempt that awaits extenders or pauses, and a batch
session do: they read the node table from beginning to end, so nothing else may change it meanwhile. While the lock is
held, object events are deferred. To undo an assumption, replace plugins or make another decision, wait for the lock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from mooring.checkpoints import checkpoint
from mooring.unexpected_errors import report_unexpected

#: The number of deferred calls from which `throttle` waits. All of them together take a fraction of a second.
MAX_DEFERRED: Final = 10_000


class DecisionLock:
    """A fair lock for one event loop that also defers calls until it is released."""

    __slots__ = ("_deferred", "_released", "_waiters", "held", "on_release")

    def __init__(self) -> None:
        #: Whether a decision is in progress. Check it before every synchronous attempt.
        self.held = False
        #: Called after each release, once the deferred calls have been made.
        self.on_release: Callable[[], None] | None = None
        self._deferred: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        #: Set at each release, for those who wait in `throttle`.
        self._released: asyncio.Event | None = None

    def take(self) -> None:
        """Acquire the lock within this step of the loop. Raises RuntimeError if it is held."""
        if self.held:
            raise RuntimeError("another decision is in progress")
        self.held = True

    async def acquire(self) -> None:
        """Acquire the lock. Waiters acquire it in order of arrival."""
        if not self.held:
            self.held = True
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()  # the lock was passed to this waiter just before the cancellation
            raise

    def release(self) -> None:
        """Make the deferred calls, then pass the lock to the next waiter. Exceptions of deferred calls are reported."""
        while self._deferred:
            checkpoint()
            function, arguments = self._deferred.popleft()
            try:
                function(*arguments)
            except Exception as error:
                report_unexpected("a deferred change failed", error)
        self.held = False
        if self._released is not None:
            self._released.set()
            self._released = None
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self.held = True
                waiter.set_result(None)
                break
        if self.on_release is not None:
            self.on_release()

    def defer(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function when the lock is released, or now if it is free."""
        if self.held:
            self._deferred.append((function, arguments))
        else:
            function(*arguments)

    async def throttle(self) -> None:
        """Wait until the lock is released if too many calls are deferred.

        Those who defer calls in large numbers wait here, so that a flood of them neither fills the memory nor delays
        the loop when all are made at once.
        """
        while self.held and len(self._deferred) >= MAX_DEFERRED:
            if self._released is None:
                self._released = asyncio.Event()
            await self._released.wait()

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()
