"""Calls with a deadline, on their own thread. A call that hangs is interrupted and abandoned."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from concurrent.futures import Future
from typing import TypeVar

from mooring.framework.plugin_errors import HangsError
from mooring.framework.plugin_frames import author_frames, set_author_frames
from mooring.loading.load_errors import refuse
from mooring.loading.running_calls import plugin_frames, thread_frame

T = TypeVar("T")


class _Abandoned(BaseException):
    """The exception that ends the thread of a call that hangs."""


def within(seconds: float, call: Callable[[], T], modules: Container[str] = ()) -> T:
    """Return the result of a call, or raise its exception. Raises HangsError at the deadline.

    ``modules`` are those of plugins that were not loaded from files. The error has the frames of the plugin.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="mooring-plugin-check", daemon=True)
    thread.start()
    try:
        return outcome.result(seconds)
    except TimeoutError:
        if outcome.done():
            raise
    error = HangsError(seconds)
    set_author_frames(error, plugin_frames(thread_frame(thread.ident or 0), modules))
    _interrupt(thread)
    raise error


def load_within(seconds: float, load: Callable[[], T]) -> T:
    """Return the result of loading plugins. If it hangs, raises PluginLoadError with the line that is executed."""
    try:
        return within(seconds, load)
    except HangsError as error:
        frames = author_frames(error)
        path, line = (frames[-1].filename, frames[-1].lineno or 0) if frames else ("", 0)
        raise refuse(path, f"loading the plugin {error}", line) from None


def _interrupt(thread: threading.Thread) -> None:
    """Raise an exception in a thread as soon as it executes Python code. The thread shares no state with others."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Abandoned))
