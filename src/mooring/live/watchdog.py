"""The watchdog: a thread that logs when a plugin call or the event loop hangs, with the stack."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import traceback
from collections.abc import Callable

import structlog

from mooring.loading.circuit_breaker import Guards
from mooring.loading.deadline import stack_of

log = structlog.get_logger("mooring.live")

_POLL_SECONDS, _HEARTBEAT_SECONDS = 0.25, 1.0
#: Time without a heartbeat after which the loop is reported as hanging.
_LOOP_SECONDS = 10.0


class Watchdog:
    """Monitors the thread that created it, between ``start`` and ``stop``."""

    def __init__(self, guards: Guards, *, report: Callable[..., None] = log.error) -> None:
        self._guards = guards
        self._report = report
        self._thread = threading.get_ident()
        self._end = threading.Event()
        self._beat = time.monotonic()
        #: Start time of the call that was reported last.
        self._reported_call = 0.0
        self._reported_loop = False
        self._timer: asyncio.TimerHandle | None = None
        self._watcher = threading.Thread(target=self._watch, name="mooring-watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread; inside an event loop, also monitor the loop."""
        with contextlib.suppress(RuntimeError):
            self._schedule_heartbeat(asyncio.get_running_loop())
        self._watcher.start()

    def stop(self) -> None:
        """Stop the thread."""
        if self._timer is not None:
            self._timer.cancel()
        self._end.set()
        self._watcher.join(1.0)

    def _schedule_heartbeat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beat = time.monotonic()
        self._reported_loop = False
        self._timer = loop.call_later(_HEARTBEAT_SECONDS, self._schedule_heartbeat, loop)

    def _watch(self) -> None:
        while not self._end.wait(_POLL_SECONDS):
            self._check_call()
            silent = time.monotonic() - self._beat
            hangs = self._timer is not None and silent > _LOOP_SECONDS
            if hangs and not self._reported_loop and self._guards.current is None:
                self._reported_loop = True
                self._report("The scheduler's event loop hangs", seconds=round(silent, 1), stack=self._stack())

    def _check_call(self) -> None:
        call = self._guards.current
        if call is None:
            return
        guard, method, args, started = call
        lasted = time.perf_counter() - started
        if lasted < guard.options.timeout or started == self._reported_call:
            return
        self._reported_call = started
        self._guards.health.hangs[guard.name, method] += 1
        pod = next((key for each in args[:2] if isinstance(key := getattr(each, "key", None), str)), "")
        self._report(
            "Plugin call hangs; no pod is scheduled until it returns",
            plugin=guard.name,
            method=method,
            pod=pod,
            seconds=round(lasted, 1),
            stack=self._stack(),
        )

    def _stack(self) -> str:
        """Return the innermost frames of the thread's stack, innermost last."""
        frames = stack_of(self._thread)
        return "".join(traceback.format_list(frames[-12:]))
