"""Errors of plugins: which exceptions count as a failure of the plugin, and how they are described.

A plugin must not stop the scheduler, so `sys.exit()` and every other BaseException that plugin code raises counts as
its failure. Code that calls a plugin catches BaseException and calls ``contain`` first.
"""

from __future__ import annotations

import asyncio
import dis
import inspect
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from mooring.checkpoints import AbortedError
from mooring.framework.plugin_frames import author_frames, place

T = TypeVar("T")

_RAISE = dis.opmap["RAISE_VARARGS"]
_RUNNERS = inspect.getfile(asyncio.Runner)
#: The messages of msgspec and NumPy for a change of an immutable object.
_READ_ONLY = ("immutable type: ", "assignment destination is read-only", "output array is read-only")


class PluginSaysError(RuntimeError):
    """A plugin answered with an Error of its own, or with scores out of range."""


class HangsError(BaseException):
    """A call did not return in time.

    It does not derive from Exception, so that `except Exception` in a plugin does not catch it.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"did not return within {seconds:g} s")


def contain(error: BaseException) -> None:
    """Re-raise an exception that the plugin did not cause: a cancellation, Ctrl-C, the end of a generator or budget."""
    if not isinstance(error, Exception) and not _is_plugins(error):
        raise error


def describe(error: BaseException) -> str:
    """Return the type and the text of an exception: ``KeyError: 'missing'``."""
    try:
        text = str(error)
    except BaseException as second:
        contain(second)
        text = f"(its text is unknown: {type(second).__name__} in __str__)"
    if text.startswith(_READ_ONLY):
        text += " (objects are read-only, because all plugins share them: change a copy)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failure_text(error: BaseException) -> str:
    """Return where the author's code failed, and the exception: ``zone.py:48 in score: KeyError: 'missing'``."""
    text = str(error) if isinstance(error, PluginSaysError) else describe(error)
    where = place(author_frames(error))
    return f"{where}: {text}" if where else text


def run_loop(
    work: Coroutine[Any, Any, T],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    report: Callable[[str], None] | None = None,
) -> T:
    """Run a coroutine as ``asyncio.run`` does, even if a task that a plugin created calls `sys.exit()`.

    asyncio stops the loop when a task raises SystemExit or KeyboardInterrupt. This continues it, after a report.
    """
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        loop = runner.get_loop()
        task = loop.create_task(work)
        while True:
            try:
                return loop.run_until_complete(task)
            except BaseException as error:
                if task.done():
                    raise
                contain(error)
                if report is not None:
                    report(failure_text(error))


def _is_plugins(error: BaseException) -> bool:
    if isinstance(error, AbortedError):
        return False
    if isinstance(error, asyncio.CancelledError):
        return not _is_cancelled()
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        # The interpreter raises these too, but not at a `raise` statement.
        return _is_raised_explicitly(error.__traceback__)
    return True


def _is_cancelled() -> bool:
    """Return whether the current task is being cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop in this thread
        return False
    return task is not None and task.cancelling() > 0


def _is_raised_explicitly(trace: TracebackType | None) -> bool:
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    # asyncio's handler of SIGINT raises KeyboardInterrupt in Python.
    return code.co_filename != _RUNNERS and code.co_code[trace.tb_lasti] == _RAISE
