"""Reloader: plugins and configuration exchanged while the scheduler runs, when their files change.

What changed is loaded beside what runs, on a thread; checked and tried on a made-up cluster; and swapped in between two
attempts. Whatever goes wrong on the way leaves the last good version in force, and is told.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import msgspec
import structlog

from mooring.config import ConfigError, SchedulerConfiguration
from mooring.framework.declared import declared_kinds
from mooring.framework.plugin import Plugin
from mooring.kube.events import EventKind
from mooring.live.background import Background
from mooring.live.informers import Informers
from mooring.loading import POD, Catalog, Fault, PluginLoadError, Setup
from mooring.loading.deadline import HangsError, within
from mooring.loading.reread import SetupFiles
from mooring.scheduler.build import enabled_classes
from mooring.scheduler.dry_run import dry_run_fault
from mooring.scheduler.engine import Engine
from mooring.scheduler.profile import ProfileError
from mooring.scheduler.swap import forget_listeners, swap

log = structlog.get_logger("mooring.live")

#: Loading plugins, and reading the objects that new ones want, may take so long.
_LOAD_SECONDS, _READ_SECONDS = 60.0, 30.0
#: A call in the dry run that takes longer counts as one that hangs.
_CALL_SECONDS = 10.0
#: What can change while the scheduler runs; the rest of a configuration is for the next start.
_CHANGEABLE = frozenset(
    {"version", "profiles", "percentage_of_nodes_to_score", "pod_initial_backoff_seconds", "pod_max_backoff_seconds"}
)


class ReloadState(msgspec.Struct, frozen=True, rename="camel"):
    """How the last reload went."""

    #: What is wrong with the files as they are now; the version before them is in force.
    problems: tuple[Fault, ...] = ()
    #: How many reloads there were, and how many came to nothing.
    reloads: int = 0
    failed: int = 0


class Reloader:
    """Reloads the plugins and the configuration of one engine."""

    def __init__(
        self,
        files: SetupFiles,
        setup: Setup,
        *,
        engine: Engine,
        informers: Informers,
        background: Background,
        quiet: Callable[[], Awaitable[None]],
        use_sessions: Callable[[Catalog], None],
        tell: Callable[[EventKind, str], None],
        collect: bool,
    ) -> None:
        """``quiet`` waits for a moment in which nobody works on the cache.

        ``use_sessions`` gets what batch sessions may use. ``tell`` records an event. ``collect`` if garbage may be
        collected at once.
        """
        self.setup = setup
        self.state = ReloadState()
        self._files = files
        self._engine = engine
        self._informers = informers
        self._background = background
        self._quiet = quiet
        self._use_sessions = use_sessions
        self._tell = tell
        self._collect = collect

    async def reload(self) -> None:
        """The files changed: put in force what they say now, or go on as before and say why."""
        started = time.perf_counter()
        health = self._engine.guards.health
        try:
            setup = await asyncio.to_thread(within, _LOAD_SECONDS, self._load)
            changed = await self._put_in_force(setup)
        except Exception as error:
            problems = tuple(_faults(error))
            health.reloads["failed"] += 1
            self.state = ReloadState(problems, self.state.reloads, self.state.failed + 1)
            for problem in problems:
                log.error("not reloaded: the last good version stays in force", problem=str(problem))
            self._tell("Warning", f"not reloaded, the last good version stays in force: {problems[0]}")
            return
        if changed or self.state.problems:
            health.reloads["ok"] += 1
            self.state = ReloadState((), self.state.reloads + 1, self.state.failed)
            took = f"{(time.perf_counter() - started) * 1000:.0f}ms"
            log.info("reloaded", changed=changed or "nothing: as before the fault", took=took)
            self._tell("Normal", f"reloaded: {', '.join(changed) or 'as before the fault'}")

    def _load(self) -> Setup:
        """Load what the files say and try what is new of it; on a thread."""
        before = self.setup
        setup = self._files.load(before)
        try:
            faults = [fault for name in _new(before.catalog, setup.catalog) for fault in _try(setup, name)]
            if faults:
                raise PluginLoadError(faults)
        except BaseException:
            setup.catalog.unload(keep=before.catalog)
            raise
        return setup

    async def _put_in_force(self, setup: Setup) -> list[str]:
        """Swap; what changed, in words. Raises ProfileError, and nothing has changed then."""
        before, engine, custom = self.setup, self._engine, self._informers.custom
        config, kept = _changeable(before.config, setup.config)
        setup = msgspec.structs.replace(setup, config=config)
        changed = list(_changes(before, setup))
        kinds = declared_kinds(enabled_classes(config, setup.plugins))
        retired: list[Plugin] = []
        gone = setup.catalog.modules() - before.catalog.modules()
        try:
            async with asyncio.timeout(_READ_SECONDS):
                await custom.watch(kinds)
            await self._quiet()
            known_names = frozenset(engine.profiles.cycles)
            retired = swap(engine, config, setup.plugins, setup.catalog.options())
            self.setup = setup
            gone = before.catalog.unload(keep=setup.catalog)
        except TimeoutError:
            raise ProfileError(f"the cluster did not tell within {_READ_SECONDS:g} s what the plugins read") from None
        finally:
            forget_listeners(engine, retired, gone)
            if self.setup is before:
                setup.catalog.unload(keep=before.catalog)
            await custom.retain(engine.profiles.kinds)
        self._use_sessions(setup.catalog)
        for pod in list(self._informers.pods()):
            if pod.scheduler_name in engine.profiles.cycles.keys() - known_names and not pod.node_name:
                engine.put(pod)
        await self._background.keep(engine.profiles.plugins)
        for note in (*kept, *(note for note in setup.notes if note not in before.notes)):
            log.warning(note)
        if self._collect:
            gc.collect()  # modules are cycles, and here the collector comes by rarely
        return changed


def _faults(error: Exception) -> Iterator[Fault]:
    if isinstance(error, PluginLoadError):
        yield from error.faults
    elif isinstance(error, ConfigError):
        for line in error.lines():
            yield Fault("", 0, line)
    elif isinstance(error, HangsError):
        yield Fault("", 0, f"loading the plugins {error}")
    else:
        name = "" if isinstance(error, ProfileError) else f"{type(error).__name__}: "
        yield Fault("", 0, f"{name}{error}")


def _new(before: Catalog, after: Catalog) -> Iterator[str]:
    """The plugins for pods that are others than before."""
    for name, found in after.found.items():
        known = before.found.get(name)
        if found.kind is POD and (known is None or known.cls is not found.cls):
            yield name


def _try(setup: Setup, name: str) -> Iterator[Fault]:
    """What goes wrong when a plugin is called on a made-up cluster, with the arguments of each profile that has it."""
    found = setup.catalog.found[name]
    tried: list[Any] = []
    for profile in setup.config.profiles:
        args = profile.plugin_config.get(name)
        enabled = any(entry.name == name for point in profile.plugins.values() for entry in point)
        if enabled and args not in tried:
            tried.append(args)
            yield from dry_run_fault(found, args, _CALL_SECONDS)


def _changeable(old: SchedulerConfiguration, new: SchedulerConfiguration) -> tuple[SchedulerConfiguration, list[str]]:
    """The new configuration as far as it can hold now, and what to say of the rest."""
    fixed = {
        name: getattr(old, name)
        for name in SchedulerConfiguration.__struct_fields__
        if name not in _CHANGEABLE and getattr(old, name) != getattr(new, name)
    }
    if not fixed:
        return new, []
    names = ", ".join(sorted(_camel(name) for name in fixed if name != "written_extenders"))
    return msgspec.structs.replace(new, **fixed), [
        f"changed in the configuration, but holds from the next start: {names}"
    ]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _changes(before: Setup, after: Setup) -> Iterable[str]:
    """What is different, in words."""
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
        yield "options of plugins"
