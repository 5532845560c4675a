"""Parts shared by the long-running commands, `mooring run` and `mooring controller`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mooring.kube import Access


def start_logging(flags: Mapping[str, Any]) -> None:
    """Configure logging as the flags say."""
    from mooring.observe.logs import configure_logs

    log_format = flags["logging_format"]
    if log_format not in ("text", "json"):
        raise click.BadParameter(f"{log_format!r}: use text or json", param_hint="--logging-format")
    configure_logs(flags["v"], as_json=log_format == "json")


def log_warnings(warnings: Iterable[str]) -> None:
    """Log each warning."""
    import structlog

    log = structlog.get_logger("mooring")
    for warning in warnings:
        log.warning(warning)


def log_start(message: str, access: Access, **fields: object) -> None:
    """Log that the process starts, and warnings about the access to the cluster."""
    import structlog

    structlog.get_logger("mooring").info(message, **fields, server=access.server, found=access.origin)
    log_warnings(access.warnings)


async def run_until_stopped(work: Coroutine[Any, Any, Any]) -> int:
    """Run ``work`` until SIGINT or SIGTERM and return the exit code. A fatal error is logged."""
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
