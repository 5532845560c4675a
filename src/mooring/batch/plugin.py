"""Session plugins: their base classes, and construction and guarding of users' plugins."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from mooring.batch.arguments import Arguments
from mooring.batch.callback_answers import FALLBACK, check_of
from mooring.batch.registrations import NodeCallback, Simulation
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo
from mooring.framework.plugin_args import ArgsError, ArgsT, HasArgs, convert_args
from mooring.framework.plugin_errors import failure_text
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts
from mooring.loading.circuit_breaker import Guard, Guards, SwitchedOffError
from mooring.loading.plugin_options import PluginOptions

if TYPE_CHECKING:
    from mooring.batch.actions import Action


class SessionPlugin(HasArgs[ArgsT]):
    """The base class of session plugins. Every session makes a new instance.

    >>> class MagicArgs:
    ...     node: str
    >>> class Magic(SessionPlugin[MagicArgs]):
    ...     def on_session_open(self, session):
    ...         session.add_node_order(lambda task, node: 10.0 if node.name == self.args.node else 0.0)

    The type parameter is the class of the arguments: plain attributes with types and defaults. A session plugin need
    not derive from this class, but type checkers then know neither its arguments nor its methods.

    Attributes:
        name: The name in the configuration; by default the class name in kebab case (``task-topology``).
        args: The decoded arguments.
        watch_files: Data files that the plugin reads, relative to the folder of its own file. When one of them changes,
            the plugin is reloaded as if its own file had changed.
    """

    name: ClassVar[str] = ""
    watch_files: ClassVar[Sequence[str]] = ()

    if TYPE_CHECKING:  # so that at run time a plugin has only the methods that its author defines

        def on_session_open(self, session: Session) -> None:
            """Register callbacks when a session opens."""

        def on_session_close(self, session: Session) -> None:
            """Run after the actions, before statuses are written."""


class SessionAction(Protocol):
    """A session action: a class with this method, or a function that takes the session."""

    def execute(self, session: Session) -> None:
        """Run the action."""


class BatchPlugin(SessionPlugin):
    """Base class of the built-in session plugins, which read their arguments as leniently as Volcano does."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments


def build(cls: type[Any], arguments: Arguments) -> Any:
    """Create a plugin for one session.

    A class with ``Args`` gets them as ``self.args``, decoded; one without gets the configured mapping. A class whose
    constructor takes an argument gets the arguments there too, as Volcano's plugins do.
    """
    if issubclass(cls, BatchPlugin):
        return cls(arguments)
    args = decoded(cls, arguments)
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


def user_action(cls: type[Any]) -> Action:
    """Return a user's action; each session makes a new instance."""

    def execute(session: Session) -> Iterator[None] | None:
        steps: Iterator[None] | None = cls().execute(session)
        return steps

    return execute


def decoded(cls: type[Any], arguments: Arguments) -> Any:
    """Return the arguments as the class declares them. Raises ArgsError."""
    try:
        return convert_args(cls, dict(arguments))
    except ArgsError as error:
        raise ArgsError(error.plugin, f"arguments{'.' + error.path if error.path else ''}", error.reason) from None


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
        self.add_code(cls, name)
        return PluginGuard(name, self)

    def action(self, name: str, action: Action) -> Action:
        """Return a user's action, guarded: if it fails or is switched off, the session continues with the next one."""
        guard = self.of(name, "execute")
        begin = guard.wrap(lambda session: action(session) or iter(()), "execute", fallback=lambda *_: iter(()))
        advance = guard.wrap(lambda steps: next(steps, FAILED), "execute", fallback=lambda *_: FAILED)

        def execute(session: Session) -> Iterator[None]:
            steps = begin(session)
            while advance(steps) is not FAILED:
                yield

        return execute

    def end_attempt(self) -> None:
        """End a session: open or close breakers, and drop references to its callbacks, which keep it in memory."""
        super().end_attempt()
        for guard in self._guards.values():
            guard.release()

    attempts = "sessions"

    def while_open(self, guard: Guard) -> str:
        """Return a description of the effect of an open breaker."""
        return "its answers count as failed"


def guards_for(session: Session) -> SessionGuards:
    """Return guards for a single session, which report failures as its warnings."""

    def warn(event: str, *, plugin: str, method: str = "", error: str = "", **_: object) -> None:
        if event == "plugin failed":
            session.warnings.append(f'plugin "{plugin}" failed in {method}: {error}')

    return SessionGuards(clock=lambda: session.now, log=warn)


#: Returned by ``PluginGuard.call`` if the call failed or was not made.
FAILED: Final = object()


class PluginGuard:
    """Guards one user plugin in one session.

    The session continues after a failure. A failed callback counts as having no opinion; a failed predicate rejects
    the node.
    """

    def __init__(self, plugin: str, guards: SessionGuards) -> None:
        self._plugin = plugin
        self._guards = guards

    def call(self, method: str, function: Callable[[], Any]) -> Any:
        """Call ``on_session_open`` or ``on_session_close``; return FAILED if it fails or is switched off."""
        guard = self._guards.of(self._plugin, method)
        return guard.wrap(function, method, fallback=lambda *_: FAILED)()

    def end_session(self) -> None:
        """Open or close the breakers of the callbacks."""
        self._guards.end_attempt()

    def wrap(self, kind: str, function: Any) -> Any:
        """Return the callback with a guard."""
        if isinstance(function, NodeCallback):
            return function._replace(function=self._guarded(kind, function.function, columns=function.columns))
        guarded = self._guarded(kind, function)
        return functools.partial(self._simulation, guarded) if kind == "simulation" else guarded

    def _guarded(self, kind: str, function: Callable[..., Any], *, columns: bool = False) -> Callable[..., Any]:
        guard = self._guards.of(self._plugin, kind)

        def fallback(error: BaseException, arguments: tuple[Any, ...]) -> Any:
            if kind in ("predicate", "reservation"):
                if isinstance(error, SwitchedOffError) and guard.options.failure_policy == "Ignore":
                    return None
                text = f"{self._plugin}: {failure_text(error)}"
                if kind == "reservation":
                    return text
                status = Status.error(text)
                return Verdicts.of([status] * len(arguments[1])) if columns else status
            if kind == "may_evict":
                return isinstance(error, SwitchedOffError) and guard.options.failure_policy == "Ignore"
            if kind == "batch_node_order":
                return 0.0 if columns else {}
            return FALLBACK.get(kind)

        return guard.wrap(function, kind, check=check_of(kind, columns=columns), fallback=fallback)

    def _simulation(self, make: Callable[[TaskInfo], Simulation], task: TaskInfo) -> _GuardedSimulation:
        return _GuardedSimulation(make(task), self._guards.of(self._plugin, "simulation"))


class _GuardedSimulation:
    """A user's Simulation; a failed call means that nothing can be simulated."""

    def __init__(self, simulation: Simulation, guard: Guard) -> None:
        for name in ("remove", "add", "allocatable", "predicate"):
            setattr(self, name, guard.wrap(getattr(simulation, name), "simulation", fallback=lambda *_: False))
