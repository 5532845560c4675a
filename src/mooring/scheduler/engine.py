"""The engine: events go in, decisions come out. It owns the cache, the queue and the profiles, and does no I/O.

A shell around it (the live process, or a simulation) feeds ``put`` and ``remove`` with what it observes, calls
``schedule_one`` while the queue is ready, and carries out what comes back: a ``Decided`` pod is bound by ``bind``, a
``Failed`` one is reported and its victims evicted. ``Asking`` means that extenders have a say: ``ask`` asks them. It
holds the decision lock until it is done, so that the attempt sees the cluster it began with.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.config import SchedulerConfiguration
from mooring.framework.api_clients import ApiReader, Binder, VolumeWriter
from mooring.framework.handle import EventRecorder
from mooring.framework.plugin import Plugin
from mooring.framework.state import CycleState
from mooring.framework.status import NO_NOMINATION, Code, Status
from mooring.loading.circuit_breaker import Guards, Log
from mooring.loading.options import PluginOptions
from mooring.observe.decision_records import Decision
from mooring.scheduler import binding
from mooring.scheduler.build import Profiles
from mooring.scheduler.cache import Cache
from mooring.scheduler.cycle import Cycle, Placement, Unplaced
from mooring.scheduler.decision_lock import DecisionLock
from mooring.scheduler.event_handlers import Intake
from mooring.scheduler.extenders import Extenders, Question, Reply
from mooring.scheduler.extenders.attempt import ExtendedAttempt, Steps
from mooring.scheduler.observer import Watch
from mooring.scheduler.pre_binds import PreBinds
from mooring.scheduler.queue import QueuedPod, SchedulingQueue
from mooring.scheduler.queue.interests import ErrorReport
from mooring.scheduler.swap import queue_settings


class Decided(msgspec.Struct, frozen=True):
    """A pod has a node: it is assumed there, reserved and permitted (or held at Permit), and wants to be bound."""

    queued: QueuedPod
    #: The pod as it will be, with its node's name.
    pod: Pod
    node_name: str
    state: CycleState
    cycle: Cycle
    evaluated: int
    feasible: int
    #: Whether some Permit plugin asked to wait.
    waits: bool = False
    #: When the attempt began and when it was decided (``time.perf_counter``), and its record, if it is watched.
    started: float = 0.0
    at: float = 0.0
    record: Decision | None = None


class Failed(msgspec.Struct, frozen=True):
    """An attempt came to nothing; the pod is back in the queue."""

    queued: QueuedPod
    unplaced: Unplaced
    #: Pods to evict so that the pod will fit, by uid.
    victims: tuple[str, ...] = ()
    #: The nomination to publish: None leaves it, "" clears it.
    nominated_node: str | None = None

    @property
    def reason(self) -> str:
        """The reason of the pod's condition."""
        status = self.unplaced.status
        return "Unschedulable" if status.is_rejected else "SchedulerError"


class Asking:
    """An attempt that waits for what extenders say."""

    def __init__(self, queued: QueuedPod, cycle: Cycle, started: float, steps: Steps[Placement | Unplaced]) -> None:
        self.queued = queued
        self.cycle = cycle
        self.started = started
        self.steps = steps
        #: What to ask now.
        self.questions: tuple[Question, ...] = ()


class Engine:
    """Everything that decides, for all profiles of a configuration."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        recorder: EventRecorder | None = None,
        binder: Binder | None = None,
        volumes: VolumeWriter | None = None,
        api: ApiReader | None = None,
        on_error: ErrorReport | None = None,
        watch: Watch | None = None,
        extenders: Extenders | None = None,
        options: Mapping[str, PluginOptions] | None = None,
        tell: Log | None = None,
        expect: Callable[[Pod, str], Awaitable[None]] | None = None,
        evicts_later: bool = False,
    ) -> None:
        """Without ``extenders`` (and a way to reach them), those of the configuration are left out.

        ``options`` say how users' plugins are guarded, and ``tell`` is told when one fails, is slow or is switched off.
        ``expect`` is told where a pod will be whose binding takes a while. With ``evicts_later`` a preemptor waits
        outside the queue until its uid is removed from ``preempting``.
        """
        self._expect = expect
        self._evicts_later = evicts_later
        self.cache = Cache()
        self.watch = watch
        self._extenders = extenders or None
        #: Pods that can still be called back while their PreBind plugins work.
        self.pre_binds = PreBinds()
        #: Held by an attempt that awaits extenders and by a batch session.
        self.lock = DecisionLock()
        #: Pods, by uid, whose preemption is in progress: their victims are being evicted.
        self.preempting: set[str] = set()
        metrics = watch.metrics if watch is not None else None
        health = metrics.health if metrics is not None else None
        #: What stands between the engine and users' plugins.
        self.guards = Guards(options, clock=clock, health=health, log=tell)
        self._on_error = on_error
        self.profiles = Profiles(
            config,
            self.cache,
            plugins=plugins,
            clock=clock,
            rng=rng,
            recorder=recorder,
            activate=self._activate,
            binder=binder,
            volumes=volumes,
            api=api,
            times=watch.plugin_times if watch is not None else None,
            extenders=self._extenders,
            guards=self.guards,
        )
        self.queue = SchedulingQueue(
            clock=clock,
            **queue_settings(self.profiles, self.report_broken, self.preempting),
            on_error=self.report_broken,
        )
        self._intake = Intake(self.cache, self.queue, self.profiles, watch)
        if watch is not None:
            watch.attach(self.cache, self.queue, self.profiles.cycles)
            if self._extenders is not None and watch.metrics is not None:
                self._extenders.observe = watch.metrics.extender_called

    # What happens in the cluster

    def put(self, item: KubeObject) -> None:
        """Apply an object that was added or updated; deferred while the lock is held."""
        if self.lock.held:
            self.lock.defer(self._intake.put, item)
        else:
            self._intake.put(item)

    def remove(self, item: KubeObject) -> None:
        """Apply an object's deletion; deferred while the lock is held."""
        if self.lock.held:
            self.lock.defer(self._intake.remove, item)
        else:
            self._intake.remove(item)

    def _activate(self, keys: Iterable[str]) -> None:
        self.queue.activate(keys)

    # Decisions

    def schedule_one(self) -> Decided | Failed | Asking | None:
        """Try the next pod; None if there is none, or if it went away meanwhile. The lock must be free."""
        queued = self.queue.pop()
        if queued is None:
            return None
        pod = queued.pod
        cycle = self.profiles.cycles.get(pod.scheduler_name)
        if cycle is None or pod.is_terminating or pod.uid in self.cache.assumed:
            self.queue.done(queued.uid)
            if cycle is not None and pod.is_terminating:
                note = f"skip schedule deleting pod: {pod.key}"
                cycle.handle.events.record(
                    pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=note
                )
            return None
        if self.guards.stale:
            self._forget()
        started = self.watch.begin(queued) if self.watch is not None else 0.0
        if self._extenders is not None and (asked := self._extenders.deciding(pod)):
            return self._go_on(Asking(queued, cycle, started, ExtendedAttempt(cycle, asked, pod).steps()), None)
        return self._outcome(queued, cycle, cycle.schedule(pod), started)

    def _outcome(
        self, queued: QueuedPod, cycle: Cycle, decision: Placement | Unplaced, started: float
    ) -> Decided | Failed:
        outcome = (
            self._failed(queued, decision, started, in_cycle=True)
            if isinstance(decision, Unplaced)
            else self._decided(queued, cycle, decision, started)
        )
        if self.guards.troubled:
            self.guards.end_attempt()
        return outcome

    def _forget(self) -> None:
        """A plugin was switched off or on: answers that were kept may be wrong."""
        self.guards.stale = False
        for cycle in self.profiles.cycles.values():
            cycle.forget()

    def adopt(self, profiles: Profiles, queue: dict[str, Any]) -> None:
        """Other profiles are in force from now on (``swap`` makes them), and these settings of the queue."""
        self.profiles = self._intake.profiles = profiles
        for pod in [pod for pod in self._intake.waiting.values() if pod.scheduler_name not in profiles.cycles]:
            self._intake.let_go(pod)
        if self.watch is not None:
            self.watch.attach(self.cache, self.queue, profiles.cycles)
        self.cache.table.templates.forget_answers()
        self.queue.renew(**queue)

    def report_broken(self, plugin: str, what: str, pod: Pod, error: Exception) -> None:
        """A plugin raised in the queue: a hint, a gate, or the order of pods."""
        self.guards.failed(plugin, what, error)
        if self._on_error is not None:
            self._on_error(plugin, what, pod, error)

    async def ask(self, asking: Asking) -> Decided | Failed:
        """Finish an attempt that awaits extenders, and release the lock."""
        assert self._extenders is not None
        try:
            while True:
                replies = await asyncio.gather(*map(self._extenders.ask, asking.questions))
                outcome = self._go_on(asking, tuple(replies))
                if not isinstance(outcome, Asking):
                    return outcome
        finally:
            self.lock.release()

    def _go_on(self, asking: Asking, replies: tuple[Reply, ...] | None) -> Decided | Failed | Asking:
        try:
            asking.questions = asking.steps.send(replies)  # type: ignore[arg-type]  # a generator begins with None
        except StopIteration as done:
            return self._outcome(asking.queued, asking.cycle, done.value, asking.started)
        if replies is None:
            self.lock.take()
        return asking

    def _decided(self, queued: QueuedPod, cycle: Cycle, placement: Placement, started: float) -> Decided | Failed:
        node_name, state, profile, watch = placement.node_name, placement.state, cycle.profile, self.watch
        record = watch.placed(queued, cycle, placement) if watch is not None else None
        pod = self.cache.assume(queued.pod, node_name).pod
        if watch is not None:
            watch.start_lap()
        status = binding.reserve(profile, state, pod, node_name)
        if watch is not None:
            watch.lap(profile.name, "Reserve", status.code, record)
        if status.is_success:
            status = binding.permit(profile, state, pod, node_name)
            if watch is not None:
                watch.lap(profile.name, "Permit", status.code, record)
        if not status.is_success and status.code is not Code.WAIT:
            self.undo(cycle, state, pod, node_name)
            return self._failed(queued, _turned_down(status, state), started)
        if state.pods_to_activate:
            self.queue.activate(state.pods_to_activate)
        waits = status.code is Code.WAIT
        evaluated, feasible, now = placement.evaluated, placement.feasible, perf_counter()
        return Decided(queued, pod, node_name, state, cycle, evaluated, feasible, waits, started, now, record)

    async def bind(self, decided: Decided) -> Failed | None:
        """Carry a decision out; None when the pod is bound, else what became of it."""
        cycle, state, pod, node_name = decided.cycle, decided.state, decided.pod, decided.node_name
        watch = self.watch
        points = watch.points(cycle.profile.name) if watch is not None else None
        status, working = binding.pre_flight(cycle.profile, state, pod, node_name, points)
        rejected = False
        if status.is_success and self._expect is not None and (working or decided.waits):
            await self._expect(pod, node_name)
        if status.is_success:
            status = await binding.wait_on_permit(self.profiles.waiting_pods, pod)
            rejected = status.is_rejected
            if watch is not None and decided.waits:
                watch.waited(status.code, decided.at)
        if status.is_success:
            # From here on only an error can bring the pod back, and that needs no events to be replayed.
            self.queue.done(decided.queued.uid)
            status = await binding.bind(
                cycle.profile, state, pod, node_name, working, points, self._extenders, self.pre_binds
            )
        if status.is_success:
            if watch is not None:
                watch.bound(decided.queued, decided.started, decided.at, decided.record)
            if decided.state.pods_to_activate:
                self.queue.activate(decided.state.pods_to_activate)
            return None
        async with self.lock:  # a decision in progress counts the pod on its node
            self.undo(cycle, decided.state, pod, decided.node_name)
            failed = self._failed(decided.queued, _turned_down(status, decided.state), decided.started)
            self.queue.assigned_pod_deleted(pod, only=(lambda other: other.uid != pod.uid) if rejected else None)
            return failed

    def undo(self, cycle: Cycle, state: CycleState, pod: Pod, node_name: str) -> None:
        """Take an assumption back: Unreserve, then forget."""
        binding.unreserve(cycle.profile, state, pod, node_name)
        self.cache.forget(pod)

    def _failed(self, queued: QueuedPod, unplaced: Unplaced, started: float, *, in_cycle: bool = False) -> Failed:
        result, pod = unplaced.result, queued.pod
        if self.watch is not None:
            self.watch.failed(queued, unplaced, started, in_cycle=in_cycle)
        if result.nominated_node:
            self.cache.nominate(pod, result.nominated_node)
        elif result.nominated_node == "":
            self.cache.nominator.remove(pod.uid)
        if result.victims and self._evicts_later:
            self.preempting.add(pod.uid)  # before an event can bring the pod back and make it evict others
        latest = self._intake.waiting.get(pod.uid)
        if latest is None:
            self.queue.done(pod.uid)  # deleted, or bound by somebody else, meanwhile
            if self.watch is not None:
                self.watch.left(pod)
        else:
            self.queue.add_unschedulable(
                queued, unschedulable_plugins=unplaced.rejectors, pending_plugins=unplaced.pending, pod=latest
            )
        return Failed(queued, unplaced, result.victims, result.nominated_node)


def _turned_down(status: Status, state: CycleState) -> Unplaced:
    """A failure after a node was chosen."""
    message = f"0/1 nodes are available: 1 {status.message}." if status.is_rejected else status.message
    plugins = frozenset((status.plugin,)) if status.is_rejected and status.plugin else frozenset()
    if status.code is Code.PENDING:
        return Unplaced(message, status, state, result=NO_NOMINATION, pending=plugins)
    return Unplaced(message, status, state, result=NO_NOMINATION, rejectors=plugins)
