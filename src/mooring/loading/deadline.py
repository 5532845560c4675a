"""Calls with a deadline. A call that hangs is left behind on its own thread."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class HangsError(RuntimeError):
    """A call did not return in time."""

    def __init__(self, seconds: float, stack: traceback.StackSummary) -> None:
        super().__init__(f"did not return within {seconds:g} s")
        #: The stack of the call at the deadline, innermost frame last.
        self.stack = stack

    def place_in(self, cls: type) -> tuple[str, int]:
        """Return the file of a class and the innermost line of the stack in it."""
        path = getattr(sys.modules.get(cls.__module__), "__file__", "") or ""
        line = next((frame.lineno or 0 for frame in reversed(self.stack) if frame.filename == path), 0)
        return path, line


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of a call, or raise its exception. Raises HangsError at the deadline."""
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
        raise HangsError(seconds, stack_of(thread.ident or 0)) from None


def stack_of(thread: int) -> traceback.StackSummary:
    """Return the current stack of a thread; empty if the thread has ended."""
    frame = sys._current_frames().get(thread)
    return traceback.extract_stack(frame) if frame is not None else traceback.StackSummary()
