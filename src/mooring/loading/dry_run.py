"""Dry runs of plugins: their result, and the guard that records the calls and the faults of the plugin under test.

`scheduler/dry_run.py` runs profile plugins, `batch/dry_run.py` session plugins and actions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.framework.plugin_args import ArgsError
from mooring.framework.plugin_errors import HangsError, PluginSaysError, contain, describe
from mooring.framework.plugin_frames import author_frames, method_frames
from mooring.loading.circuit_breaker import Check, Fallback, Guard, Guards
from mooring.loading.deadline import within
from mooring.loading.load_errors import Fault
from mooring.loading.module_importer import root_of
from mooring.loading.plugin_files import FoundPlugin
from mooring.loading.plugin_options import PluginOptions
from mooring.loading.static_checks import class_source


class DryRun(msgspec.Struct, frozen=True):
    """The result of a dry run."""

    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    #: The extension points (callbacks, for a session plugin) that were called, and those that were not.
    called: tuple[str, ...] = ()
    not_called: tuple[str, ...] = ()
    #: The reason why the plugin was not called at all.
    reason: str = ""


def run_in_time(found: FoundPlugin, seconds: float, run: Callable[[], DryRun]) -> DryRun:
    """Perform a dry run of a plugin. A call that exceeds the timeout is a fault."""
    place = str(found.path or "")
    try:
        result = within(seconds, run, {root_of(found.cls.__module__)})
    except HangsError as hangs:
        return DryRun((plugin_fault(found.name, found.cls, "", str(hangs), hangs),))
    except BaseException as error:
        contain(error)
        return DryRun((Fault(place, 0, f"{found.name}: {describe(error)}"),))
    faults = tuple(msgspec.structs.replace(each, path=each.path or place) for each in result.faults)
    return msgspec.structs.replace(result, faults=faults)


def missing_arguments(error: ArgsError) -> str:
    """Return the reason why a plugin whose arguments are missing is not called."""
    return (
        f"its arguments are missing: {error.path}: {error.reason}"
        if error.path
        else (f"its arguments are missing: {error.reason}")
    )


class Recorder(Guard):
    """A guard that records the calls and failures of the plugin under test."""

    def __init__(self, name: str, cls: type[Any], guards: Guards) -> None:
        super().__init__(name, PluginOptions(), guards)
        self._cls = cls
        self.called: set[str] = set()
        self.counted = 0
        #: By message: the same fault is reported once.
        self.faults: dict[str, Fault] = {}

    def wrap(
        self, call: Callable[..., Any], method: str, *, check: Check | None = None, fallback: Fallback | None = None
    ) -> Callable[..., Any]:
        """Return a recorded version of a call."""

        @functools.wraps(call)
        def recorded(*args: Any) -> Any:
            self.called.add(method)
            return call(*args)

        return super().wrap(recorded, method, check=check, fallback=fallback)

    def count(self, method: str, error: BaseException) -> None:
        """Record a fault."""
        self.counted += 1
        text = str(error) if isinstance(error, PluginSaysError) else describe(error)
        self.faults.setdefault(f"{method}: {text}", self.fault(method, text, error))

    def end_attempt(self) -> None:
        """Do nothing: the breaker never opens in a dry run."""

    def fault(self, method: str, text: str, cause: BaseException | None) -> Fault:
        """Return the fault at the line of the author's code that raised, or at the method."""
        return plugin_fault(self.name, self._cls, method, text, cause, self._methods.get(method))


def plugin_fault(
    name: str,
    cls: type[Any],
    method: str,
    text: str,
    cause: BaseException | None,
    call: Callable[..., Any] | None = None,
) -> Fault:
    """Return the fault at the line of the author's code that raised, or at the method, or at the function ``call``."""
    message = f"{name}: {method}: {text}" if method else f"{name}: {text}"
    frames = author_frames(cause) if cause is not None else []
    if not frames and call is not None and method not in vars(cls):
        frames = method_frames(call)
    if frames:
        return Fault(frames[-1].filename, frames[-1].lineno or 0, message)
    source = class_source(cls)
    if source is None:
        return Fault("", 0, message)
    return Fault(source.path, source.line_of(method if method in vars(cls) else ""), message)
