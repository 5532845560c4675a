"""Inspection of a thread's stack: which plugin call it executes, and whether it may be interrupted there.

A frame belongs to a plugin if its module does: a module that was loaded from a plugin file, or the module of a class
that was given to the scheduler. Frames of libraries belong to their caller.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Container, Iterator
from types import FrameType

from mooring.framework.plugin_frames import Frames, is_mooring
from mooring.loading.module_importer import ROOT, root_of

_PREFIX = f"{ROOT}."


def thread_frame(thread: int) -> FrameType | None:
    """Return the innermost frame of a thread; None if the thread has ended."""
    return sys._current_frames().get(thread)


def plugin_call(frame: FrameType | None, modules: Container[str] = ()) -> FrameType | None:
    """Return the outermost frame of the plugin that Mooring is calling; None if it calls none.

    ``modules`` are plugins that were not loaded from files.
    """
    call = outermost = None
    for each in _frames(frame):
        if _is_plugin(each, modules):
            outermost = each
        elif outermost is not None and is_mooring(each.f_code.co_filename):
            call = outermost
    return call


def may_interrupt(frame: FrameType | None, call: FrameType, modules: Container[str] = ()) -> bool:
    """Return whether an exception may be raised in ``frame``: it is inside the call and not in Mooring's own code."""
    in_plugin = False
    for each in _frames(frame):
        if not in_plugin:
            in_plugin = _is_plugin(each, modules)
            if not in_plugin and is_mooring(each.f_code.co_filename):
                return False
        if each is call:
            return True
    return False


def plugin_frames(frame: FrameType | None, modules: Container[str] = ()) -> Frames:
    """Return the frames of plugins on a stack, innermost last."""
    found = [(each, each.f_lineno or 0) for each in _frames(frame) if _is_plugin(each, modules)]
    return list(traceback.StackSummary.extract(iter(reversed(found))))


def plugin_modules(frame: FrameType | None) -> Iterator[str]:
    """Yield the modules of plugin files on a stack, innermost first."""
    for each in _frames(frame):
        name = str(each.f_globals.get("__name__", ""))
        if name.startswith(_PREFIX):
            yield root_of(name)


def stack_within(frame: FrameType | None, call: FrameType | None = None, limit: int = 12) -> str:
    """Format the innermost frames of a stack, innermost last. With ``call``, include only the frames inside it."""
    found: list[tuple[FrameType, int]] = []
    for each in _frames(frame):
        found.append((each, each.f_lineno or 0))
        if each is call or len(found) == limit:
            break
    return "".join(traceback.StackSummary.extract(iter(reversed(found))).format())


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_plugin(frame: FrameType, modules: Container[str]) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.startswith(_PREFIX) or root_of(name) in modules
