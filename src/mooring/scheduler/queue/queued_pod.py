"""QueuedPod: a pod that waits for a node, with the history that decides when it is tried again."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

import msgspec

from mooring.api.pod import Pod


class Place(Enum):
    """Where in the queue a pod is."""

    #: Ready to be tried; the head is popped next.
    ACTIVE = "active"
    #: Will be ready when its back-off is over.
    BACKOFF = "backoff"
    #: Rejected; waits for an event that may help.
    UNSCHEDULABLE = "unschedulable"
    #: Held back by a PreEnqueue plugin; not tried at all.
    GATED = "gated"
    #: Popped: being tried, held at Permit, or being bound.
    IN_FLIGHT = "in-flight"


class QueuedPod(msgspec.Struct, eq=False, kw_only=True, gc=False):
    """One pod and what its attempts have come to. Changed by the queue only; read it freely.

    It is never part of a reference cycle, so the garbage collector need not look at the many there may be.
    """

    pod: Pod
    #: ``namespace/name``: what the queue knows the pod by.
    key: str
    #: The profile that places the pod.
    profile: str
    #: When the pod last came to the queue: new, or back from a failed attempt.
    timestamp: float
    #: When the pod was first ready to be tried; None until then.
    initial_attempt_timestamp: float | None = None
    #: How often the pod was popped.
    attempts: int = 0
    #: How many attempts ended with plugins turning the pod down.
    unschedulable_count: int = 0
    #: How many attempts in a row ended with something broken.
    consecutive_errors: int = 0
    #: The plugins that turned the pod down last time, or hold it back now.
    unschedulable_plugins: frozenset[str] = frozenset()
    #: The plugins that let the pod wait for something last time; when it comes, the pod need not sit out its back-off.
    pending_plugins: frozenset[str] = frozenset()
    #: The PreEnqueue plugin that holds the pod back, or empty.
    gating_plugin: str = ""
    #: What the gating plugin said.
    gating_reasons: tuple[str, ...] = ()
    #: Whether the pod was last woken by sheer lapse of time: if it fits now, some plugin's hints miss an event.
    was_flushed: bool = False
    #: When that was; minus infinity if it was not since the last attempt.
    flush_timestamp: float = float("-inf")
    #: When the pod's backoff ends; None until computed.
    backoff_expiration: float | None = None

    @classmethod
    def new(cls, pod: Pod, now: float) -> QueuedPod:
        """A pod that has not been tried yet."""
        return cls(pod=pod, key=pod.key, profile=pod.scheduler_name, timestamp=now)

    def failed(self, now: float, unschedulable: frozenset[str], pending: frozenset[str]) -> None:
        """An attempt failed because of these plugins; because something broke, if there are none."""
        if unschedulable or pending:
            self.unschedulable_count += 1
            self.consecutive_errors = 0
        else:
            self.consecutive_errors += 1
        self.timestamp = now
        self.backoff_expiration = None
        self.unschedulable_plugins = unschedulable
        self.pending_plugins = pending
        self.was_flushed = False
        self.flush_timestamp = float("-inf")

    @property
    def uid(self) -> str:
        """The pod's identity."""
        return self.pod.metadata.uid

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin holds the pod back."""
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> frozenset[str]:
        """All plugins whose events may help the pod."""
        return self.unschedulable_plugins | self.pending_plugins if self.pending_plugins else self.unschedulable_plugins


#: QueueSort: whether the first pod goes before the second.
Less: TypeAlias = Callable[[QueuedPod, QueuedPod], bool]
#: QueueSort as a key: the pod with the lesser key goes first.
SortKey: TypeAlias = Callable[[QueuedPod], Any]


def priority_key(queued: QueuedPod) -> tuple[int, float]:
    """PrioritySort: the higher priority first, then who has waited longer."""
    return (-(queued.pod.spec.priority or 0), queued.timestamp)
