"""One scheduling attempt under pdb, which stops in the code of a plugin and where the plugin raises.

The debugger stops at the first call of each method of the plugin that Mooring calls, at `breakpoint()`, and where an
exception was raised (post-mortem). Steps stay in the plugin and the code it calls; Mooring's own code is skipped.
"""

from __future__ import annotations

import bdb
import contextlib
import inspect
import pdb
import random
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import msgspec

from mooring.api.meta import KubeObject
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.framework.plugin_errors import failure_text
from mooring.framework.plugin_frames import author_traceback, is_mooring
from mooring.framework.points import BY_METHOD
from mooring.loading.circuit_breaker import Guard, Guards
from mooring.loading.plugin_options import DEFAULT
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.profile import ProfileError
from mooring.simulation.explain import fill

#: The methods that Mooring calls, in order.
_METHODS = ("setup", *BY_METHOD)


class DebuggedAttempt(msgspec.Struct, frozen=True):
    """The result of a debugged attempt."""

    #: The chosen node, or the reason why there is none.
    outcome: str
    #: The methods of the plugin that were not called.
    not_called: tuple[str, ...]
    #: Where and why the plugin failed; empty if it did not.
    failure: str = ""
    #: Whether the user ended the debugger and thus the attempt.
    quit: bool = False


def debug_attempt(
    objects: Iterable[KubeObject],
    key: str,
    config: SchedulerConfiguration,
    *,
    plugins: Mapping[str, type[Plugin]],
    debugged: Collection[str],
    path: Path,
) -> DebuggedAttempt:
    """Run one attempt for a pod (namespace/name) under pdb, which reads standard input.

    ``debugged`` are the names of the plugins in the file or package ``path``. Nothing is written to the cluster.
    Raises InputError or ProfileError.
    """
    debugger = PluginDebugger(path, [plugins[name] for name in debugged])
    guards = _DebugGuards(debugger, debugged)
    with debugger.running():
        try:
            engine = Engine(config, plugins=plugins, rng=random.Random(0), guards=guards)
        except ProfileError as error:
            if error.__cause__ is not None:
                debugger.post_mortem(error.__cause__)
            if debugger.ended:
                return DebuggedAttempt("", (), quit=True)
            raise
        fill(engine, objects, key)
        result = engine.schedule_one()
    failures = [guards.of(name).last_failure for name in debugged]
    return DebuggedAttempt(
        _outcome(engine, key, result), debugger.not_called, next(filter(None, failures), ""), debugger.ended
    )


def _outcome(engine: Engine, key: str, result: object) -> str:
    if isinstance(result, AssumedPod):
        return f"node {result.node_name}" + (", waiting at Permit" if result.waits else "")
    if isinstance(result, FailedAttempt):
        return result.failure.message
    found = engine.queue.find(key)
    if found is None:
        return "the pod is being deleted"
    queued = found[1]
    return f"gated by PreEnqueue plugin {queued.gating_plugin}: {', '.join(queued.gating_reasons)}"


class PluginDebugger(pdb.Pdb):
    """A debugger for the code of one plugin file or package."""

    def __init__(self, path: Path, classes: Iterable[type[Plugin]]) -> None:
        super().__init__(stdin=sys.stdin, stdout=sys.stdout, nosigint=True)
        self.use_rawinput = sys.stdin.isatty()  # so that lines can be edited
        self._path = str(path)
        #: The methods that were not called yet: code -> name and first line.
        self._waiting: dict[CodeType, tuple[str, int]] = {}
        for cls in classes:
            for name in _METHODS:
                code = getattr(inspect.unwrap(getattr(cls, name, None) or _nothing), "__code__", None)
                if code is not None and self._is_plugins(code.co_filename):
                    self._waiting[code] = (name, _first_line(code))
        #: Whether the user ended the debugger.
        self.ended = False

    @property
    def not_called(self) -> tuple[str, ...]:
        """The methods of the plugin that were not called."""
        names = {name for name, _ in self._waiting.values()}
        return tuple(name for name in _METHODS if name in names)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Debug the calls in the ``with`` block."""
        trace, hook, set_trace = sys.gettrace(), sys.breakpointhook, pdb.set_trace
        sys.breakpointhook = pdb.set_trace = self._breakpoint
        self.reset()
        self.botframe = sys._getframe()
        self.set_continue()
        try:
            yield
        finally:
            sys.breakpointhook, pdb.set_trace = hook, set_trace
            sys.settrace(trace)

    def post_mortem(self, error: BaseException) -> None:
        """Inspect the frames of an exception. The attempt continues afterwards."""
        if self.ended or isinstance(error, bdb.BdbQuit):
            return
        sys.settrace(None)
        self.message(f"*** {failure_text(error)}")
        trace = author_traceback(error)
        if trace is not None:
            self.reset()
            self.interaction(None, trace)
        if not self.ended:
            self.set_continue()

    def _breakpoint(self, *_args: Any, **_kwargs: Any) -> None:
        if not self.ended:
            self.set_trace(sys._getframe(1))

    # Methods that pdb calls

    def stop_here(self, frame: FrameType) -> bool:
        """Return whether a step stops in a frame."""
        return self._is_within(frame) and super().stop_here(frame)

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
        """Return the frames that `where`, `up` and `down` show: those of the plugin and of the code it called."""
        stack, index = super().get_stack(f, t)
        shown = [each for each in stack if self._is_within(each[0])]
        return (shown, shown.index(stack[index])) if stack[index] in shown else (stack, index)

    def break_anywhere(self, frame: FrameType) -> bool:
        """Return whether a frame may contain a breakpoint."""
        return frame.f_code in self._waiting or bool(super().break_anywhere(frame))

    def break_here(self, frame: FrameType) -> bool:
        """Return whether a line has a breakpoint. The first line of a method has one until its first call."""
        waiting = self._waiting.get(frame.f_code)
        if waiting is not None and frame.f_lineno == waiting[1]:
            del self._waiting[frame.f_code]
            return True
        return bool(super().break_here(frame))

    def set_continue(self) -> None:
        """Run until the next breakpoint."""
        super().set_continue()
        if self._waiting:  # pdb ends the trace if no breakpoint is set
            sys.settrace(self.trace_dispatch)

    def set_quit(self) -> None:
        """End the debugger. The attempt fails."""
        self.ended = True
        super().set_quit()

    def _is_within(self, frame: FrameType | None) -> bool:
        """Return whether a frame belongs to the plugin or was called by it."""
        while frame is not None and not is_mooring(frame.f_code.co_filename):
            if self._is_plugins(frame.f_code.co_filename):
                return True
            frame = frame.f_back
        return False

    def _is_plugins(self, filename: str) -> bool:
        return filename == self._path or filename.startswith(f"{self._path}/")


def _nothing() -> None:
    """Do nothing; used in place of a method that a plugin does not define."""


def _first_line(code: CodeType) -> int:
    """Return the line of the first statement of a function."""
    lines = [line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno]
    return lines[0] if lines else code.co_firstlineno


class _DebugGuard(Guard):
    """A guard that passes the failures of one plugin to the debugger."""

    def __init__(self, name: str, guards: _DebugGuards) -> None:
        super().__init__(name, DEFAULT, guards)
        self._debugger = guards.debugger

    def count(self, method: str, error: BaseException) -> None:
        """Count a failure, and inspect it."""
        if not isinstance(error, bdb.BdbQuit):
            super().count(method, error)
        self._debugger.post_mortem(error)


class _DebugGuards(Guards):
    """The guards of a debugged attempt."""

    def __init__(self, debugger: PluginDebugger, debugged: Collection[str]) -> None:
        super().__init__(clock=time.time)
        self.debugger = debugger
        self._debugged = frozenset(debugged)

    def of(self, name: str, callback: str = "") -> Guard:
        """Return the guard of a plugin."""
        if name in self._debugged and (name, callback) not in self._guards:
            self._guards[name, callback] = _DebugGuard(name, self)
        return super().of(name, callback)
