"""The watchdog: a thread that interrupts plugin calls that hang, and logs when the event loop hangs.

It samples the stack of the scheduler's thread, so plugin calls have no overhead. A call hangs if the same frame of a
plugin is still there after the plugin's ``timeout``, without a heartbeat of the event loop in between.

A handler of SIGURG, which is ignored by default, raises HangsError on the main thread. Python runs signal handlers on
the main thread between two instructions, also when a signal ends a system call such as `time.sleep`. The handler
receives the current frame, so it raises only inside the call that hangs, and never in Mooring's own code. It cannot
interrupt a C function that does not return to the interpreter, or code that catches BaseException in a loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from mooring.framework.plugin_errors import HangsError
from mooring.framework.plugin_frames import place
from mooring.loading.circuit_breaker import Guards
from mooring.loading.plugin_options import DEFAULT
from mooring.loading.running_calls import may_interrupt, plugin_call, plugin_frames, stack_within, thread_frame
from mooring.logs import get_logger

log = get_logger("mooring.live")

#: The sampling interval of the stack, and the interval while a call is being interrupted.
_POLL_SECONDS, _RETRY_SECONDS = 0.25, 0.02
_HEARTBEAT_SECONDS = 0.25
#: Time without a heartbeat after which the loop is reported as hanging.
_LOOP_SECONDS = 10.0
#: How long a plugin call may last after the process receives a stop signal.
_STOP_SECONDS = 1.0
#: How long after an interruption a call that continues is reported again.
_STUCK_SECONDS = 5.0

_BLOCKED = (
    "cannot be interrupted: it is in a C function that does not return to Python, or it catches every exception; "
    "nothing is scheduled until it returns"
)
_OTHER_THREAD = "is not interrupted, because the scheduler does not run on the main thread"


class Watchdog:
    """A monitor of the thread that created it, between ``start`` and ``stop``."""

    def __init__(self, guards: Guards, *, report: Callable[..., None] = log.error) -> None:
        self._guards = guards
        self._report = report
        self._thread = threading.get_ident()
        self._end = threading.Event()
        self._beat = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._reported_loop = False
        #: The call that was sampled last, when it was first seen, and the heartbeat before it.
        self._call: FrameType | None = None
        self._since = 0.0
        self._beat_before = 0.0
        #: The number of reports about the call, and the time of the next one.
        self._reports = 0
        #: The call that the signal handler is to interrupt, and how long it may last.
        self._target: FrameType | None = None
        self._limit = 0.0
        self._hurries = False
        self._handler: Any = None
        self._watcher = threading.Thread(target=self._watch, name="mooring-watchdog", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Start the thread; with a loop, also monitor the loop."""
        if loop is not None:
            self._schedule_heartbeat(loop)
        if self._may_handle_signal():
            self._handler = signal.signal(signal.SIGURG, self._raise_in_call)
        self._watcher.start()

    def stop(self) -> None:
        """Stop the thread."""
        if self._timer is not None:
            self._timer.cancel()
        self._end.set()
        self._watcher.join(1.0)
        self._target = self._call = None
        if self._handler is not None:
            signal.signal(signal.SIGURG, self._handler)

    def hurry(self) -> None:
        """Interrupt calls early, because the process is stopping. Safe in a signal handler."""
        self._hurries = True

    def _may_handle_signal(self) -> bool:
        """Return whether calls can be interrupted: this is the main thread, and the program does not use the signal."""
        on_main_thread = threading.current_thread() is threading.main_thread()
        return on_main_thread and signal.getsignal(signal.SIGURG) in (signal.SIG_DFL, signal.SIG_IGN)

    def _schedule_heartbeat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beat = time.monotonic()
        self._reported_loop = False
        self._timer = loop.call_later(_HEARTBEAT_SECONDS, self._schedule_heartbeat, loop)

    # On the watchdog's thread

    def _watch(self) -> None:
        while not self._end.wait(_RETRY_SECONDS if self._target is not None else _POLL_SECONDS):
            frame = thread_frame(self._thread)
            self._check_call(frame)
            silent = time.monotonic() - self._beat
            hangs = self._timer is not None and silent > _LOOP_SECONDS
            if hangs and not self._reported_loop and self._call is None:
                self._reported_loop = True
                stack = stack_within(frame)
                self._report("The scheduler's event loop hangs", seconds=round(silent, 1), stack=stack)

    def _check_call(self, frame: FrameType | None) -> None:
        call, beat, now = plugin_call(frame, self._guards.modules), self._beat, time.monotonic()
        if call is None or call is not self._call or beat != self._beat_before:
            self._call, self._since, self._beat_before = call, now, beat
            self._target, self._reports = None, 0
            return
        lasted, name = now - self._since, self._plugin_of(call)
        timeout = self._guards.options.get(name, DEFAULT).timeout
        limit = min(timeout, _STOP_SECONDS) if self._hurries else timeout
        if lasted < limit:
            return
        if not self._reports:
            self._guards.health.hangs[name, call.f_code.co_name] += 1
            self._tell(frame, call, name, lasted, _OTHER_THREAD if self._handler is None else "is interrupted")
        elif self._reports == 1 and self._handler is not None and lasted > limit + _STUCK_SECONDS:
            self._tell(frame, call, name, lasted, _BLOCKED)
        if self._handler is not None:
            self._target, self._limit = call, limit
            signal.pthread_kill(self._thread, signal.SIGURG)

    def _tell(self, frame: FrameType | None, call: FrameType, plugin: str, lasted: float, then: str) -> None:
        self._reports += 1
        modules = self._guards.modules
        frames = plugin_frames(frame, modules) or plugin_frames(call, modules)
        self._report(
            f"{place(frames)}: plugin {plugin} has not returned for {lasted:.1f} s; the call {then}",
            plugin=plugin,
            method=call.f_code.co_name,
            pod=str(getattr(call.f_locals.get("pod"), "key", "")),
            stack=stack_within(frame, call),
        )

    def _plugin_of(self, call: FrameType) -> str:
        """Return the name of the plugin that a call belongs to."""
        name = getattr(call.f_locals.get("self"), "name", None)
        return name if isinstance(name, str) else self._guards.plugin_in(str(call.f_globals.get("__name__", "")))

    # On the main thread

    def _raise_in_call(self, _number: int, frame: FrameType | None) -> None:
        """Handle SIGURG: raise if this is inside the call that hangs; otherwise the watchdog tries again."""
        target = self._target
        if target is not None and may_interrupt(frame, target, self._guards.modules):
            self._target = None
            raise HangsError(self._limit)


@contextlib.contextmanager
def watching(guards: Guards) -> Iterator[None]:
    """Interrupt plugin calls that hang in the block, if there are custom plugins."""
    if not guards.modules:
        yield
        return
    watchdog = Watchdog(guards)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()
