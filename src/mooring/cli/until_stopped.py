"""A program that runs until it is told to end, or may not go on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def until_stopped(work: Coroutine[Any, Any, Any]) -> int:
    """Do the work until SIGINT or SIGTERM; the exit code. The reason of an end that nobody asked for is logged."""
    import structlog

    from mooring.live import LostLeaseError, ServerError

    log = structlog.get_logger("mooring")
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.info("Requested to terminate, exiting")
        return 0
    except (LostLeaseError, ServerError) as error:
        log.error(str(error))
        return 1
    return 0
