"""Requests that wait their turn, by importance."""

import asyncio
import enum
from collections import deque
from typing import Final


class Priority(enum.IntEnum):
    """What goes first when not all can go at once."""

    BIND = 0
    STATUS = 1
    EVENT = 2


#: One turn of so many goes to the less important that wait, so that the important never starve them altogether.
_FAIR_TURN: Final = 16


class Waiters:
    """Queues of waiting tasks, one for each priority: first come first served within, important first between."""

    def __init__(self) -> None:
        self._queues: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in Priority)
        self._turns = 0

    def __len__(self) -> int:
        return sum(not each.done() for queue in self._queues for each in queue)

    def __bool__(self) -> bool:
        return any(not each.done() for queue in self._queues for each in queue)

    def join(self, priority: Priority) -> "asyncio.Future[None]":
        """Queue up; the future is done when it is this one's turn. Cancel it to leave."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues[priority].append(future)
        return future

    def wake(self) -> bool:
        """Give the next turn to someone. False if nobody waits."""
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
        # The spare turns go round among the lower priorities.
        first = 1 + fair % (len(self._queues) - 1) if rest == 0 else 0
        return self._queues[first:] + self._queues[:first] if first else self._queues


class Turnstile:
    """Lets so many through at once, the important ones first. Belongs to one event loop."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiters = Waiters()

    def try_enter(self) -> bool:
        """Go through if nobody has to wait; the quick way."""
        if self._free > 0:
            self._free -= 1
            return True
        return False

    async def enter(self, priority: Priority) -> None:
        """Wait for one's turn; a task cancelled while waiting takes none."""
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
        """Make room: the place goes straight to the next who waits, so nobody can push in."""
        if not self._waiters.wake():
            self._free += 1
