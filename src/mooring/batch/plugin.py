"""Session plugins: the base class of the built-in ones, and construction and guarding of users' plugins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from mooring.batch.arguments import Arguments
from mooring.batch.callbacks import ABSTAIN
from mooring.batch.session import NodeCallback, Session
from mooring.framework.plugin import ArgsError, convert_args
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts
from mooring.loading.circuit_breaker import Guard, Guards, SwitchedOffError
from mooring.loading.plugin_options import PluginOptions


class BatchPlugin:
    """Base class of the built-in plugins. Every session makes a new instance.

    >>> class Magic(BatchPlugin):
    ...     name = "magic"
    ...
    ...     def on_session_open(self, session):
    ...         session.add_node_order(lambda task, node: 10.0 if "magic" in node.labels else 0.0)
    """

    #: The name in the configuration.
    name: ClassVar[str] = ""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments

    def on_session_open(self, session: Session) -> None:
        """Register callbacks when a session opens."""

    def on_session_close(self, session: Session) -> None:
        """Run after the actions, before statuses are written."""


def build(cls: type[Any], arguments: Arguments) -> Any:
    """Make a plugin for one session.

    A class with ``Args`` gets them as ``self.args``, decoded; one without gets the configured mapping. A class whose
    constructor takes an argument gets the arguments there too, as Volcano's plugins do.
    """
    if issubclass(cls, BatchPlugin):
        return cls(arguments)
    args = _decoded(cls, arguments)
    plugin = cls(args) if _takes_arguments(cls) else cls()
    if not hasattr(plugin, "args"):
        plugin.args = args
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


#: The answer of a callback that failed. A predicate rejects the nodes instead, see ``PluginGuard``.
_FALLBACK: Final[Mapping[str, Any]] = {
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


class SessionGuards(Guards):
    """The guards of users' session plugins, from session to session.

    Every callback has its own breaker. Its answers while it is open are those of a failing callback, so the breaker
    only saves the calls.
    """

    def __init__(self, options: Mapping[str, PluginOptions] | None = None, **settings: Any) -> None:
        super().__init__(options, **settings)
        self._versions: dict[str, tuple[type[Any], dict[str, Any]]] = {}

    def set_options(self, options: Mapping[str, PluginOptions]) -> None:
        """Use these options from the next session on; plugins whose options change start with no failures."""
        before, self.options = self.options, dict(options)
        self.drop([name for name in {*before, *options} if before.get(name) != options.get(name)])

    def opening(self, name: str, cls: type[Any], arguments: Mapping[str, Any]) -> PluginGuard:
        """Return the guard for a plugin in a session that opens; new code or arguments start with no failures."""
        version = (cls, dict(arguments))
        if self._versions.get(name, version) != version:
            self.drop((name,))
        self._versions[name] = version
        return PluginGuard(name, self)

    def describe_opening(self, guard: Guard) -> str:
        """Return the log event for a breaker that opens."""
        return (
            f"plugin switched off after {guard.failures} failed sessions in a row; "
            "its answers count as failed until it is tried again"
        )


def guards_for(session: Session) -> SessionGuards:
    """Return guards for a single session, which report failures as its warnings."""

    def warn(event: str, *, plugin: str, method: str = "", error: str = "", **_: object) -> None:
        if event == "plugin failed":
            session.warnings.append(f'plugin "{plugin}" failed in {method}: {error}')

    return SessionGuards(clock=lambda: session.now, log=warn)


class PluginGuard:
    """Guards the callbacks of one user plugin in one session.

    The session continues after a failure. A failed callback counts as having no opinion; a failed predicate rejects
    the node.
    """

    def __init__(self, plugin: str, guards: SessionGuards) -> None:
        self._plugin = plugin
        self._guards = guards

    def failed(self, method: str, error: Exception) -> None:
        """Count a failure of ``on_session_open`` or ``on_session_close``, which every session calls again."""
        self._guards.of(self._plugin, method).count(method, error)

    def end_session(self) -> None:
        """Open or close the breakers of the callbacks."""
        self._guards.end_attempt()

    def wrap(self, kind: str, function: Any) -> Any:
        """Return the same callback, guarded."""
        if isinstance(function, NodeCallback):
            return function._replace(function=self._guarded(kind, function.function, columns=function.columns))
        return self._guarded(kind, function)

    def _guarded(self, kind: str, function: Callable[..., Any], *, columns: bool = False) -> Callable[..., Any]:
        guard = self._guards.of(self._plugin, kind)

        def fallback(error: Exception, arguments: tuple[Any, ...]) -> Any:
            if kind == "predicate":
                if isinstance(error, SwitchedOffError) and guard.options.failure_policy == "Ignore":
                    return None
                status = Status.error(f"{self._plugin}: {type(error).__name__}: {error}")
                return Verdicts.of([status] * len(arguments[1])) if columns else status
            if kind == "batch_node_order":
                return 0.0 if columns else {}
            return _FALLBACK.get(kind)

        return guard.wrap(function, kind, fallback=fallback)
