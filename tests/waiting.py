"""Wait for what must happen, with a deadline that a busy machine does not miss."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, Final

#: Seconds to wait for what must happen. A wait ends as soon as it happens, so that a long one costs nothing; it is
#: shorter than pytest's limit for a test, so that a failure shows what was waited for.
PATIENCE: Final = 120.0


async def until(condition: Callable[[], Any]) -> Any:
    """Call a function, which may be a coroutine function, until its result is true, and return the result."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = condition()
            found = await found if inspect.isawaitable(found) else found
            if found:
                return found
            await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], Any], *, describe: Callable[[], Any] = lambda: None) -> Any:
    """Call a function until its result is true, and return the result. `describe` tells the state in a failure."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited too long: {describe()}"
        time.sleep(0.01)
    return found
