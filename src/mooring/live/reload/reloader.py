"""Reloader: plugins and configuration exchanged while the scheduler runs, when their files change.

What changed is loaded beside what runs, on a thread; checked and tried on a made-up cluster; and swapped in between two
attempts. Whatever goes wrong on the way leaves the last good version in force, and is told.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import structlog

from mooring.api.meta import ObjectReference
from mooring.config import ConfigError, SchedulerConfiguration
from mooring.framework.declarations import declared_kinds
from mooring.framework.plugin import Plugin
from mooring.kube import EventRecorder
from mooring.kube.events import EventKind
from mooring.live.background import Background
from mooring.live.batch.scheduler import BatchScheduler
from mooring.live.informers import Informers
from mooring.loading import POD, Catalog, Fault, PluginLoadError, Setup
from mooring.loading.deadline import HangsError, within
from mooring.loading.setup_files import SetupFiles
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
        batch: BatchScheduler | None,
        events: EventRecorder,
        wake: Callable[[], None],
        collect: bool,
    ) -> None:
        """``wake`` makes the scheduler look for pods to try; ``collect`` if garbage may be collected at once."""
        self.setup = setup
        self.state = ReloadState()
        self._files = files
        self._engine = engine
        self._informers = informers
        self._background = background
        self._batch = batch
        self._events = events
        self._wake = wake
        self._collect = collect

    async def reload(self) -> None:
        """The files changed: put in force what they say now, or go on as before and say why."""
        started = time.perf_counter()
        health, before = self._engine.guards.health, self.setup
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
        await self._settle(before)
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
        for note in (*kept, *(note for note in setup.notes if note not in before.notes)):
            log.warning(note)
        changed = list(_changes(before, setup))
        kinds = declared_kinds(enabled_classes(config, setup.plugins))
        retired: list[Plugin] = []
        gone = setup.catalog.modules() - before.catalog.modules()
        try:
            async with asyncio.timeout(_READ_SECONDS):
                await custom.watch(kinds)
            async with engine.lock:
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
        return changed

    async def _settle(self, before: Setup) -> None:
        """What is in force has changed: let the rest of the scheduler follow."""
        engine = self._engine
        if self._batch is not None and self.setup.catalog is not before.catalog:
            self._batch.use(self.setup.catalog)
        new = engine.profiles.runners.keys() - {profile.scheduler_name for profile in before.config.profiles}
        for pod in list(self._informers.pods()) if new else ():
            if pod.scheduler_name in new and not pod.node_name:
                engine.put(pod)
        await self._background.keep(engine.profiles.plugins)
        self._wake()  # pods that waited may have a node now
        if self._collect:
            gc.collect()  # modules are cycles, and here the collector comes by rarely

    def _tell(self, kind: EventKind, note: str) -> None:
        """Record how a reload went, on the lease, which stands for the scheduler."""
        config = self._engine.profiles.config
        lease = ObjectReference(
            api_version="coordination.k8s.io/v1",
            kind="Lease",
            namespace=config.leader_election.resource_namespace,
            name=config.leader_election.resource_name,
        )
        reason = "Reloaded" if kind == "Normal" else "ReloadFailed"
        component = config.profiles[0].scheduler_name or "mooring"  # without profiles there are only batch sessions
        self._events.record(lease, type=kind, reason=reason, action="Reloading", note=note[:1000], component=component)


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
