"""LiveScheduler: the engine with everything that connects it to a cluster.

One asyncio loop runs everything but the lease: reflectors feed the engine, the scheduling loop runs attempts in short
slices and binds concurrently. Losing the lease stops all of it at once.
"""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

import structlog

from mooring.api.pod import Pod
from mooring.batch.plugin import SessionGuards
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.kube import Access, Client, ElectionSettings, ElectionThread, EventRecorder
from mooring.live.api_adapters import ApiBinder, ApiVolumeWriter, LiveApiReader
from mooring.live.background import Background
from mooring.live.batch.batch_scheduler import BatchScheduler
from mooring.live.batch.batch_settings import BatchSettings
from mooring.live.cache_debugger import CacheDebugger
from mooring.live.endpoints.endpoint_server import ServerSettings
from mooring.live.endpoints.plugin_status import plugin_status
from mooring.live.endpoints.scheduler_endpoints import Endpoints, make_observer, make_server
from mooring.live.evictions import Evictions
from mooring.live.extenders import ExtenderClient
from mooring.live.informers import Informers, Shown
from mooring.live.reload.file_watch import FileWatch
from mooring.live.reload.reloader import Reloader
from mooring.live.reporter import PluginEvents, Reporter
from mooring.live.watchdog import Watchdog
from mooring.loading import Catalog, Setup
from mooring.loading.setup_files import SetupFiles
from mooring.observe.session_metrics import SessionMetrics
from mooring.scheduler.engine import Engine
from mooring.scheduler.extenders import Extenders
from mooring.scheduler.scheduling_loop import SchedulingLoop

log = structlog.get_logger("mooring.live")

#: From this many binds in flight on, events wait.
_BUSY_IN_FLIGHT = 32
#: How long a stop waits for running binds and unwritten events.
_GRACE_SECONDS = 5.0


#: Attempts create many short-lived objects and few reference cycles, so collections are rare.
_GC_THRESHOLDS = (50_000, 20, 50)


class LostLeaseError(RuntimeError):
    """Another scheduler holds the lease: this one must not bind any more."""


class LiveScheduler:
    """Schedules the pods of a cluster until stopped."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        access: Access,
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        catalog: Catalog | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        serve: ServerSettings | None = None,
        plain: Sequence[ServerSettings] = (),
        records: bool = True,
        whole_process: bool = True,
        batch: BatchSettings | None = None,
        files: SetupFiles | None = None,
        reload: bool = True,
    ) -> None:
        """``serve`` says where health, metrics and decisions are served, ``plain`` where some of that is served in
        plain HTTP; ``records=False`` keeps no decisions.

        ``whole_process=False`` leaves settings of the process alone, because others live in it too. ``catalog`` has the
        plugins that were loaded from files, and how they are guarded; ``plugins`` are others. With ``batch`` there are
        batch sessions too, for pods of other scheduler names; a bad configuration raises ConfigError. ``files`` are
        where the configuration and the catalog came from: when they change, they are read again, unless ``reload`` is
        off.
        """
        self._config = config
        self._whole_process = whole_process
        self.catalog = catalog if catalog is not None else Catalog()
        self._access = access
        connection = config.client_connection
        self._client = Client(access, qps=connection.qps, burst=connection.burst, may_write=self._may_write)
        self._binder = ApiBinder(self._client)
        self._extender_client = ExtenderClient()
        self._extenders = Extenders(config.extenders, self._extender_client.send)
        self._events = EventRecorder(self._client, hold_back=self._draining)
        self._reporter = Reporter(self._client, self._events, clock)
        self.engine = Engine(
            config,
            plugins={**self.catalog.classes(), **(plugins or {})},
            clock=clock,
            rng=rng,
            binder=self._binder,
            volumes=ApiVolumeWriter(self._client, self._pod),
            api=LiveApiReader(self._client),
            options=self.catalog.options(),
            tell=log.warning,
            observer=make_observer(clock, records=records),
            extenders=self._extenders,
            expect=self._reporter.expect,
            evicts_later=True,
            recorder=PluginEvents(self._events, component=config.profiles[0].scheduler_name),
        )
        self._evictions = Evictions(self._client, self.engine, self._reporter, clock)
        self._loop = SchedulingLoop(
            self.engine,
            self._reporter,
            evict=self._evictions.carry_out,
            latest=self._pod,
            in_flight=lambda: self._binder.in_flight,
        )
        self.informers = Informers(
            self._client, self.engine, self._loop.wake, shown=self._shown(), finished=batch is not None
        )
        #: Batch sessions, if there are any.
        self.batch = None if batch is None else self._make_batch(batch, clock, rng)
        self._background = Background()
        self._watchdog = Watchdog(self.engine.guards)
        self._file_watch = FileWatch()
        #: What reads the files again, if they are.
        self.reloader = self._make_reloader(files) if files is not None and reload else None
        if self.batch is not None and reload:
            self._file_watch.add(self.batch.conf.paths, self.batch.conf_changed)
        self._leading = asyncio.Event()
        self._election: ElectionThread | None = None
        self._lost = False
        self._stopping = False
        #: The endpoints, if they are served.
        self.server = None if serve is None and not plain else self._server(serve, plain)
        #: Set when everything was read and (if need be) the lease is held.
        self.ready = asyncio.Event()

    def _make_batch(
        self, settings: BatchSettings, clock: Callable[[], float], rng: random.Random | None
    ) -> BatchScheduler:
        metrics = self.engine.observer.metrics if self.engine.observer is not None else None
        batch = BatchScheduler(
            settings,
            metrics=None if metrics is None else SessionMetrics(metrics.registry),
            records=self.engine.observer.records if self.engine.observer is not None else None,
            cache=self.engine.cache,
            client=self._client,
            binder=self._binder,
            volumes=ApiVolumeWriter(self._client, self._pod),
            reporter=self._reporter,
            lock=self.engine.lock,
            catalog=self.catalog,
            guards=SessionGuards(
                clock=clock,
                health=self.engine.guards.health,
                in_progress=self.engine.guards.in_progress,
                log=log.warning,
            ),
            clock=clock,
            rng=rng,
        )
        self.informers.listener = batch.changed
        return batch

    def _make_reloader(self, files: SetupFiles) -> Reloader:
        reloader = Reloader(
            files,
            Setup(self._config, self.catalog),
            engine=self.engine,
            informers=self.informers,
            background=self._background,
            batch=self.batch,
            events=self._events,
            wake=self._loop.wake,
            collect=self._whole_process,
        )
        self._file_watch.add(files.paths, reloader.reload, files.seen)
        return reloader

    def _shown(self) -> Shown:
        """Return the objects that extenders are sent in full."""
        extenders = self._extenders
        return Shown(
            nodes=extenders.want_nodes,
            waiting_pods=extenders.decide,
            placed_pods=extenders.want_victims,
        )

    def _pod(self, key: str) -> Pod | None:
        return self.informers.pod(key)

    def _draining(self) -> bool:
        return self._binder.in_flight >= _BUSY_IN_FLIGHT

    def debug(self) -> None:
        """Compare the cache with the API server in the background and log the differences."""
        self._loop.start(CacheDebugger(self._client, self.engine).report())

    async def cache_differences(self) -> set[str]:
        """Return the differences between the cache and the API server when both are idle; any is a bug."""
        return await CacheDebugger(self._client, self.engine).differences()

    # Running

    async def run(self) -> None:
        """Schedule until cancelled. Raises LostLeaseError when the lease is lost."""
        try:
            self._watchdog.start()
            if self.server is not None:
                await self.server.start()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._events.run(), name="events")
                self.informers.start(tasks)
                self._background.begin(tasks)
                lease = tasks.create_task(self._hold_lease(), name="lease") if self._elects else None
                await self.informers.synced()
                await self.informers.custom.watch(self.engine.profiles.kinds)
                await self._background.keep(self.engine.profiles.plugins)
                if self._whole_process:
                    _relieve_collector()
                if lease is not None:
                    await self._leading.wait()
                if self.batch is not None:
                    await self.batch.begin(tasks, self.informers.apply)
                log.info("Scheduling", nodes=len(self.engine.cache.table), pods=len(self.engine.cache.table.pods))
                self.ready.set()
                tasks.create_task(self._file_watch.run(), name="files")
                try:
                    await self._loop.run()
                finally:
                    self._stopping = True
                    await asyncio.shield(self._finish())
        except* LostLeaseError as lost:
            raise LostLeaseError(str(lost.exceptions[0])) from None
        finally:
            self._watchdog.stop()
            if self.server is not None:
                await self.server.stop()
            await self._extender_client.close()
            await self._client.close()

    def _tasks_under_way(self) -> dict[str, int]:
        """Return the values of the goroutines metric; extenders only if there are any."""
        asking = {"prioritizing_extender": self._extender_client.prioritizing} if self._extenders else {}
        return {"binding": self._loop.binding, **asking}

    def _server(self, settings: ServerSettings | None, plain: Sequence[ServerSettings]) -> Endpoints:
        metrics = self.engine.observer.metrics if self.engine.observer is not None else None
        if metrics is not None:
            metrics.readings.tasks = self._tasks_under_way
        return make_server(
            settings,
            plain=plain,
            engine=self.engine,
            config=lambda: self.engine.profiles.config,
            plugins=lambda: plugin_status(self.engine, self.catalog, self.reloader),
            client=self._client,
            informers=self.informers,
            election=lambda: self._election,
            is_stopping=lambda: self._stopping,
        )

    async def _finish(self) -> None:
        """Finish running binds and write the remaining events; stop at once if the lease is lost."""
        await self._loop.finish(0.0 if self._lost else _GRACE_SECONDS)
        if not self._lost:
            await self._events.drain(_GRACE_SECONDS)

    # The lease

    @property
    def _elects(self) -> bool:
        return self._config.leader_election.leader_elect

    def _may_write(self) -> bool:
        """Whether writes are allowed; checked before each one, because the lease may have expired while paused."""
        return not self._elects or (not self._lost and self._election is not None and self._election.holds())

    async def _hold_lease(self) -> None:
        """Run leader election on a thread; a lost lease stops the scheduler."""
        election = self._config.leader_election
        loop = asyncio.get_running_loop()
        lost = asyncio.Event()
        settings = ElectionSettings(
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            namespace=election.resource_namespace,
            name=election.resource_name,
            lease_duration=election.lease_duration / 1e9,
            renew_deadline=election.renew_deadline / 1e9,
            retry_period=election.retry_period / 1e9,
        )
        thread = ElectionThread(
            self._access,
            settings,
            on_started=from_thread(loop, self._leading),
            on_lost=from_thread(loop, lost),
        )
        self._election = thread
        thread.start()
        try:
            await lost.wait()
            self._lost = True
            raise LostLeaseError("the lease was lost: another scheduler leads, or the API server cannot be reached")
        finally:
            await asyncio.to_thread(thread.stop)


def _relieve_collector() -> None:
    gc.collect()
    gc.freeze()  # listed objects are long-lived; exclude them from collections
    gc.set_threshold(*_GC_THRESHOLDS)


def from_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> Callable[[], None]:
    """Return a function that sets an event of a loop from another thread."""

    def set_event() -> None:
        loop.call_soon_threadsafe(event.set)

    return set_event
