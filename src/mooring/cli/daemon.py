"""Parts shared by the long-running commands, `mooring run` and `mooring controller`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mooring.kube import Access

#: The timeout of a graceful stop. By default, Kubernetes kills a container after 30 seconds.
_STOP_SECONDS = 20.0
_STOP, _END = b"s", b"e"


def start_logging(flags: Mapping[str, Any]) -> None:
    """Configure logging by the flags."""
    from mooring.logs import configure_logs

    log_format = flags["logging_format"]
    if log_format not in ("text", "json"):
        raise click.BadParameter(f"{log_format!r}: use text or json", param_hint="--logging-format")
    configure_logs(flags["v"], as_json=log_format == "json")


def log_warnings(warnings: Iterable[str]) -> None:
    """Log each warning."""
    from mooring.logs import get_logger

    log = get_logger("mooring")
    for warning in warnings:
        log.warning(warning)


def log_start(message: str, access: Access, **fields: object) -> None:
    """Log the start of the process, and warnings about the access to the cluster."""
    from mooring.logs import get_logger

    get_logger("mooring").info(message, **fields, server=access.server, found=access.origin)
    log_warnings(access.warnings)


class StopSignals:
    """The handler of SIGINT and SIGTERM while a command runs, even while a plugin hangs.

    The first signal stops the command gracefully. The second one exits immediately, as in kube-scheduler, and so does
    the timeout of the graceful stop. Python runs signal handlers between two instructions of any code. Signal handlers
    of an event loop would have to wait until the loop continues.
    """

    def __init__(self, seconds: float = _STOP_SECONDS) -> None:
        self._seconds = seconds
        self._stops: list[Callable[[], object]] = []
        self._received = 0
        self._read, self._write = os.pipe()
        self._enforcer = threading.Thread(target=self._enforce, name="mooring-stop", daemon=True)
        self._handlers: dict[int, Any] = {}

    def call(self, stop: Callable[[], object]) -> None:
        """Register a function that stops the command. It runs in a signal handler, so it must not wait for locks."""
        self._stops.append(stop)

    def __enter__(self) -> StopSignals:
        self._enforcer.start()
        self._handlers = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.write(self._write, _END)
        self._enforcer.join()
        os.close(self._write)
        os.close(self._read)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._received += 1
        if self._received > 1:
            os._exit(1)
        if not self._stops:  # nothing has started yet
            signal.default_int_handler(number, frame)
        os.write(self._write, _STOP)
        for stop in self._stops:
            stop()

    def _enforce(self) -> None:
        """Exit if the process takes too long to stop."""
        if os.read(self._read, 1) == _END or select.select([self._read], [], [], self._seconds)[0]:
            return
        from mooring.framework.plugin_frames import place
        from mooring.loading.running_calls import plugin_frames, stack_within, thread_frame
        from mooring.logs import get_logger

        frame = thread_frame(threading.main_thread().ident or 0)
        where = place(plugin_frames(frame))
        text = f"{where}: " if where else ""
        text += f"the process has not stopped within {self._seconds:g} s; exiting"
        get_logger("mooring").error(text, stack=stack_within(frame))
        os._exit(1)


async def run_until_stopped(work: Coroutine[Any, Any, Any], signals: StopSignals) -> int:
    """Run ``work`` until SIGINT or SIGTERM and return the exit code. A fatal error is logged."""
    from mooring.live import LostLeaseError, ServerError
    from mooring.logs import get_logger

    log = get_logger("mooring")
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()

    def cancel() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(task.cancel)

    signals.call(cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.info("Requested to terminate, exiting")
        return 0
    except (LostLeaseError, ServerError) as error:
        log.error(str(error))
        return 1
    return 0
