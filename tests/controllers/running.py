"""A context manager that runs a coroutine during a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from tests.waiting import PATIENCE


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None], ready: asyncio.Event) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(ready.wait())
    try:
        await asyncio.wait({task, waiting}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert waiting.done(), task
        yield
    finally:
        waiting.cancel()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
