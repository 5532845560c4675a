"""Reloader: replaces plugins and configuration while the scheduler runs, when their files change.

The new version is loaded and dry-run on a simulated cluster on a thread, then swapped in between two scheduling
attempts. If anything fails, the error is reported and the last good version stays in effect.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.api.meta import ObjectReference
from mooring.config import ConfigError, SchedulerConfiguration
from mooring.framework.declarations import declared_kinds
from mooring.framework.plugin_errors import contain
from mooring.kube import EventRecorder
from mooring.kube.event_recorder import EventKind
from mooring.live.background import Background
from mooring.live.informers import Informers, device_kinds
from mooring.loading import ACTION, POD, SESSION, Catalog, Fault, Kind, PluginLoadError, Setup
from mooring.loading.deadline import load_within
from mooring.loading.plugin_kinds import plugin_name
from mooring.loading.setup_files import SetupFiles
from mooring.logs import get_logger
from mooring.scheduler.dry_run import dry_run_found
from mooring.scheduler.engine import Engine
from mooring.scheduler.profile import ProfileError
from mooring.scheduler.profiles import enabled_classes, swap

if TYPE_CHECKING:  # imported only if sessions run
    from mooring.batch.conf import BatchConf
    from mooring.live.batch.batch_scheduler import BatchScheduler

log = get_logger("mooring.live")

#: The timeouts for loading plugins, and for listing the kinds that new plugins read.
_LOAD_SECONDS, _READ_SECONDS = 60.0, 30.0
#: The time that replaced plugins have to stop their threads.
_CLOSE_SECONDS = 1.0
#: The timeout of a plugin call in the dry run.
_CALL_SECONDS = 10.0
#: The configuration fields that can change while the scheduler runs; the others need a restart.
_RELOADABLE = frozenset(
    {
        "version",
        "profiles",
        "percentage_of_nodes_to_score",
        "pod_initial_backoff_seconds",
        "pod_max_backoff_seconds",
        "tie_break",
    }
)


class ReloadState(msgspec.Struct, frozen=True, rename="camel"):
    """The result of the last reload."""

    #: Errors in the current files; while there are any, the previous version is in effect.
    problems: tuple[Fault, ...] = ()
    #: The numbers of successful and failed reloads.
    reloads: int = 0
    failed: int = 0


class ReloadRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One reload, for the history."""

    #: Seconds since the epoch.
    time: float
    ok: bool
    text: str


#: The number of reloads in the history.
_HISTORY = 50


class Reloader:
    """The reloader of the plugins and the configuration of one engine."""

    def __init__(
        self,
        files: SetupFiles,
        setup: Setup,
        *,
        engine: Engine,
        informers: Informers,
        background: Background,
        batch: BatchScheduler | None,
        events: EventRecorder,
        wake: Callable[[], None],
        collect: bool,
    ) -> None:
        """``wake`` wakes the scheduling loop; ``collect`` allows an immediate garbage collection."""
        self.setup = setup
        self.state = ReloadState()
        #: The last reloads, the newest last.
        self.history: deque[ReloadRecord] = deque(maxlen=_HISTORY)
        #: The threads and files that replaced versions left open, by plugin.
        self.leaks: dict[str, list[str]] = {}
        self._files = files
        self._engine = engine
        self._informers = informers
        self._background = background
        self._batch = batch
        self._events = events
        self._wake = wake
        self._collect = collect

    async def reload(self) -> None:
        """Load the changed files and swap them in, or report why the previous version stays in effect."""
        started = time.perf_counter()
        health, before = self._engine.guards.health, self.setup
        try:
            setup = await asyncio.to_thread(load_within, _LOAD_SECONDS, self._load)
            changed = await self._swap_in(setup)
        except BaseException as error:
            contain(error)
            problems = tuple(_problems(error))
            health.reloads["failed"] += 1
            self.state = ReloadState(problems, self.state.reloads, self.state.failed + 1)
            for problem in problems:
                log.error("Reload failed; the last good version stays in effect", problem=str(problem))
                self.history.append(ReloadRecord(time.time(), False, str(problem)))
            self._record_event("Warning", f"reload failed, the last good version stays in effect: {problems[0]}")
            return
        await self._after_swap(before)
        if changed or self.state.problems:
            health.reloads["ok"] += 1
            self.state = ReloadState((), self.state.reloads + 1, self.state.failed)
            took = f"{(time.perf_counter() - started) * 1000:.0f}ms"
            log.info("Reloaded", changed=changed or "nothing", took=took)
            self.history.append(ReloadRecord(time.time(), True, f"{', '.join(changed) or 'unchanged'} ({took})"))
            self._record_event("Normal", f"reloaded: {', '.join(changed) or 'unchanged'}")

    def _load(self) -> Setup:
        """Load the files and dry-run new plugins; runs on a thread."""
        before = self.setup
        setup = self._files.load(before)
        try:
            faults = [fault for name in _new(before.catalog, setup.catalog) for fault in _dry_run(setup, name)]
            if self._batch is not None:
                faults += _dry_run_sessions(self._batch.conf.current, before.catalog, setup.catalog)
            if faults:
                raise PluginLoadError(faults)
        except BaseException:
            setup.catalog.unload(keep=before.catalog)
            raise
        return setup

    async def _swap_in(self, setup: Setup) -> list[str]:
        """Swap in a setup and return descriptions of the changes. Raises ProfileError, without a change."""
        before, engine, custom = self.setup, self._engine, self._informers.custom
        config, ignored = _reloadable(before.config, setup.config)
        setup = msgspec.structs.replace(setup, config=config)
        for note in (*ignored, *(note for note in setup.notes if note not in before.notes)):
            log.warning(note)
        changed = list(_changes(before, setup))
        devices = device_kinds(config.release) if self._batch is not None else ()
        kinds = (*declared_kinds(enabled_classes(config, setup.plugins), config.release), *devices)
        try:
            async with asyncio.timeout(_READ_SECONDS):
                await custom.watch(kinds)
            async with engine.lock:
                swap(engine, config, setup.plugins, setup.catalog.options())
            self.setup = setup
            before.catalog.unload(keep=setup.catalog)
        except TimeoutError:
            raise ProfileError(f"the kinds that the plugins read were not listed within {_READ_SECONDS:g} s") from None
        finally:
            if self.setup is before:
                setup.catalog.unload(keep=before.catalog)
            await custom.retain((*engine.profiles.kinds, *devices))
        return changed

    async def _after_swap(self, before: Setup) -> None:
        """Update the rest of the scheduler after a swap."""
        engine = self._engine
        if self._batch is not None and self.setup.catalog is not before.catalog:
            self._batch.use(self.setup.catalog)
        await self._background.keep(engine.profiles.plugins)
        self._wake()  # pending pods may be schedulable now
        if self._collect:
            gc.collect()  # modules are reference cycles, and automatic collection is rare here
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self._find_leaks)

    def _find_leaks(self) -> None:
        """Report threads and files that replaced versions of plugins left open."""
        guards, found = self._engine.guards, dict[str, list[str]]()
        for module, left in guards.leaks.find(files=self._collect).items():
            found.setdefault(guards.plugin_in(module), []).extend(left)
        for name, left in found.items():
            if left != self.leaks.get(name):
                log.warning("Replaced versions of a plugin left threads or files open", plugin=name, open=left)
        self.leaks = found

    def _record_event(self, kind: EventKind, note: str) -> None:
        """Record an event about a reload on the lease, which represents the scheduler."""
        config = self._engine.profiles.config
        lease = ObjectReference(
            api_version="coordination.k8s.io/v1",
            kind="Lease",
            namespace=config.leader_election.resource_namespace,
            name=config.leader_election.resource_name,
        )
        reason = "Reloaded" if kind == "Normal" else "ReloadFailed"
        component = config.profiles[0].scheduler_name or "mooring"  # empty if there are only batch sessions
        self._events.record(lease, type=kind, reason=reason, action="Reloading", note=note[:1000], component=component)


def _problems(error: BaseException) -> Iterator[Fault]:
    if isinstance(error, PluginLoadError):
        yield from error.faults
    elif isinstance(error, ConfigError):
        for line in error.lines():
            yield Fault("", 0, line)
    else:
        name = "" if isinstance(error, ProfileError) else f"{type(error).__name__}: "
        yield Fault("", 0, f"{name}{error}")


def _new(before: Catalog, after: Catalog, kinds: tuple[Kind, ...] = (POD,)) -> Iterator[str]:
    """Yield the names of plugins of some kinds that are new or changed."""
    for name, found in after.found.items():
        known = before.found.get(name)
        if found.kind in kinds and (known is None or known.cls is not found.cls):
            yield name


def _dry_run_sessions(conf: BatchConf, before: Catalog, after: Catalog) -> Iterator[Fault]:
    """Yield errors of new or changed session plugins and actions that the configuration of sessions names."""
    from mooring.batch.dry_run import dry_run_session
    from mooring.live.batch.batch_settings import session_plugins

    users = session_plugins(after)
    arguments = {plugin_name(users[each.name]): each.arguments for each in conf.options() if each.name in users}
    for name in _new(before, after, (SESSION, ACTION)):
        found = after.found[name]
        if name in arguments or (found.kind is ACTION and name in conf.actions):
            result = dry_run_session(found, arguments.get(name, {}), _CALL_SECONDS)
            yield from result.faults
            if result.reason:
                yield Fault(str(found.path or ""), 0, f"{name}: {result.reason}")


def _dry_run(setup: Setup, name: str) -> Iterator[Fault]:
    """Yield errors of a plugin on a simulated cluster, with the arguments of each profile that enables it."""
    found = setup.catalog.found[name]
    done: list[Any] = []
    for profile in setup.config.profiles:
        args = profile.plugin_config.get(name)
        enabled = any(entry.name == name for point in profile.plugins.values() for entry in point)
        if enabled and args not in done:
            done.append(args)
            yield from dry_run_found(found, args, _CALL_SECONDS).faults


def _reloadable(old: SchedulerConfiguration, new: SchedulerConfiguration) -> tuple[SchedulerConfiguration, list[str]]:
    """Return the new configuration without fields that need a restart, and a warning about those."""
    fixed = {
        name: getattr(old, name)
        for name in SchedulerConfiguration.__struct_fields__
        if name not in _RELOADABLE and getattr(old, name) != getattr(new, name)
    }
    if not fixed:
        return new, []
    names = ", ".join(sorted(_camel(name) for name in fixed if name != "written_extenders"))
    return msgspec.structs.replace(new, **fixed), [f"configuration changes that need a restart: {names}"]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _changes(before: Setup, after: Setup) -> Iterable[str]:
    """Yield descriptions of the differences."""
    old, new = before.catalog.found, after.catalog.found
    for name in sorted({*old, *new}):
        if name not in old:
            yield f"plugin {name} added"
        elif name not in new:
            yield f"plugin {name} removed"
        elif old[name].cls is not new[name].cls:
            yield f"plugin {name}"
    if before.config != after.config:
        yield "configuration"
    if before.catalog.options() != after.catalog.options():
        yield "plugin options"
