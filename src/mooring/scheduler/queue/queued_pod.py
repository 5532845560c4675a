"""QueuedPod: a pod in the queue with the results of its attempts; sort orders, and the queue's counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from mooring.api.pod import Pod
from mooring.observe.decision_records import Move


class Place(Enum):
    """The part of the queue that a pod is in."""

    #: Ready; the first one is popped next.
    ACTIVE = "active"
    #: Ready when its backoff ends.
    BACKOFF = "backoff"
    #: Rejected; waits for an event that may help.
    UNSCHEDULABLE = "unschedulable"
    #: Gated by a PreEnqueue plugin; not scheduled.
    GATED = "gated"
    #: Popped: being scheduled, waiting at Permit, or being bound.
    IN_FLIGHT = "in-flight"


#: The number of moves that a pod remembers.
_MOVES = 8


class GroupAttempt(msgspec.Struct, frozen=True):
    """An attempt of a PodGroup of `scheduling.k8s.io`: all its pods return to the queue with the same backoff.

    As in kube-scheduler, a group that failed waits for its backoff, and not for events.
    """

    #: The number of pods in the attempt. The longest backoff grows with its root.
    size: int
    #: When the group was added to the queue, or failed last.
    timestamp: float
    #: How many earlier attempts were rejected, and how many in a row ended with an error.
    rejections: int
    errors: int
    #: The result of this attempt: neither means that the group is scheduled, without some of its pods.
    rejected: bool = False
    failed: bool = False


class QueuedPod(msgspec.Struct, eq=False, kw_only=True, gc=False):
    """A pod in the queue. Only the queue modifies it.

    It is never part of a reference cycle, so it is exempt from garbage collection: a queue may hold many.
    """

    pod: Pod
    #: ``namespace/name``, by which the queue finds the pod.
    key: str
    #: The scheduler name of the pod.
    profile: str
    #: When the pod was added, or returned from a failed attempt.
    timestamp: float
    #: When the pod was first ready; None until then.
    initial_attempt_timestamp: float | None = None
    #: How many times the pod was popped.
    attempts: int = 0
    #: How many attempts ended with a rejection by plugins.
    unschedulable_count: int = 0
    #: How many attempts in a row ended with an error.
    consecutive_errors: int = 0
    #: The plugins that rejected the pod in the last attempt, or gate it now.
    unschedulable_plugins: frozenset[str] = frozenset()
    #: The plugins for which the pod was pending in the last attempt; their events requeue it without backoff.
    pending_plugins: frozenset[str] = frozenset()
    #: The PreEnqueue plugin that gates the pod, or empty.
    gating_plugin: str = ""
    #: The reasons of the gating plugin.
    gating_reasons: tuple[str, ...] = ()
    #: Whether the pod was requeued by the timeout: if it fits now, the hints of some plugin miss an event.
    was_flushed: bool = False
    #: When the timeout requeued the pod; minus infinity if it has not since the last attempt.
    flush_timestamp: float = float("-inf")
    #: When the pod's backoff ends; None until it is computed from the failures, or set.
    backoff_expiration: float | None = None
    #: Whether the backoff is that of the pod's group. New pods of the group wait for it too.
    waits_with_group: bool = False
    #: Whether the attempt of another pod has activated the pod since it was requeued.
    activated: bool = False
    #: The last moves of a pod that was rejected or gated.
    moves: tuple[Move, ...] = ()

    @classmethod
    def new(cls, pod: Pod, now: float) -> QueuedPod:
        """Return a queued pod without attempts."""
        return cls(pod=pod, key=pod.key, profile=pod.scheduler_name, timestamp=now)

    def failed(self, now: float, unschedulable: frozenset[str], pending: frozenset[str]) -> None:
        """Record a failed attempt: a rejection by these plugins, or an error if there are none."""
        if unschedulable or pending:
            self.unschedulable_count += 1
            self.consecutive_errors = 0
        else:
            self.consecutive_errors += 1
        self.timestamp = now
        self.backoff_expiration = None
        self.unschedulable_plugins = unschedulable
        self.pending_plugins = pending
        self.waits_with_group = False
        self.was_flushed = False
        self.flush_timestamp = float("-inf")

    def returned_with_group(self, group: GroupAttempt) -> None:
        """Take over the failures of the pod's group, after ``failed``.

        What a scheduled group leaves over is retried at once, at the place of the group.
        """
        self.waits_with_group = group.rejected or group.failed
        if not self.waits_with_group:
            self.unschedulable_count = self.consecutive_errors = 0
            self.timestamp = group.timestamp
            return
        self.unschedulable_count = group.rejections + group.rejected
        self.consecutive_errors = group.errors + 1 if group.failed else 0

    def join(self, other: QueuedPod) -> None:
        """Share the backoff of another pod of the group, which has failed before this pod was added."""
        self.waits_with_group = True
        self.unschedulable_count = other.unschedulable_count
        self.consecutive_errors = other.consecutive_errors
        self.backoff_expiration = other.backoff_expiration

    def preemption_failed(self, now: float) -> None:
        """Record that the preemption of the last attempt failed: an error whose backoff grows with the attempts."""
        self.failed(now, frozenset(), frozenset())
        self.consecutive_errors = max(self.consecutive_errors, self.unschedulable_count)

    def moved(self, now: float, place: Place, event: str) -> None:
        """Remember a move."""
        self.moves = (*self.moves[1 - _MOVES :], Move(now, place.value, event, _names(self.rejectors)))

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin gates the pod."""
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> frozenset[str]:
        """All plugins whose events may requeue the pod."""
        return self.unschedulable_plugins | self.pending_plugins if self.pending_plugins else self.unschedulable_plugins


@lru_cache(maxsize=256)
def _names(plugins: frozenset[str]) -> tuple[str, ...]:
    """Return the names in order; equal sets share the result."""
    return tuple(sorted(plugins))


#: QueueSort: whether the first pod is ordered before the second.
Less: TypeAlias = Callable[[QueuedPod, QueuedPod], bool]
#: QueueSort as a sort key.
SortKey: TypeAlias = Callable[[QueuedPod], Any]


def priority_key(queued: QueuedPod) -> tuple[int, float]:
    """Return the sort key of PrioritySort: higher priority first, then the earlier timestamp."""
    return (-(queued.pod.spec.priority or 0), queued.timestamp)


class QueueCounters:
    """Counters of the queue, for metrics."""

    __slots__ = ("hints", "incoming", "rejected")

    def __init__(self) -> None:
        #: (queue, event) -> pods that were added: ``queue_incoming_pods_total``.
        self.incoming: Counter[tuple[str, str]] = Counter()
        #: (plugin, event, Queue|QueueSkip|Error) -> calls of hints.
        self.hints: Counter[tuple[str, str, str]] = Counter()
        #: (plugin, profile) -> waiting pods that the plugin rejected or gates: ``unschedulable_pods``.
        self.rejected: Counter[tuple[str, str]] = Counter()

    def count_incoming(self, queue: str, event: str) -> None:
        """Count a pod that was added to the active, backoff or unschedulable queue."""
        self.incoming[queue, event] += 1

    def reject(self, queued: QueuedPod) -> None:
        """Count a pod for the plugins that rejected it."""
        for plugin in queued.rejectors:
            self.rejected[plugin, queued.profile] += 1

    def release(self, queued: QueuedPod) -> None:
        """Stop counting a pod for the plugins that rejected it."""
        for plugin in queued.rejectors:
            self.rejected[plugin, queued.profile] -= 1
