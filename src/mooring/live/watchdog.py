"""The watchdog: a thread that tells when a plugin, or the loop, hangs, and shows where."""

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

_LOOK_SECONDS, _BEAT_SECONDS = 0.25, 1.0
#: A loop that has not turned for so long hangs, whatever it is that holds it.
_LOOP_SECONDS = 10.0


class Watchdog:
    """Looks at the thread that made it, between ``start`` and ``stop``."""

    def __init__(self, guards: Guards, *, tell: Callable[..., None] = log.error) -> None:
        self._guards = guards
        self._tell = tell
        self._thread = threading.get_ident()
        self._end = threading.Event()
        self._beat = time.monotonic()
        #: When the call began that was told of last.
        self._told_call = 0.0
        self._told_loop = False
        self._timer: asyncio.TimerHandle | None = None
        self._watcher = threading.Thread(target=self._watch, name="mooring-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to look; in a loop, also at whether it turns, whatever it waits for."""
        with contextlib.suppress(RuntimeError):
            self._beat_in(asyncio.get_running_loop())
        self._watcher.start()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._end.set()
        self._watcher.join(1.0)

    def _beat_in(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beat = time.monotonic()
        self._told_loop = False
        self._timer = loop.call_later(_BEAT_SECONDS, self._beat_in, loop)

    def _watch(self) -> None:
        while not self._end.wait(_LOOK_SECONDS):
            self._look_at_call()
            silent = time.monotonic() - self._beat
            hangs = self._timer is not None and silent > _LOOP_SECONDS
            if hangs and not self._told_loop and self._guards.current is None:
                self._told_loop = True
                self._tell("the scheduler's loop hangs", seconds=round(silent, 1), stack=self._stack())

    def _look_at_call(self) -> None:
        call = self._guards.current
        if call is None:
            return
        guard, method, args, started = call
        lasted = time.perf_counter() - started
        if lasted < guard.options.timeout or started == self._told_call:
            return
        self._told_call = started
        self._guards.health.hangs[guard.name, method] += 1
        pod = next((key for each in args[:2] if isinstance(key := getattr(each, "key", None), str)), "")
        self._tell(
            "plugin hangs: no pod is scheduled until it returns",
            plugin=guard.name,
            method=method,
            pod=pod,
            seconds=round(lasted, 1),
            stack=self._stack(),
        )

    def _stack(self) -> str:
        """Where the thread is, innermost last; the frames of the scheduler itself are of no interest."""
        frames = stack_of(self._thread)
        return "".join(traceback.format_list(frames[-12:]))
