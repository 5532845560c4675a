"""LiveScheduler: the engine and everything that connects it to a cluster.

One asyncio loop runs everything except the lease: reflectors update the engine, and the scheduling loop runs attempts
in short slices and binds concurrently. A lost lease stops all of it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import random
import socket
import time
import uuid
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.kube import Access, Client, ElectionSettings, EventRecorder, Leadership, LostLeaseError
from mooring.live.api_adapters import ApiBinder, ApiVolumeWriter, LiveApiReader
from mooring.live.background import Background
from mooring.live.cache_debugger import CacheDebugger
from mooring.live.claim_writer import ApiClaimWriter
from mooring.live.endpoints.endpoint_server import Extension, ServerSettings
from mooring.live.endpoints.plugin_status import plugin_status
from mooring.live.endpoints.scheduler_endpoints import Endpoints, make_observer, make_server
from mooring.live.evictions import Evictions
from mooring.live.informers import Informers, RawObjects, device_kinds
from mooring.live.reload.file_watch import FileWatch
from mooring.live.reload.reloader import Reloader
from mooring.live.reporter import PluginEvents, Reporter
from mooring.loading import Catalog, Setup
from mooring.loading.plugin_rows import PluginRow
from mooring.loading.setup_files import SetupFiles
from mooring.loading.watchdog import Watchdog
from mooring.logs import get_logger
from mooring.observe.process_metrics import ProcessMetrics, RestClientMetrics
from mooring.scheduler.attempt_budget import AttemptBudget
from mooring.scheduler.engine import Engine
from mooring.scheduler.extenders import Extenders, Reply, Request
from mooring.scheduler.scheduling_loop import SchedulingLoop

if TYPE_CHECKING:  # what few configurations use is imported only for them, which makes other starts faster
    from mooring.kube.membership import MembershipSettings
    from mooring.live.active_active import ActiveActive
    from mooring.live.batch.batch_scheduler import BatchScheduler
    from mooring.live.batch.batch_settings import BatchSettings
    from mooring.live.extenders import ExtenderClient
    from mooring.live.recording import LiveRecording
    from mooring.live.suggestion_writer import SuggestionWriter
    from mooring.observe.tracing import AttemptTracer
    from mooring.recording.records import PluginFile

log = get_logger("mooring.live")

#: Events are delayed while at least this many binds are in flight.
_BUSY_IN_FLIGHT = 32
#: How long a stop waits for running binds and unwritten events.
_GRACE_SECONDS = 5.0


#: Attempts create many short-lived objects and few reference cycles, so collections are rare.
_GC_THRESHOLDS = (50_000, 20, 50)


class LiveScheduler:
    """A scheduler for the pods of a cluster."""

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
        tracer: AttemptTracer | None = None,
        recording: LiveRecording | None = None,
        active_active: MembershipSettings | None = None,
        suggestions: Collection[str] = (),
        extend: Callable[[LiveScheduler], Sequence[Extension]] | None = None,
    ) -> None:
        """``serve`` configures the endpoints (health, metrics, decisions), and ``plain`` those over plain HTTP.

        With ``records=False``, no decisions are recorded. With ``whole_process=False``, the settings of the process
        stay unchanged, because other code runs in it too. ``catalog`` contains the plugins loaded from files and their
        options; ``plugins`` are additional ones. With ``batch``, batch sessions schedule the pods of other scheduler
        names; an invalid configuration raises ConfigError. ``files`` are the source of the configuration and the
        catalog. They are reloaded when they change, unless ``reload`` is False. ``tracer`` traces attempts.
        ``recording`` records the inputs of the engine and its decisions; it provides the random numbers then.
        With ``active_active``, it is a member of a group of schedulers, and there is no leader election.
        ``suggestions`` are the kinds of objects in which suggestions for pending pods and decisions are written.
        ``extend`` returns additional endpoints for this scheduler.
        """
        self._config = config
        self._tracer = tracer
        self._extend = extend
        self._whole_process = whole_process
        self.catalog = catalog if catalog is not None else Catalog()
        connection = config.client_connection
        requests = RestClientMetrics(access.server)
        election = _election_settings(config) if active_active is None else None
        self._leadership = Leadership(access, election, observer=requests)
        self._client = Client(
            access,
            qps=connection.qps,
            burst=connection.burst,
            may_write=self._leadership.may_write if active_active is None else self._group_may_write,
            observer=requests,
        )
        if batch is not None:
            self._client.failures.rbac_command = "mooring rbac --batch"
        self._binder = self._make_binder(fenced=active_active is not None)
        self._recording = recording
        #: The client of the extenders; None if there are none.
        self._extender_client = _extender_client(config)
        send = self._ask_extender if recording is None else recording.inputs.send(self._ask_extender)
        self._extenders = Extenders(config.extenders, send)
        self._events = EventRecorder(self._client, hold_back=self._draining)
        component = config.profiles[0].scheduler_name
        self._reporter = Reporter(self._client, self._events, clock, component=component)
        observer = make_observer(clock, release=config.release, records=records, tracer=tracer)
        self._claims = ApiClaimWriter(self._client, self._start, observer.metrics.claims if observer.metrics else None)
        make: Callable[..., Engine] = functools.partial(Engine, clock=clock)
        if recording is not None:
            from mooring.scheduler.recorded_engine import RecordedEngine

            rng = recording.rng
            describe = functools.partial(recording.describe, plugins=lambda: self.plugin_files)
            make = functools.partial(RecordedEngine, inputs=recording.inputs, describe=describe)
        self.engine = make(
            config,
            plugins={**self.catalog.classes(), **(plugins or {})},
            rng=rng,
            binder=self._binder,
            volumes=ApiVolumeWriter(self._client, self._pod),
            claims=self._claims,
            api=LiveApiReader(self._client),
            options=self.catalog.options(),
            warn=log.warning,
            observer=observer,
            extenders=self._extenders,
            expect=self._reporter.expect,
            evicts_later=True,
            budget=AttemptBudget(),
            recorder=PluginEvents(self._events, component=component),
        )
        self._register_metrics(requests)
        self._evictions = Evictions(self._client, self.engine, self._reporter, clock)
        #: The writer of suggestions; None if none are written.
        self.suggestions: SuggestionWriter | None = self._make_suggestions(suggestions) if suggestions else None
        self._loop = SchedulingLoop(
            self.engine,
            self.suggestions or self._reporter,
            evict=self._evictions.carry_out,
            latest=self._pod,
            in_flight=self._writes_in_flight,
        )
        self.engine.report_group = lambda group, status: self._start(self._reporter.group(group, status))
        self.informers = Informers(
            self._client, self.engine, self._loop.wake, shown=self._raw_objects(), finished=batch is not None
        )
        #: The group of schedulers that this one belongs to; None if it works alone.
        self.group = None if active_active is None else self._make_group(access, active_active, requests)
        self.engine.cache.objects.reports_failures = True
        self.informers.report_invalid = self._client.on_invalid = self._reporter.invalid
        #: The batch sessions; None if there are none.
        self.batch: BatchScheduler | None = None if batch is None else self._make_batch(batch, clock, rng)
        self._background = Background()
        self._watchdog = Watchdog(self.engine.guards)
        self._file_watch = FileWatch()
        #: The reloader of the files; None if they are not reloaded.
        self.reloader = self._make_reloader(files) if files is not None and reload else None
        if self.batch is not None and reload:
            self._file_watch.add(self.batch.conf.paths, self.batch.conf_changed)
        self._stopping = False
        #: The endpoints; None if they are not served.
        self.server = None if serve is None and not plain else self._server(serve, plain)
        #: Set when all informers are synced and, with leader election, the lease is held.
        self.ready = asyncio.Event()

    def _register_metrics(self, requests: RestClientMetrics) -> None:
        metrics = self.engine.observer.metrics if self.engine.observer is not None else None
        if metrics is not None:
            leads = self._leadership
            process = ProcessMetrics(
                requests,
                lease=leads.lease,
                is_leader=lambda: leads.is_leader,
                emulates=self._config.release.version,
            )
            metrics.add(process.register)

    def _make_suggestions(self, kinds: Collection[str]) -> SuggestionWriter:
        from mooring.live.suggestion_writer import SuggestionWriter

        return SuggestionWriter(
            kinds,
            reporter=self._reporter,
            client=self._client,
            events=self._events,
            engine=self.engine,
            gangs=lambda: self.batch,
            latest=self._pod,
        )

    def _make_batch(
        self, settings: BatchSettings, clock: Callable[[], float], rng: random.Random | None
    ) -> BatchScheduler:
        from mooring.batch.plugin import SessionGuards
        from mooring.live.batch.batch_scheduler import BatchScheduler
        from mooring.observe.session_metrics import SessionMetrics

        metrics = self.engine.observer.metrics if self.engine.observer is not None else None
        batch = BatchScheduler(
            settings,
            metrics=None if metrics is None else SessionMetrics(metrics.registry),
            records=self.engine.observer.records if self.engine.observer is not None else None,
            cache=self.engine.cache,
            client=self._client,
            binder=self._binder,
            volumes=ApiVolumeWriter(self._client, self._pod),
            claims=self._claims,
            reporter=self._reporter,
            lock=self.engine.lock,
            on_failed_eviction=self.engine.eviction_failed,
            catalog=self.catalog,
            guards=SessionGuards(
                clock=clock,
                health=self.engine.guards.health,
                modules=self.engine.guards.modules,
                log=log.warning,
            ),
            eviction_rules=lambda: self.engine.profiles.eviction_rules,
            clock=clock,
            rng=rng,
        )
        if self.suggestions is not None:
            batch.on_waiting = self.suggestions.waits
        self.informers.listener = batch.changed
        return batch

    @property
    def plugin_files(self) -> tuple[PluginFile, ...]:
        """The plugins that are not built in, with the hashes of their files."""
        from mooring.live.recording import plugin_files

        catalog = self.reloader.setup.catalog if self.reloader is not None else self.catalog
        return plugin_files(catalog)

    def _additional_kinds(self) -> tuple[type[KubeObject], ...]:
        """Return the kinds that plugins read, and the devices that batch sessions allocate."""
        devices = device_kinds(self._config.release) if self.batch is not None else ()
        return (*self.engine.profiles.kinds, *devices)

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

    def _raw_objects(self) -> RawObjects:
        """Return the objects that extenders receive in full."""
        extenders = self._extenders
        return RawObjects(
            nodes=extenders.want_nodes,
            waiting_pods=extenders.decide,
            placed_pods=extenders.want_victims,
        )

    def _make_group(self, access: Access, settings: MembershipSettings, requests: RestClientMetrics) -> ActiveActive:
        from mooring.live.active_active import ActiveActive, ActiveActiveMetrics

        group = ActiveActive(
            access,
            settings,
            self.engine,
            informers=self.informers,
            start=self._start,
            wake=self._loop.wake,
            observer=requests,
        )
        metrics = self.engine.observer.metrics if self.engine.observer is not None else None
        if metrics is not None:
            ActiveActiveMetrics(group, self.engine).register(metrics.registry)
        return group

    def _make_binder(self, *, fenced: bool) -> ApiBinder:
        if not fenced:
            return ApiBinder(self._client, retries=self._config.release.retries_bindings)
        from mooring.live.active_active import FencedBinder

        return FencedBinder(self._client, self._active_group, self._pod)

    def _group_may_write(self) -> bool:
        return self._leadership.may_write() if self.group is None else self.group.may_write()

    def _active_group(self) -> ActiveActive:
        assert self.group is not None
        return self.group

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._loop.start(work)

    def _pod(self, key: str) -> Pod | None:
        return self.informers.pod(key)

    def _draining(self) -> bool:
        return self._binder.in_flight + self._claims.in_flight >= _BUSY_IN_FLIGHT

    def _writes_in_flight(self) -> int:
        """Return how many binds, and writes of claims before them, the server has not answered yet."""
        return self._binder.in_flight + self._claims.in_flight

    def debug(self) -> None:
        """Compare the cache with the API server in the background and log the differences."""
        self._loop.start(CacheDebugger(self._client, self.engine).report())

    def plugin_rows(self) -> list[PluginRow]:
        """Return the status of the plugins."""
        return plugin_status(self.engine, self.catalog, self.reloader, self.batch)

    async def cache_differences(self) -> set[str]:
        """Return the differences between the cache and the API server. Both must be idle; any difference is a bug."""
        return await CacheDebugger(self._client, self.engine).differences()

    # Running

    def hurry(self) -> None:
        """Interrupt plugin calls early, because the process stops. May be called by a signal handler."""
        self._watchdog.hurry()

    def _start_writers(self, tasks: asyncio.TaskGroup) -> None:
        """Start to write the recording and suggestions, if there are any."""
        if self._recording is not None:
            self._recording.synced()
            tasks.create_task(self._recording.run(), name="recording")
        if self.suggestions is not None:
            tasks.create_task(self.suggestions.run(), name="suggestions")

    async def _sync(self) -> None:
        """Read the cluster."""
        await self.informers.synced()  # first, since it reports missing permissions in one line
        await self.informers.custom.watch(self._additional_kinds())
        self.engine.queue.resume_events()
        await self._background.keep(self.engine.profiles.plugins)
        if self._whole_process:
            # Listed objects are long-lived: exclude them from collections. A collection before that would take longer
            # than all others together, and find next to nothing.
            gc.freeze()

    async def run(self) -> None:
        """Schedule until cancelled. Raises LostLeaseError when the lease is lost."""
        try:
            self._watchdog.start(asyncio.get_running_loop())
            if self.server is not None:
                await self.server.start()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._events.run(), name="events")
                self.engine.queue.defer_events()
                self.informers.start(tasks)
                self._background.begin(tasks)
                tasks.create_task(self._leadership.hold(self._client.failures), name="lease")
                with self._client.relaxed_gc:
                    await self._sync()
                if self._whole_process:
                    gc.set_threshold(*_GC_THRESHOLDS)
                await self._leadership.acquired.wait()
                if self.group is not None:
                    self.group.begin()
                if self.batch is not None:
                    await self.batch.begin(tasks, self.informers.apply)
                log.info("Scheduling", nodes=len(self.engine.cache.table), pods=len(self.engine.cache.table.pods))
                self.ready.set()
                self._start_writers(tasks)
                tasks.create_task(self._file_watch.run(), name="files")
                try:
                    await self._loop.run()
                finally:
                    self._stopping = True
                    await asyncio.shield(self._finish())
        except* LostLeaseError as lost:
            raise LostLeaseError(str(lost.exceptions[0])) from None
        finally:
            for runner in self.engine.profiles.runners.values():
                runner.profile.close()
            self._watchdog.stop()
            if self.server is not None:
                await self.server.stop()
            if self._extender_client is not None:
                await self._extender_client.close()
            await self._client.close()
            if self._recording is not None:
                self._recording.close()
            if self._tracer is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.to_thread(self._tracer.close), _GRACE_SECONDS)

    def _tasks_under_way(self) -> dict[str, int]:
        """Return the values of the goroutines metric, with extenders only if there are any."""
        client = self._extender_client
        asking = {} if client is None else {"prioritizing_extender": client.prioritizing}
        return {"binding": self._loop.binding, **asking}

    async def _ask_extender(self, request: Request) -> Reply:
        assert self._extender_client is not None
        return await self._extender_client.send(request)

    def _server(self, settings: ServerSettings | None, plain: Sequence[ServerSettings]) -> Endpoints:
        metrics = self.engine.observer.metrics if self.engine.observer is not None else None
        if metrics is not None:
            metrics.readings.tasks = self._tasks_under_way
        return make_server(
            settings,
            plain=plain,
            engine=self.engine,
            config=lambda: self.engine.profiles.config,
            plugins=self.plugin_rows,
            access=self._client.access,
            informers=self.informers,
            election=lambda: self._leadership.thread,
            is_stopping=lambda: self._stopping,
            extensions=self._extend(self) if self._extend is not None else (),
            gangs=self.batch,
        )

    async def _finish(self) -> None:
        """Finish running binds and write the remaining events; stop at once if the lease is lost."""
        await self._loop.finish(0.0 if self._leadership.lost else _GRACE_SECONDS)
        if not self._leadership.lost:
            await self._events.drain(_GRACE_SECONDS)
        if self.group is not None:
            await self.group.leave()


def _extender_client(config: SchedulerConfiguration) -> ExtenderClient | None:
    """Return a client for the extenders of a configuration; None if there are none."""
    if not config.extenders:
        return None
    from mooring.live.extenders import ExtenderClient

    return ExtenderClient()


def _election_settings(config: SchedulerConfiguration) -> ElectionSettings | None:
    """Return the settings of leader election; None if it is disabled."""
    election = config.leader_election
    if not election.leader_elect:
        return None
    return ElectionSettings(
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        namespace=election.resource_namespace,
        name=election.resource_name,
        lease_duration=election.lease_duration / 1e9,
        renew_deadline=election.renew_deadline / 1e9,
        retry_period=election.retry_period / 1e9,
    )
