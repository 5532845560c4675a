"""SchedulingQueue: the pods that wait for an attempt.

*active* contains the pods that are ready, ordered by QueueSort. A rejected pod moves to *unschedulable* until an event
occurs that may help according to the hints of the plugins that rejected it; then to *backoff* until its backoff ends,
and from there to *active*. A pod that a PreEnqueue plugin gates is *gated*. A popped pod is *in flight* until ``done``
or ``add_unschedulable``.

The queue is a state machine: no threads, no I/O, no sleeping. Time passes when ``tick`` is called. All operations are
O(log n); events are O(pods that they may requeue).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mooring.api.pod import Pod
from mooring.api.scheduling import native_group_key
from mooring.framework.events import ActionType
from mooring.releases import NEWEST, Release
from mooring.scheduler.queue.backoff_queue import BackoffQueue
from mooring.scheduler.queue.in_flight_pods import InFlightPod, InFlightPods
from mooring.scheduler.queue.lazy_heap import LazyHeap, key_from_less
from mooring.scheduler.queue.queued_pod import (
    GroupAttempt,
    Less,
    Place,
    QueueCounters,
    QueuedPod,
    SortKey,
    priority_key,
)
from mooring.scheduler.queue.queueing_hints import (
    ASSIGNED_POD,
    ErrorReport,
    Event,
    HintMap,
    Interests,
    Strategy,
)
from mooring.scheduler.queue.unschedulable_pods import Gates, PreEnqueueMap, UnschedulablePods

#: The interval, in seconds, at which pods that waited too long are requeued.
FLUSH_INTERVAL = 30.0

# Labels in metrics of moves that are not caused by a cluster event, as in kube-scheduler.
_FAILED = "ScheduleAttemptFailure"
_BACKOFF_COMPLETE = "BackoffComplete"
_POP_FROM_BACKOFF = "PopFromBackoffQ"
_FORCE_ACTIVATE = "ForceActivate"
_TIMEOUT = "UnschedulableTimeout"
_RENEWED = "PluginsReloaded"
_EVICTION_FAILED = "EvictionFailed"
_RETRY = "PluginRetry"
_LISTED = "ObjectsListed"

_MOVED = frozenset((Place.ACTIVE, Place.BACKOFF))


class SchedulingQueue:
    """The pods that wait for a node, of all profiles."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        pre_enqueue: PreEnqueueMap | None = None,
        hint_map: HintMap | None = None,
        less: Less | None = None,
        sort_key: SortKey | None = None,
        pod_initial_backoff: float = 1.0,
        pod_max_backoff: float = 10.0,
        max_in_unschedulable: float = 300.0,
        pop_from_backoff: bool = True,
        on_error: ErrorReport | None = None,
        release: Release = NEWEST,
    ) -> None:
        """Order pods by ``sort_key`` (faster) or by ``less``; by default as PrioritySort does.

        ``release`` is the release of kube-scheduler to emulate.
        """
        self._release = release
        self._clock = clock
        self._on_error = on_error
        self._pop_from_backoff = pop_from_backoff
        #: The longest time, in seconds, that a pod waits for an event.
        self.max_in_unschedulable = max_in_unschedulable
        self._next_flush = clock() + FLUSH_INTERVAL
        self.counters = QueueCounters()
        self._adopt(pre_enqueue, hint_map, less, sort_key, pod_initial_backoff, pod_max_backoff)
        self._pool = UnschedulablePods()
        self._in_flight = InFlightPods()
        #: How many attempts were started.
        self.cycle = 0
        #: Whether pods are not requeued for single events; see ``defer_events``.
        self.defers_events = False

    def _adopt(
        self,
        pre_enqueue: PreEnqueueMap | None = None,
        hint_map: HintMap | None = None,
        less: Less | None = None,
        sort_key: SortKey | None = None,
        pod_initial_backoff: float = 1.0,
        pod_max_backoff: float = 10.0,
    ) -> None:
        order = sort_key or (key_from_less(less) if less is not None else priority_key)
        self._interests = Interests(hint_map or {}, self.counters, self._on_error, self._release)
        self._gates = Gates(pre_enqueue or {}, self.counters, self._on_error)
        self._active = LazyHeap(order)
        self._backoff = BackoffQueue(
            initial=pod_initial_backoff, maximum=pod_max_backoff, sort_key=order, aligned=self._pop_from_backoff
        )

    def renew(self, **settings: Any) -> None:
        """Apply the settings of other plugins, which order and gate the pods.

        Pods that the old plugins rejected are requeued.
        """
        active, backing_off = list(self._active), list(self._backoff)
        self._adopt(**settings)
        for queued in active:
            self._to_active(queued, _RENEWED)
        for queued in backing_off:
            self._to_backoff(queued, _RENEWED)
        self._requeue_all(list(self._pool), Event(self._interests.wildcard(_RENEWED)))

    # Events of pods without a node

    def add(self, pod: Pod) -> None:
        """Add a pod without a node. It waits for the backoff of its group, if the group has failed."""
        queued = QueuedPod.new(pod, self._clock())
        present = self._get(queued.key)
        group = native_group_key(pod)
        other = self._backoff.of_group(group) if group is not None and present is None else None
        if other is None:
            self._to_active(queued, self._release.new_pod_event, new=present is None)
        else:
            queued.join(other)
            self._requeue(queued, Strategy.AFTER_BACKOFF, self._release.new_pod_event)
        if present is not None:  # A pod with the same name: only one of the two stays.
            self.counters.release(queued if self._get(queued.key) is present else present)

    def update(self, old: Pod, new: Pod) -> None:
        """Update a pod without a node.

        Callers omit updates without a change (same resource version) and assumed pods.
        """
        flight = self._in_flight.get(new.uid)
        if flight is not None:
            flight.gone = flight.gone or bool(new.node_name)
            for event in self._interests.events_of_update(old, new):
                self._in_flight.record(event)
            return
        key = new.key
        if (queued := self._active.get(key)) is not None:
            self._replace(queued, new)
            self._active.reorder(queued)
        elif (queued := self._backoff.get(key)) is not None:
            self._replace(queued, new)
            self._backoff.reorder(queued)
        elif (queued := self._pool.get(key)) is not None:
            self._replace(queued, new)
            self._update_in_pool(queued, self._interests.events_of_update(old, new))
        else:
            self._to_active(QueuedPod.new(new, self._clock()), self._release.unknown_pod_event)

    def _replace(self, queued: QueuedPod, pod: Pod) -> None:
        queued.pod = pod
        if queued.profile != pod.scheduler_name:  # A pod with the same name whose deletion was not observed.
            self.counters.release(queued)
            queued.profile = pod.scheduler_name
            self.counters.reject(queued)
            if queued.key in self._pool:
                self._pool.put(queued)

    def delete(self, pod: Pod) -> None:
        """Remove a pod that was deleted or bound; if it is in flight, it does not return to the queue."""
        flight = self._in_flight.get(pod.metadata.uid)
        if flight is not None:
            flight.gone = True
        queued = self._take(pod.key)
        if queued is not None:
            self.counters.release(queued)

    def _take(self, key: str) -> QueuedPod | None:
        """Remove and return a pod, wherever it waits; None if it does not wait."""
        if key in self._active.entries:
            return self._active.remove(key)
        return self._pool.remove(key) if key in self._pool.pods else self._backoff.remove(key)

    def activate(self, keys: Iterable[str], by: QueuedPod | None = None) -> None:
        """Requeue pods (``namespace/name``) without an event; one in flight is retried after its backoff.

        ``by`` is the pod whose attempt activates them. If it was activated itself, rejected pods that back off are
        retried when their backoff ends: else pods of a gang that fits in part would activate each other without end.
        """
        chained = by is not None and by.activated
        now = self._clock()
        for key in keys:
            if (queued := self._pool.get(key)) is not None:
                if chained and self._backoff.is_backing_off(queued, now):
                    self._pool.retry_after_backoff(queued)
                else:
                    self._to_active(queued, _FORCE_ACTIVATE)
            elif (queued := self._backoff.remove(key)) is not None:
                self._to_active(queued, _FORCE_ACTIVATE, checked=self._pop_from_backoff)
            elif (flight := self._in_flight_of(key)) is not None:
                self._in_flight.record(Event(self._interests.wildcard(_FORCE_ACTIVATE), None, flight.queued.pod))
            if by is not None and (queued := self._active.get(key)) is not None:
                queued.activated = True

    def requeue(self, keys: Iterable[str]) -> None:
        """Requeue pods (``namespace/name``) that wait for an event, after their backoff."""
        for key in keys:
            if (queued := self._pool.get(key)) is not None:
                self._requeue(queued, Strategy.AFTER_BACKOFF, _EVICTION_FAILED)
            elif (flight := self._in_flight_of(key)) is not None:
                self._in_flight.record(Event(self._interests.wildcard(_EVICTION_FAILED), None, flight.queued.pod))

    def preemption_failed(self, pod: Pod) -> None:
        """Retry a preemptor after a backoff, as after an error: its preemption failed, and may fail again."""
        queued = self._pool.get(pod.key)
        if queued is not None and queued.uid == pod.uid:
            self.counters.release(queued)
            queued.preemption_failed(self._clock())
        self.requeue([pod.key])

    def retry(self, profile: str, plugin: str) -> int:
        """Requeue the pods of a profile that a plugin rejected or gates. Return how many were moved."""
        interest = self._interests.of_plugin(_RETRY, profile, plugin)
        pods = [queued for queued in self._pool.concerned(interest) if queued.profile == profile]
        return self._requeue_all(pods, Event(interest))

    def _in_flight_of(self, key: str) -> InFlightPod | None:
        """Return the pod in flight of a name, unless a newer pod has replaced it."""
        queued = self._active.get(key)
        return self._in_flight.latest(key) if queued is None else self._in_flight.get(queued.uid)

    # Attempts

    def pop(self) -> QueuedPod | None:
        """Pop the next pod, or None. It is in flight until ``done`` or ``add_unschedulable``."""
        while (queued := self._active.pop() or self._pop_early()) is not None:
            queued.attempts += 1
            if queued.unschedulable_plugins or queued.pending_plugins:
                self.counters.release(queued)
            # A pod may have been added again while in flight; it has only one attempt at a time.
            if self._in_flight.start(queued):
                self.cycle += 1
                break
        return queued

    def pop_group(self, keys: Iterable[str]) -> list[QueuedPod] | None:
        """Pop the other pods of a group, wherever they wait. Return None, and pop none, if one of them is gated."""
        found = [queued for key in keys if (queued := self._get(key)) is not None]
        gated = [queued for queued in found if queued.gated]
        if not all(self._gates.check(queued) for queued in gated):
            for queued in gated:
                self._pool.put(queued)  # some are not gated any more
            return None
        popped = []
        for queued in found:
            self._take(queued.key)
            queued.attempts += 1
            self.counters.release(queued)
            if queued.initial_attempt_timestamp is None:
                queued.initial_attempt_timestamp = self._clock()
            if self._in_flight.start(queued):
                popped.append(queued)
        return popped

    def hold(self, queued: QueuedPod, plugin: str) -> None:
        """Return a popped pod to the queue without a failure. It waits for an event of the plugin, or its group."""
        queued.attempts -= 1
        queued.unschedulable_plugins = frozenset((plugin,))
        self.counters.reject(queued)
        self._to_pool(queued, _FAILED)
        self._in_flight.done(queued.uid)

    def _pop_early(self) -> QueuedPod | None:
        """Pop a pod from backoff; None if that is not allowed."""
        queued = self._backoff.pop_early() if self._pop_from_backoff else None
        if queued is not None:
            self.counters.count_incoming("active", _POP_FROM_BACKOFF)
        return queued

    def done(self, uid: str) -> None:
        """End a pod's attempt: it finished, or only an error can return the pod to the queue."""
        self._in_flight.done(uid)

    def add_unschedulable(
        self,
        queued: QueuedPod,
        *,
        unschedulable_plugins: Iterable[str] = (),
        pending_plugins: Iterable[str] = (),
        pod: Pod | None = None,
        backoff: float | None = None,
        group: GroupAttempt | None = None,
        waited: bool = False,
    ) -> Place | None:
        """Return a popped pod to the queue: plugins rejected it, or without plugins, the attempt failed with an error.

        ``pod`` is its newest version, if it changed while in flight. ``backoff`` is the backoff in seconds, unless it
        follows from the number of failures. ``group`` is the attempt of its group, if it was tried with that. With
        ``waited``, it was rejected while it waited at Permit, and events that it missed requeue it after its backoff.
        Return where the pod is now; None if it was deleted, has a node, or is already in the queue.
        """
        uid = queued.uid
        flight = self._in_flight.get(uid)
        try:
            latest = pod or queued.pod
            gone = flight is not None and flight.gone
            if gone or latest.node_name or latest.uid != uid or self._get(queued.key) is not None:
                return None
            queued.pod = latest
            now = self._clock()
            queued.failed(now, frozenset(unschedulable_plugins), frozenset(pending_plugins))
            if group is not None:
                queued.returned_with_group(group)
                self._backoff.set_expiration(queued, group.size)
            elif backoff is not None:
                queued.backoff_expiration = now + backoff
            self.counters.reject(queued)
            strategy = self._replay(queued, flight)
            if waited and queued.rejectors and self._waits_for_backoff(queued, strategy, now):
                place = self._to_pool(queued, _FAILED)
                self._pool.retry_after_backoff(queued)
                return place
            return self._requeue(queued, strategy, _FAILED)
        finally:
            self._in_flight.done(uid)

    def _replay(self, queued: QueuedPod, flight: InFlightPod | None) -> Strategy:
        """Return how the events that occurred while a pod was in flight requeue it."""
        if not queued.rejectors or flight is None:
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        enough = Strategy.IMMEDIATELY if queued.pending_plugins else Strategy.AFTER_BACKOFF
        for event in self._in_flight.missed(flight):
            best = max(best, self._interests.strategy(queued, event))
            if best >= enough:
                break
        return best

    # Cluster events

    def defer_events(self) -> None:
        """Do not requeue pods for single events, while all objects are listed and before the first attempt.

        With many gated pods and many nodes, that would take their product.
        """
        self.defers_events = True

    def resume_events(self) -> int:
        """Requeue all pods for the events since ``defer_events``. Return how many were moved."""
        self.defers_events = False
        return self._requeue_all(list(self._pool), Event(self._interests.wildcard(_LISTED)))

    def on_event(
        self,
        resource: str,
        action: ActionType,
        old: object = None,
        new: object = None,
        *,
        only: Callable[[Pod], bool] | None = None,
        full_backoff: bool = False,
    ) -> int:
        """Requeue the pods that an event may make schedulable. Return how many were moved.

        ``only`` selects the pods that the event applies to. Events without a registered plugin are ignored. With
        ``full_backoff``, pods that back off are requeued when their backoff ends.
        """
        if self.defers_events:
            return 0
        interest = self._interests.of(resource, action)
        if not (interest.plugins or interest.wildcard):
            return 0
        event = Event(interest, old, new)
        if not self._pool.pods:
            self._in_flight.record(event)
            return 0
        pods = self._pool.concerned(interest)
        if only is not None:
            pods = [queued for queued in pods if only(queued.pod)]
        return self._requeue_all(pods, event, full_backoff=full_backoff)

    def assigned_pod_added(self, pod: Pod) -> int:
        """Handle a pod that was bound or added with a node."""
        return self.on_event(ASSIGNED_POD, ActionType.ADD, None, pod)

    def assigned_pod_updated(self, old: Pod, new: Pod) -> int:
        """Handle an update of a pod with a node."""
        actions = self._interests.update_actions(old, new)
        return sum(self.on_event(ASSIGNED_POD, action, old, new) for action in actions)

    def assigned_pod_deleted(self, pod: Pod, *, only: Callable[[Pod], bool] | None = None) -> int:
        """Handle a pod that no longer uses its node: deleted, or no longer assumed or nominated."""
        return self.on_event(ASSIGNED_POD, ActionType.DELETE, pod, None, only=only)

    def waiting_pod_rejected(self, pod: Pod) -> int:
        """Handle a pod that no longer uses its node because it was rejected while it waited at Permit.

        The other pods that this requeues are not popped before their backoff ends, unless another event requeues them:
        else each pod of a gang that fits in part would make the others fail, and leave its room to the next, endlessly.
        """
        return self.on_event(
            ASSIGNED_POD, ActionType.DELETE, pod, None, only=lambda other: other.uid != pod.uid, full_backoff=True
        )

    def tick(self, now: float | None = None) -> int:
        """Move the pods whose backoff has ended to active. Return how many pods moved.

        Call it about every second, or at ``next_tick``. Every 30 seconds it also requeues pods that have waited for an
        event for more than five minutes.
        """
        now = self._clock() if now is None else now
        moved = 0
        for queued in self._backoff.pop_completed(now):
            moved += self._to_active(queued, _BACKOFF_COMPLETE, checked=self._pop_from_backoff) in _MOVED
        while (first := self._pool.next_retry) is not None and not self._backoff.is_backing_off(first, now):
            moved += self._to_active(first, _BACKOFF_COMPLETE) in _MOVED
        if now >= self._next_flush:
            self._next_flush = now + FLUSH_INTERVAL
            moved += self._flush(now)
        return moved

    def _flush(self, now: float) -> int:
        pods = self._pool.older_than(now - self.max_in_unschedulable)
        for queued in pods:
            queued.was_flushed = True
            queued.flush_timestamp = now
        return self._requeue_all(pods, Event(self._interests.wildcard(_TIMEOUT)), now) if pods else 0

    @property
    def next_tick(self) -> float:
        """When ``tick`` may next move a pod; infinity if never."""
        stale = math.nextafter(self._pool.oldest + self.max_in_unschedulable, math.inf)
        retry = self._backoff.completion(first) if (first := self._pool.next_retry) is not None else math.inf
        return min(self._backoff.next_completion, retry, max(stale, self._next_flush))

    # Moving pods

    def _requeue_all(
        self, pods: list[QueuedPod], event: Event, now: float | None = None, *, full_backoff: bool = False
    ) -> int:
        moved = 0
        label = event.interest.label
        for queued in pods:
            if self._pool.get(queued.key) is not queued:
                continue  # A hint has activated it in the meantime.
            strategy = self._interests.strategy(queued, event)
            if full_backoff and self._waits_for_backoff(queued, strategy, self._clock()):
                self._pool.retry_after_backoff(queued)
            elif strategy is not Strategy.SKIP:
                self._pool.remove(queued.key)
                moved += self._requeue(queued, strategy, label, now) in _MOVED
        self._in_flight.record(event)
        return moved

    def _waits_for_backoff(self, queued: QueuedPod, strategy: Strategy, now: float) -> bool:
        return strategy is Strategy.AFTER_BACKOFF and self._backoff.is_backing_off(queued, now)

    def _update_in_pool(self, queued: QueuedPod, events: list[Event]) -> None:
        for event in events:
            strategy = self._interests.strategy(queued, event)
            if strategy is not Strategy.SKIP and self._requeue(queued, strategy, event.interest.label) in _MOVED:
                return

    def _requeue(self, queued: QueuedPod, strategy: Strategy, event: str, now: float | None = None) -> Place:
        """Move a pod according to a strategy and its gates."""
        if strategy is Strategy.SKIP:
            return self._to_pool(queued, event)
        if strategy is Strategy.AFTER_BACKOFF:
            now = self._clock() if now is None else now
            if self._backoff.is_backing_off(queued, now):
                return self._to_backoff(queued, event)
        return self._to_active(queued, event)

    def _to_active(self, queued: QueuedPod, event: str, *, checked: bool = False, new: bool = False) -> Place:
        """Move a pod to active unless it is gated.

        ``checked`` is true if the gates have admitted it, and ``new`` if it is in no other part of the queue.
        """
        key = queued.key
        if not checked and not self._gates.check(queued):
            if key in self._active or key in self._backoff:
                return Place.GATED
            return self._to_pool(queued, event)
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = self._clock()
        if not new:
            self._pool.remove(key)
            self._backoff.remove(key)
        queued.activated = False
        self._active.push(queued)
        self.counters.count_incoming("active", event)
        if queued.attempts or queued.moves:
            queued.moved(self._clock(), Place.ACTIVE, event)
        return Place.ACTIVE

    def _to_backoff(self, queued: QueuedPod, event: str) -> Place:
        # The pod may be popped from backoff, so the gates must have admitted it.
        if self._pop_from_backoff and not self._gates.check(queued):
            return self._to_pool(queued, event)
        self._pool.remove(queued.key)
        queued.activated = False
        self._backoff.push(queued)
        self.counters.count_incoming("backoff", event)
        queued.moved(self._clock(), Place.BACKOFF, event)
        return Place.BACKOFF

    def _to_pool(self, queued: QueuedPod, event: str) -> Place:
        place = Place.UNSCHEDULABLE
        if queued.gated:
            place = Place.GATED
            # The flush does not lead to an attempt.
            queued.was_flushed = False
        if self._pool.put(queued):
            self.counters.count_incoming("unschedulable", event)  # Gated pods too, as in kube-scheduler.
            queued.moved(self._clock(), place, event)
        return place

    # Queries

    def _get(self, key: str) -> QueuedPod | None:
        entry = self._active.entries.get(key)
        if entry is not None:
            return entry[2]
        waiting = self._pool.pods.get(key)
        return waiting[0] if waiting is not None else self._backoff.get(key)

    def find(self, key: str) -> tuple[Place, QueuedPod] | None:
        """Find a pod (``namespace/name``)."""
        if (queued := self._active.get(key)) is not None:
            return Place.ACTIVE, queued
        if (queued := self._backoff.get(key)) is not None:
            return Place.BACKOFF, queued
        if (queued := self._pool.get(key)) is not None:
            return (Place.GATED if queued.gated else Place.UNSCHEDULABLE), queued
        flight = self._in_flight.latest(key)
        return None if flight is None else (Place.IN_FLIGHT, flight.queued)

    def __iter__(self) -> Iterator[tuple[Place, QueuedPod]]:
        """Iterate over all pods; those in active and backoff are in order. O(n log n)."""
        yield from ((Place.ACTIVE, queued) for queued in self._active)
        yield from ((Place.BACKOFF, queued) for queued in self._backoff)
        yield from ((Place.GATED if queued.gated else Place.UNSCHEDULABLE, queued) for queued in self._pool)
        yield from ((Place.IN_FLIGHT, queued) for queued in self._in_flight)

    def waiting(self) -> Iterator[tuple[Place, QueuedPod]]:
        """Iterate over the pods that wait for an event, or for the end of their backoff. O(n)."""
        yield from ((Place.GATED if queued.gated else Place.UNSCHEDULABLE, queued) for queued in self._pool)
        yield from ((Place.BACKOFF, queued) for queued in self._backoff)

    def next_pods(self, count: int) -> list[QueuedPod]:
        """Return the pods that are popped next. O(n log count)."""
        return self._active.first(count)

    def in_flight(self) -> Iterator[QueuedPod]:
        """Iterate over the pods that are being scheduled or bound, or that wait at Permit."""
        return iter(self._in_flight)

    @property
    def ready(self) -> bool:
        """Whether ``pop`` would return a pod (unless all are in flight already)."""
        return bool(self._active.entries) or (self._pop_from_backoff and self._backoff.may_pop_early)

    def pending(self) -> dict[str, int]:
        """Return the number of pods by queue, for the metric ``pending_pods``."""
        gated = self._pool.gated
        return {
            Place.ACTIVE.value: len(self._active),
            Place.BACKOFF.value: len(self._backoff),
            Place.UNSCHEDULABLE.value: len(self._pool) - gated,
            Place.GATED.value: gated,
        }

    def in_flight_events(self) -> Counter[str]:
        """Return the number of stored events for pods in flight, by label."""
        return self._in_flight.events()

    def retried_by(self, queued: QueuedPod) -> float:
        """Return when a rejected pod is retried at the latest."""
        if self._pool.is_retried(queued):
            return self._backoff.completion(queued)
        return queued.timestamp + self.max_in_unschedulable

    def backoff_ends(self, queued: QueuedPod) -> float:
        """Return when a pod's backoff ends; minus infinity if it has none."""
        return self._backoff.expiration(queued)
