"""The engine: the cache, the queue, the profiles and the event handlers around ``ScheduleOne``. It does no I/O.

The live process and the simulation drive it: they call ``put`` and ``remove`` for cluster events, call ``schedule_one``
while the queue is ready, bind an ``AssumedPod`` with ``bind``, and report a ``FailedAttempt`` and evict its victims. A
``PendingAttempt`` awaits extenders or pauses; ``complete`` finishes it, and holds the decision lock until then.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.config import SchedulerConfiguration
from mooring.framework.api_clients import ApiReader, Binder, ClaimWriter, VolumeWriter
from mooring.framework.handle import EventRecorder
from mooring.framework.plugin import Plugin
from mooring.loading.circuit_breaker import Guards, Log
from mooring.loading.plugin_options import PluginOptions
from mooring.scheduler.attempt_budget import AttemptBudget
from mooring.scheduler.binding import PreBinds
from mooring.scheduler.cache import Cache
from mooring.scheduler.decision_lock import DecisionLock
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.extenders import Extenders
from mooring.scheduler.observer import Observer
from mooring.scheduler.profiles import Profiles, queue_settings
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.queue.queueing_hints import ErrorReport
from mooring.scheduler.schedule_one import ScheduleOne


class Engine(ScheduleOne):
    """A scheduler for the profiles of a configuration. It does no I/O of its own."""

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
        claims: ClaimWriter | None = None,
        api: ApiReader | None = None,
        on_error: ErrorReport | None = None,
        observer: Observer | None = None,
        extenders: Extenders | None = None,
        options: Mapping[str, PluginOptions] | None = None,
        warn: Log | None = None,
        guards: Guards | None = None,
        expect: Callable[[Pod, str], Callable[[], Awaitable[None]]] | None = None,
        evicts_later: bool = False,
        budget: AttemptBudget | None = None,
    ) -> None:
        """Without ``extenders``, which also send the requests, the extenders of the configuration are ignored.

        ``options`` configures the guards of users' plugins, and ``warn`` is called when a plugin fails, is slow or is
        disabled; ``guards`` replaces the guards that are built from these.
        ``expect`` is called with the node of a pod whose binding may take a while, and its result before the pod is
        bound, or when its binding fails. With ``evicts_later``, the victims of an attempt count as being evicted, and
        the preemptor is gated until its uid is removed from ``preempting``.
        With ``budget``, attempts that take long pause (``PendingAttempt``), and are stopped when they exceed it.
        """
        self._clock = clock
        self._expect = expect
        self._publishes = config.release.enabled("NominatedNodeNameForExpectation")
        self._evicts_later = evicts_later
        self._budget = budget
        self.cache = Cache(config.release)
        self.observer = observer
        self._extenders = extenders or None
        #: The running PreBind plugins, which preemption may cancel.
        self.pre_binds = PreBinds()
        #: Held by an attempt that awaits extenders or pauses, and by a batch session.
        self.lock = DecisionLock()
        self.preempting: dict[str, str] = {}
        self.decided = deque()
        self.rejected = []
        self.report_group = None
        metrics = observer.metrics if observer is not None else None
        health = metrics.health if metrics is not None else None
        #: The circuit breakers of users' plugins.
        self.guards = guards if guards is not None else Guards(options, clock=clock, health=health, log=warn)
        self._on_error = on_error
        self.profiles = Profiles(
            config,
            self.cache,
            plugins=plugins,
            clock=clock,
            rng=rng,
            recorder=recorder,
            activate=self._activate,
            retry=self._retry,
            binder=binder,
            volumes=volumes,
            claims=claims,
            api=api,
            times=observer.plugin_times if observer is not None else None,
            extenders=self._extenders,
            guards=self.guards,
        )
        self.queue = SchedulingQueue(
            clock=clock,
            **queue_settings(self.profiles, self.report_broken, self.preempting),
            on_error=self.report_broken,
            release=config.release,
        )
        self._handlers = EventHandlers(self.cache, self.queue, self.profiles, observer)
        if observer is not None:
            observer.attach(self.cache, self.queue, self.profiles.runners)
            if self._extenders is not None and observer.metrics is not None:
                self._extenders.observe = observer.metrics.extender_called

    # Cluster events

    def put(self, item: KubeObject) -> None:
        """Apply an object that was added or updated; deferred while the lock is held."""
        if self.lock.held:
            self.lock.defer(self._handlers.put, item)
        else:
            self._handlers.put(item)

    @property
    def is_starting(self) -> bool:
        """Whether all objects are being listed, and nothing else happens yet."""
        return self.queue.defers_events and not self.lock.held

    def put_new_pods(self, pods: Iterable[Pod]) -> list[Pod]:
        """Apply pods of a list together, while ``is_starting``. Return those that are not applied.

        If a pod is invalid, this raises before any of them is applied.
        """
        return self._handlers.put_new_pods(pods)

    def put_new_nodes(self, nodes: Iterable[Node]) -> list[Node]:
        """Apply nodes of a list together, in the same way."""
        return self._handlers.put_new_nodes(nodes)

    def remove(self, item: KubeObject) -> None:
        """Apply an object's deletion; deferred while the lock is held."""
        if self.lock.held:
            self.lock.defer(self._handlers.remove, item)
        else:
            self._handlers.remove(item)

    def share_changed(self) -> None:
        """Follow a change of the share of nodes and pods (active-active); deferred while the lock is held."""
        self.lock.defer(self._handlers.share_changed)

    def eviction_failed(self, victim: Pod) -> None:
        """Stop counting a pod as being evicted, and retry the pods that are nominated to its node."""
        self.lock.defer(self._eviction_failed, victim)

    def preemption_failed(self, preemptor: Pod, victims: Iterable[Pod]) -> None:
        """Stop counting the victims as being evicted, and retry the preemptor after a backoff."""
        self.lock.defer(self._preemption_failed, preemptor)
        for victim in victims:
            self.eviction_failed(victim)

    def _eviction_failed(self, victim: Pod) -> None:
        self.cache.eviction_failed(victim)
        self.queue.requeue([info.pod.key for info in self.cache.nominator.on_node(victim.node_name)])

    def _preemption_failed(self, preemptor: Pod) -> None:
        self.queue.preemption_failed(preemptor)

    def evicts_last(self, preemptor: str, victim: str) -> None:
        """Note that only the last victim of a preemptor is still to be evicted. Both are uids."""
        self.preempting[preemptor] = victim

    def end_preemption(self, preemptor: str) -> None:
        """Note that the evictions for a preemptor (uid) have ended."""
        del self.preempting[preemptor]

    def clear_nomination(self, uid: str) -> None:
        """Free the room that a nomination reserves."""
        self.cache.nominator.remove(uid)

    def cancel_binding(self, uid: str, plugin: str) -> bool:
        """Return a pod that is not bound yet to the queue, for a preemptor. Return False if it is bound."""
        waiting = self.profiles.waiting_pods.get(uid)
        if waiting is not None:
            return waiting.preempt(plugin)
        return self.pre_binds.cancel(uid, f"preempted by {plugin}")

    # Time

    def tick(self) -> None:
        """Requeue the pods whose backoff has ended, and reject those that wait too long at Permit."""
        self.queue.tick()
        self.profiles.waiting_pods.expire(self._clock())

    def _activate(self, keys: Iterable[str]) -> None:
        self.queue.activate(keys)

    def _retry(self, profile: str, plugin: str) -> None:
        self.queue.retry(profile, plugin)

    def adopt(self, profiles: Profiles, queue: dict[str, Any]) -> None:
        """Activate the profiles that ``swap`` has built, and their queue settings."""
        self.profiles = profiles
        profiles.activate()
        if self.observer is not None:
            self.observer.attach(self.cache, self.queue, profiles.runners)
        self.cache.table.templates.forget_answers()
        self.queue.renew(**queue)
        self._handlers.replace_profiles(profiles)

    def report_broken(self, plugin: str, what: str, pod: Pod, error: BaseException) -> None:
        """Handle an exception of a plugin in the queue: a hint, a gate, or the order of pods."""
        self.guards.failed(plugin, what, error)
        if self._on_error is not None:
            self._on_error(plugin, what, pod, error)
