"""BatchScheduler: batch sessions on a live cluster, next to the pod-by-pod engine and on the same cache.

A session starts periodically, or as soon as a change may help a pending pod. It holds the decision lock and runs in
short slices of the event loop. Its decisions are written while it still runs.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.api.hyper_nodes import HyperNode
from mooring.api.meta import KubeObject, parse_time
from mooring.api.node import Node
from mooring.api.numa_topology import Numatopology
from mooring.api.pod import Pod
from mooring.api.policy import PriorityClass
from mooring.api.volcano import PodGroup, PodGroupStatus, Queue, ResourceQuota
from mooring.batch.actions import ACTIONS, Action
from mooring.batch.actions.complete import complete
from mooring.batch.callbacks import MayEvict
from mooring.batch.device_config import DeviceConfig
from mooring.batch.job import INQUEUE, JobInfo
from mooring.batch.pending_reasons import READY, job_message
from mooring.batch.plugin import SessionGuards
from mooring.batch.plugins import PLUGINS
from mooring.batch.plugins.gang import SCHEDULED, UNSCHEDULABLE
from mooring.batch.queue import standing_queues
from mooring.batch.run import Outcome, action_steps, close_session, open_session
from mooring.batch.session import INVALID, NodeUsage, Session
from mooring.batch.task import PENDING, TaskInfo, wants_queue_gate
from mooring.batch.unsupported_requests import NOT_SUPPORTED
from mooring.checkpoints import PausableSteps, Pauses
from mooring.framework.api_clients import ClaimWriter, VolumeWriter
from mooring.kube import AlreadyExists, Backoff, Change, Client, KubeError, NotFound
from mooring.live.api_adapters import ApiBinder
from mooring.live.batch.batch_settings import BatchSettings, ConfFile, batch_cluster, session_actions, session_plugins
from mooring.live.batch.batch_writer import BatchWriter, PreBind, differs
from mooring.live.batch.device_config_reader import DeviceConfigReader
from mooring.live.batch.node_locker import NodeLocker
from mooring.live.batch.node_usage import UsageReader
from mooring.live.batch.session_figures import set_figures
from mooring.live.batch.session_gang import SessionSetup, group_of, session_gang
from mooring.live.batch.session_records import SessionRecords
from mooring.live.custom import CustomInformers
from mooring.live.informers import BATCH_KINDS
from mooring.live.reporter import Reporter
from mooring.loading import ACTION, Catalog
from mooring.loading.plugin_kinds import plugin_name
from mooring.logs import get_logger
from mooring.observe.decision_records import DecisionRecords
from mooring.observe.explanation import SuggestionView
from mooring.observe.session_metrics import SessionMetrics
from mooring.plugins.volume_binding import VolumeBinding
from mooring.scheduler.cache import Cache
from mooring.scheduler.decision_lock import DecisionLock
from mooring.scheduler.gang_suggestions import GangSearch
from mooring.unexpected_errors import report_unexpected

log = get_logger("mooring.batch")

#: How long a session decides before it yields to the event loop.
_SLICE_SECONDS: Final = 0.02
#: How long changes are collected before a session starts.
_GATHER_SECONDS: Final = 0.02
#: The period if nothing changed and the last session decided nothing.
_IDLE_SECONDS: Final = 10.0
#: The pauses after sessions that failed.
_FIRST_FAILURE_SECONDS, _LAST_FAILURE_SECONDS = 1.0, 30.0
#: Plugins whose answers depend on the time.
_TIMELY: Final = frozenset({"sla", "tdm", "cdp", "usage", "rescheduling"})
#: The phases of PodGroups that wait, or whose pods cannot all run.
_WAITING_PHASES: Final = ("Pending", INQUEUE, "Unknown")
#: The number of gangs whose suggestions are kept until the next session.
_SUGGESTIONS: Final = 1000
#: How often the presence of the root and default queues is checked.
_QUEUES_SECONDS: Final = 2.0


class _Progress:
    """The number of a session's bindings and evictions that were passed to the writer."""

    def __init__(self) -> None:
        self.bindings = 0
        self.evictions = 0
        #: The jobs whose pods were placed.
        self.placed: set[str] = set()


class BatchScheduler:
    """A loop that runs one session after another until cancelled."""

    def __init__(
        self,
        settings: BatchSettings,
        *,
        cache: Cache,
        client: Client,
        binder: ApiBinder,
        volumes: VolumeWriter,
        claims: ClaimWriter | None = None,
        reporter: Reporter,
        lock: DecisionLock,
        on_failed_eviction: Callable[[Pod], None],
        metrics: SessionMetrics | None = None,
        records: DecisionRecords | None = None,
        catalog: Catalog | None = None,
        guards: SessionGuards | None = None,
        eviction_rules: Callable[[], Sequence[MayEvict]] = tuple,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        """Each session holds ``lock``; ``catalog`` contains users' plugins and actions. Raises ConfigError.

        ``on_failed_eviction`` stops counting a pod as being evicted. ``eviction_rules`` returns the ``may_evict``
        methods of the pod-by-pod engine's plugins.
        """
        self._clock = clock
        self._metrics = metrics if metrics is not None else SessionMetrics()
        self._records = SessionRecords(records, clock)
        self._settings = settings
        self._cache = cache
        self._client = client
        self._lock = lock
        self._pauses = Pauses(_SLICE_SECONDS)
        self._eviction_rules = eviction_rules
        #: Users' plugins; then all plugins and actions.
        self._users: Mapping[str, type[Any]] = {}
        self._plugins: Mapping[str, type[Any]] = {}
        self._actions: Mapping[str, Action] = {}
        self.guards = guards if guards is not None else SessionGuards(clock=clock, log=log.warning)
        self._use_plugins(catalog or Catalog())
        self.conf = ConfFile(settings.scheduler_conf, actions=self._actions, plugins=self._plugins)
        self.cluster = batch_cluster(
            cache,
            scheduler_names=settings.scheduler_names,
            default_queue=settings.default_queue,
            node_selector=settings.node_selector,
            removes_queue_gates=settings.removes_queue_gates,
            clock=clock,
            rng=rng,
            binder=binder,
            volumes=volumes,
            claims=claims,
        )
        self.writer = BatchWriter(
            client,
            binder,
            reporter,
            clock=clock,
            component=settings.scheduler_names[0],
            on_bound=self._bound,
            on_failed_bind=self._bind_failed,
            on_failed_eviction=on_failed_eviction,
            on_stage=self._stage,
        )
        self._usage = UsageReader(lambda: self.conf.current.metrics, self._measured, clock)
        self._device_config = DeviceConfigReader(client, lambda: self.conf.current, self._use_device_config)
        self._locker = NodeLocker(client, clock)
        self._metrics.binds = lambda: {"bound": self.writer.bound, "failed": self.writer.failed}
        self._wake = asyncio.Event()
        self._warned: set[str] = set()
        #: The objects that were reported as invalid, with the error.
        self._invalid: dict[tuple[str, str], str] = {}
        self._failures = Backoff(first=_FIRST_FAILURE_SECONDS, cap=_LAST_FAILURE_SECONDS)
        self._stopped = False
        #: Group -> the number of sessions when suggestions were searched for, and the suggestions.
        self._suggestions: dict[str, tuple[int, list[SuggestionView]]] = {}
        #: Called for a pod of each gang that waits, if suggestions are written.
        self.on_waiting: Callable[[Pod], None] | None = None
        #: The number of sessions that were run, and the duration of the last one.
        self.sessions, self.last_seconds = 0, 0.0

    @property
    def scheduler_name(self) -> str:
        """The first scheduler name whose pods sessions place."""
        return self._settings.scheduler_names[0]

    def plugin_name(self, name: str) -> str:
        """Return the name of a plugin that the configuration may refer to by its file."""
        return plugin_name(self._users[name]) if name in self._users else name

    def enabled(self) -> dict[str, str]:
        """Return the plugins and actions of the configuration, with their kind."""
        conf = self.conf.current
        plugins = {
            self.plugin_name(option.name): "session" for option in conf.options() if option.name in self._plugins
        }
        return {**plugins, **dict.fromkeys(conf.actions, "action")}

    def group_of(self, pod: Pod) -> str:
        """Return namespace/name of the PodGroup of a pod; empty if it has none."""
        return group_of(pod)

    async def suggest(self, pod: Pod) -> list[SuggestionView]:
        """Return changes that would let the gang of a pending pod start.

        Each change is tried in a session that is not carried out. It holds the lock as a session does, and other
        decisions continue between two of them.
        """
        key = group_of(pod)
        known = self._suggestions.get(key)
        if known is not None and known[0] == self.sessions:
            return known[1]
        setup = SessionSetup(self.conf.current, self._plugins, self._actions, self.guards)
        gang = session_gang(self.cluster, setup, key)
        if gang is None:
            return []
        search = GangSearch(gang)
        steps = search.steps()
        done = False
        while not done and not self._stopped:
            async with self._lock:
                done = next(steps, self) is self
            await asyncio.sleep(0)
        found = [each.view for each in search.result()]
        if len(self._suggestions) >= _SUGGESTIONS:
            self._suggestions.clear()
        if found:  # otherwise time may have been too short
            self._suggestions[key] = (self.sessions, found)
        return found

    # Cluster events

    def changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Apply an object that was added, updated or deleted; deferred while the lock is held."""
        if self._lock.held:
            self._lock.defer(self._changed, old, new)
        else:
            self._changed(old, new)

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self.cluster.put(new)
        elif old is not None:
            self.cluster.remove(old)
            if isinstance(old, Pod):
                self._records.gone(old)
        if self._may_help(old, new):
            self._wake.set()

    def _may_help(self, old: KubeObject | None, new: KubeObject | None) -> bool:
        if isinstance(new or old, Pod):
            return self._pod_may_help(old, new)  # type: ignore[arg-type]  # both are pods
        if old is None or new is None:
            return True
        if isinstance(new, PodGroup) and isinstance(old, PodGroup):
            return new.spec != old.spec or new.annotations != old.annotations
        if isinstance(new, HyperNode | Numatopology) and isinstance(old, HyperNode | Numatopology):
            return new.spec != old.spec
        if isinstance(new, Queue) and isinstance(old, Queue):
            return new.spec != old.spec or new.status.state != old.status.state
        if isinstance(new, Node) and isinstance(old, Node):
            return new.spec != old.spec or new.labels != old.labels or new.status.allocatable != old.status.allocatable
        if isinstance(new, ResourceClaim) and isinstance(old, ResourceClaim):
            return (new.status.allocation is None) != (old.status.allocation is None)
        return isinstance(new, PriorityClass | ResourceQuota | DeviceClass | ResourceSlice | DeviceTaintRule)

    def _pod_may_help(self, old: Pod | None, new: Pod | None) -> bool:
        """Return whether a pod of these schedulers was created, got claims or lost gates, or one that has room ends."""
        if new is None or new.is_finished or (new.is_terminating and old is not None and not old.is_terminating):
            return old is not None and bool(old.node_name or wants_queue_gate(old))
        if new.node_name or new.scheduler_name not in self.cluster.scheduler_names:
            return False
        if old is None or old.spec.scheduling_gates != new.spec.scheduling_gates:
            return True
        return old.status.resource_claim_statuses != new.status.resource_claim_statuses

    def _use_device_config(self, config: DeviceConfig) -> None:
        if config != self.cluster.device_config:
            self.cluster.device_config = config
            self._wake.set()

    def _measured(self, usage: Mapping[str, NodeUsage]) -> None:
        self.cluster.usage = usage

    # Sessions

    async def conf_changed(self) -> None:
        """Read the configuration file again."""
        if self.conf.reread():
            self._wake.set()

    def _use_plugins(self, catalog: Catalog) -> None:
        settings = self._settings
        self._users = {**settings.plugins, **session_plugins(catalog)}
        self._plugins = {**PLUGINS, **self._users}
        self.guards.set_options(catalog.options())
        for name, cls in catalog.classes(ACTION).items():
            self.guards.add_code(cls, name)
        actions = {**settings.actions, **session_actions(catalog)}
        self._actions = {**ACTIONS, **{name: self.guards.action(name, each) for name, each in actions.items()}}

    def use(self, catalog: Catalog) -> None:
        """Use the plugins and actions of a catalog from the next session on."""
        self._use_plugins(catalog)
        self._warned.clear()
        self.conf.reread(actions=self._actions, plugins=self._plugins)
        self._wake.set()

    async def begin(self, tasks: asyncio.TaskGroup, apply: Callable[[list[Change[Any]]], None]) -> None:
        """Sync the informers of sessions, then run sessions in a task of the group."""
        informers = CustomInformers(self._client, apply, known=(), drop=self._cache.objects.drop, hint=_hint)
        informers.begin(tasks)
        await informers.watch(BATCH_KINDS)
        tasks.create_task(self.run(), name="batch sessions")

    async def run(self) -> None:
        """Run sessions until cancelled or stopped; writes continue until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.writer.run(), name="batch writes")
            tasks.create_task(self._create_queues(), name="batch queues")
            tasks.create_task(self._usage.run(), name="node usage")
            await self._device_config.read()
            tasks.create_task(self._device_config.run(), name="device configuration")
            ended, decided = -_IDLE_SECONDS, True
            while not self._stopped:
                changed = self._wake.is_set()
                self._wake.clear()
                if changed or time.monotonic() - ended >= self._period(decided=decided):
                    decided = await self._guarded_session()
                    ended = time.monotonic()
                await self._pause()

    def stop(self) -> None:
        """Start no further session."""
        self._stopped = True

    def _period(self, *, decided: bool) -> float:
        """Return how long to wait for the next session while nothing changes."""
        named = {option.name for option in self.conf.current.options()}
        timely = decided or bool(named & _TIMELY) or bool(named & self._users.keys())
        return self._settings.schedule_period if timely else max(_IDLE_SECONDS, self._settings.schedule_period)

    async def _pause(self) -> None:
        """Wait for a change or the end of the period, and at least as long as the last session took."""
        await asyncio.sleep(max(_GATHER_SECONDS, min(self.last_seconds, 1.0)))
        try:
            async with asyncio.timeout(self._settings.schedule_period):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_GATHER_SECONDS)

    async def _guarded_session(self) -> bool:
        """Run a session. If it fails, report the error and pause, because the cluster may change meanwhile."""
        try:
            decided = await self._session()
        except Exception as error:
            report_unexpected("a session failed", error)
            await asyncio.sleep(self._failures.next())
            return True
        self._failures.reset()
        return decided

    async def _session(self) -> bool:
        """Run a session. Return whether it decided anything."""
        async with self._lock:
            if self._stopped:
                return False
            started = time.perf_counter()
            decided = await self._run_session()
        self.sessions += 1
        self.last_seconds = time.perf_counter() - started
        self._metrics.closed(self.last_seconds)
        return decided

    async def _run_session(self) -> bool:
        started = time.perf_counter()
        session = self.cluster.session(self.conf.current)
        session.rankings = self._records.rankings(session)
        session.eviction_rules = self._eviction_rules()
        session.on_stage = self._metrics.stage
        progress = _Progress()
        try:
            self._metrics.keep_jobs(
                (job.uid, (job.group.name, job.queue, job.group.namespace), job.created)
                for job in session.jobs.values()
            )
            opened = open_session(session, self._plugins, self.guards, self._metrics.measured)
            self._metrics.opened(time.perf_counter() - started)
            await self._run_actions(session, progress)
            for uid in progress.placed:
                self._metrics.placed(uid, self._clock())
            outcome = close_session(session, opened, self._metrics.measured)
            for pod in session.admitted.values():
                self.writer.remove_queue_gate(pod)
            self._publish(session, outcome)
            set_figures(self._metrics, session, [plugin for plugin, _ in opened], outcome)
            self.guards.end_attempt()
        finally:
            session.end(keep=self._cache.assumed)
            self._report_invalid(session)
        for warning in session.warnings:
            self._warn_once(warning)
        return bool(progress.bindings or progress.evictions or session.admitted)

    async def _run_actions(self, session: Session, progress: _Progress) -> None:
        """Run the actions in slices, and carry out their decisions. A slice may end in the middle of a gang."""
        spent: dict[str, float] = {}
        complete(session)
        steps = PausableSteps(action_steps(session, self._actions), self._pauses)
        begun = time.perf_counter()
        until = begun + _SLICE_SECONDS
        since_step = 0.0
        try:
            while not steps.advance():
                now = time.perf_counter()
                since_step += now - begun
                if steps.yielded is not None:
                    self._carry_out(session, progress)
                    spent[steps.yielded] = spent.get(steps.yielded, 0.0) + since_step
                    since_step, now = 0.0, time.perf_counter()
                if now > until:
                    await asyncio.sleep(0)
                    now = time.perf_counter()
                    until = now + _SLICE_SECONDS
                begun = now
        finally:
            steps.close()
        for action, seconds in spent.items():
            self._metrics.acted(action, seconds)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            log.warning(text)

    def _carry_out(self, session: Session, progress: _Progress) -> None:
        """Assume and bind, or evict, the tasks committed since the last call."""
        now = self._clock()
        for task in session.bindings[progress.bindings :]:
            progress.bindings += 1
            progress.placed.add(task.job)
            self._metrics.reached("Assumed", now - _created(task.pod))
            self._cache.assume(task.pod, task.node_name)
            self._records.placed(session, task)
            self.writer.bind(task.pod, task.node_name, self._pre_bind(session, task), task.annotations)
        for task, reason in session.evictions[progress.evictions :]:
            progress.evictions += 1
            self._metrics.evicted += 1
            self._cache.start_eviction(task.pod)
            self.writer.evict(task.pod, reason)
            job = session.jobs.get(task.job)
            if job is not None:
                self.writer.group_event(job.group, "Normal", "Evict", reason)

    def _pre_bind(self, session: Session, task: TaskInfo) -> PreBind | None:
        """Return the function that writes a pod's volumes and devices before the pod is bound; None without any."""
        calls: list[Callable[[], Any]] = []
        if any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in task.pod.spec.volumes):
            plugin, state, node_name = self.cluster.kube.get(VolumeBinding), session.state_of(task), task.node_name
            calls.append(lambda: plugin.pre_bind(state, task.pod, node_name))
        devices = self.cluster.kube.device_reservations.get(task.uid)
        if devices is not None:
            calls.append(devices.pre_bind)
        locks = session.node_locks.get(task.uid)
        if locks:
            calls.append(functools.partial(self._locker.lock, task.uid, task.node_name, locks))

        async def pre_bind() -> str:
            for call in calls:
                result = call()
                status = await result if hasattr(result, "__await__") else result
                if status is not None and not status.is_success:
                    return str(status.message)
            return ""

        return pre_bind if calls else None

    def _stage(self, pod: Pod, stage: str, seconds: float) -> None:
        self._metrics.stage(stage, seconds)
        if stage == "PreBind":
            self._metrics.reached("PreBound", self._clock() - _created(pod))

    def _bound(self, pod: Pod) -> None:
        """Record a bind: the claims of the pod are written."""
        self._metrics.reached("Bound", self._clock() - _created(pod))
        self.cluster.kube.device_reservations.pop(pod.uid, None)
        self._locker.bound(pod.uid)
        self._records.bound(pod)

    async def _bind_failed(self, pod: Pod, problem: str) -> None:
        """Undo the assumption of a pod whose bind failed, and release its devices. The next session retries it."""
        self._records.failed(pod, problem)
        await self._locker.release(pod.uid)
        async with self._lock:
            devices = self.cluster.kube.device_reservations.pop(pod.uid, None)
            if devices is not None:
                devices.release()
            self._cache.forget(pod)
        self._wake.set()

    # Statuses

    def _publish(self, session: Session, outcome: Outcome) -> None:
        objects = self._cache.objects
        for uid, status in outcome.groups.items():
            job = session.jobs[uid]
            group = job.group
            changed = differs(group.status, status)
            if changed:
                self.writer.group_status(group, status)
                objects.put(msgspec.structs.replace(group, status=status))
            self._group_event(job, status, changed=changed)
        for note in outcome.pods:
            self.writer.pod_note(note)
        if self.on_waiting is not None:
            # The suggestions for one pod of a gang are those for all.
            for pod in {note.task.job: note.task.pod for note in outcome.pods}.values():
                self.on_waiting(pod)
        self._records.waiting(session, outcome.pods)
        for name, held in outcome.queues.items():
            queue = session.queues[name].queue
            if queue.status.allocated != held:
                self.writer.queue_amounts(queue, held)
                after = msgspec.structs.replace(queue.status, allocated=dict(held))
                objects.put(msgspec.structs.replace(queue, status=after))
        for job, reason, text in session.job_warnings:
            self.writer.group_event(job.group, "Warning", reason, text)
        for job, text in session.notes:
            self.writer.group_event(job.group, "Normal", "Unschedulable", text)
        self._metrics.unschedulable += len(outcome.pods)
        self._metrics.unscheduled = {
            job.uid: job.count(PENDING)
            for job in session.jobs.values()
            if any(each.type == UNSCHEDULABLE and each.transition_id == session.uid for each in job.conditions)
        }

    def _group_event(self, job: JobInfo, status: PodGroupStatus, *, changed: bool) -> None:
        """Record an event about a PodGroup: it waits, or its status changed."""
        if status.phase in _WAITING_PHASES:
            if job.is_ready and PENDING not in job.by_status and job.tasks:
                return  # all pods were bound in this session; Volcano reports them as unschedulable
            text = job.held or f"{job.count(PENDING)}/{len(job.tasks)} tasks in gang unschedulable: {job_message(job)}"
            self.writer.group_event(job.group, "Warning", NOT_SUPPORTED if job.held else UNSCHEDULABLE, text)
        elif changed:
            self.writer.group_event(job.group, "Normal", SCHEDULED, READY)

    def _report_invalid(self, session: Session) -> None:
        """Report objects that the session left out, once per error, and the pods that wait for them."""
        found: dict[tuple[str, str], str] = {}
        for item, message, reason in session.invalid:
            found[item.kind, item.uid] = message
            if isinstance(item, PodGroup):
                text = f"PodGroup {item.key} {'is invalid' if reason == INVALID else 'waits'}: {message}"
                for pod in self.cluster.pending_members(item):
                    self.writer.pod_condition(pod, reason, text)
            if self._invalid.get((item.kind, item.uid)) != message:
                log.warning("an object is ignored", kind=item.kind, name=item.name, reason=reason, error=message)
                self.writer.invalid(item, message, reason)
        self._invalid = found

    async def _create_queues(self) -> None:
        """Create the root queue and the default queue if they do not exist."""
        wanted = standing_queues(self._settings.default_queue)
        lister = self._cache.objects.lister(Queue)
        while wanted:
            await asyncio.sleep(_QUEUES_SECONDS if lister.version else 0.1)
            for name in list(wanted):
                if lister.get(name) is not None:
                    del wanted[name]
                    continue
                try:
                    await self._client.create(wanted[name])
                except AlreadyExists:
                    pass
                except NotFound:
                    await asyncio.sleep(_QUEUES_SECONDS)  # the CRD is missing, which the informer reports
                    continue
                except KubeError as error:
                    log.warning("could not create a queue", queue=name, error=str(error))
                    await asyncio.sleep(_QUEUES_SECONDS)
                    continue
                except Exception as error:
                    report_unexpected("a queue cannot be created", error, queue=name)
                    await asyncio.sleep(_QUEUES_SECONDS)
                    continue
                del wanted[name]


def _hint(kind: str) -> str:
    return f"batch sessions find no {kind} until its CustomResourceDefinition is applied"


def _created(pod: Pod) -> float:
    created = pod.metadata.creation_timestamp
    return parse_time(created) if created else 0.0
