"""Plugins of users in sessions: how they are made, and what happens when one breaks.

A plugin that raises harms no session: what it would have answered counts as no opinion (a node that it was asked about
counts as refused), and the session goes on. Each kind of failure is told once a session.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.batch.arguments import Arguments
from mooring.batch.callbacks import ABSTAIN
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import NodeCallback
from mooring.framework.plugin import ArgsError, convert_args
from mooring.framework.status import Status

#: What a callback that broke counts as having said.
_NEUTRAL: Final[Mapping[str, Any]] = {
    "job_order": 0,
    "queue_order": 0,
    "victim_queue_order": 0,
    "task_order": 0,
    "node_order": 0.0,
    "batch_node_order": {},
    "best_node": None,
    "preemptable": ([], ABSTAIN),
    "reclaimable": ([], ABSTAIN),
    "unified_evictable": ([], ABSTAIN),
    "overused": False,
    "preemptive": True,
    "allocatable": True,
    "job_ready": True,
    "job_pipelined": ABSTAIN,
    "job_enqueueable": ABSTAIN,
    "job_enqueued": None,
    "job_starving": True,
    "job_valid": None,
    "victim_tasks": [],
    "pre_predicate": None,
}


def build(cls: type[Any], arguments: Arguments) -> Any:
    """Make a plugin for one session.

    A class with ``Args`` gets them as ``self.args``, decoded; one without gets the mapping as it was written. A class
    whose constructor takes an argument gets the arguments there too, as Volcano's plugins do.
    """
    if issubclass(cls, BatchPlugin):
        return cls(arguments)
    given = _decoded(cls, arguments)
    plugin = cls(given) if _takes_arguments(cls) else cls()
    if not hasattr(plugin, "args"):
        plugin.args = given
    return plugin


def _takes_arguments(cls: type[Any]) -> bool:
    try:
        inspect.signature(cls).bind()
    except TypeError:
        return True
    return False


def _decoded(cls: type[Any], arguments: Arguments) -> Any:
    try:
        return convert_args(cls, dict(arguments))
    except ArgsError as error:
        raise ArgsError(error.plugin, f"arguments{'.' + error.path if error.path else ''}", error.reason) from None


class Guard:
    """Wraps the callbacks of one plugin in one session."""

    def __init__(self, plugin: str, report: Callable[[str], None]) -> None:
        self._plugin = plugin
        self._report = report
        self._said: set[str] = set()

    def failed(self, where: str, error: Exception) -> None:
        """Tell of a failure, once for each place."""
        if where not in self._said:
            self._said.add(where)
            self._report(f'plugin "{self._plugin}" failed in {where}: {type(error).__name__}: {error}')

    def wrapped(self, kind: str, function: Any) -> Any:
        """The same callback, with failures turned into no opinion."""
        if isinstance(function, NodeCallback):
            return function._replace(function=self._call(kind, function.function, columns=function.columns))
        return self._call(kind, function)

    def _call(self, kind: str, function: Callable[..., Any], *, columns: bool = False) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception as error:
                self.failed(kind, error)
                if kind == "predicate":
                    return None if columns else Status.error(f"{self._plugin}: {type(error).__name__}: {error}")
                if kind == "batch_node_order":
                    return 0.0 if columns else {}
                return _NEUTRAL.get(kind)

        return call
