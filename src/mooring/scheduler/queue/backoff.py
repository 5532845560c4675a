"""BackoffQueue: pods that are tried again when some time has passed.

The more often a pod failed, the longer it waits. Waiting times end on whole seconds, so that pods that become ready
about the same time do so together and are then ordered by priority. Pods that plugins rejected and pods whose attempt
ended in an error are separate: when no other pod is ready, the former may be tried before their backoff ends. The
latter may not, because their backoff protects the component that failed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mooring.scheduler.queue.heap import LazyHeap
from mooring.scheduler.queue.queued_pod import QueuedPod, SortKey

_NEVER = float("-inf")
_NANO = 1_000_000_000


class BackoffQueue:
    """Pods that sit out their back-off."""

    def __init__(self, *, initial: float, maximum: float, sort_key: SortKey, aligned: bool = True) -> None:
        #: Whether times are cut to whole seconds (they are unless pods are never popped from here).
        self.aligned = aligned
        self._initial = round(initial * _NANO)
        self._maximum = round(maximum * _NANO)
        by_second: SortKey = lambda queued: (self.expiration(queued), sort_key(queued))  # noqa: E731 - beside its use
        self._rejected = LazyHeap(by_second if aligned else self.expiration)
        self._broken = LazyHeap(self.expiration)

    def duration(self, failures: int) -> float:
        """How long a pod waits after that many failures: twice as long each time, up to the maximum."""
        if failures == 0:
            return 0.0
        shift = failures - 1
        if self._initial > self._maximum >> shift:
            return self._maximum / _NANO
        return (self._initial << shift) / _NANO

    def expiration(self, queued: QueuedPod) -> float:
        """When the pod's back-off is over; minus infinity if it has none."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if failures == 0 or self._maximum == 0:
            return _NEVER
        if queued.backoff_expiration is None:
            queued.backoff_expiration = self._align(queued.timestamp + self.duration(failures))
        return queued.backoff_expiration

    def is_backing_off(self, queued: QueuedPod, now: float) -> bool:
        """Whether the pod has to wait; the second in which its back-off ends still counts."""
        return self.expiration(queued) >= self._align(now)

    def _align(self, moment: float) -> float:
        return float(math.floor(moment)) if self.aligned else moment

    def push(self, queued: QueuedPod) -> None:
        """Let a pod wait."""
        (self._rejected if queued.rejectors else self._broken).push(queued)

    def reorder(self, queued: QueuedPod) -> None:
        """Move a pod that is here to where it now belongs."""
        (self._rejected if queued.key in self._rejected else self._broken).reorder(queued)

    def remove(self, key: str) -> QueuedPod | None:
        """Take a pod out; None if it is not here."""
        queued = self._rejected.remove(key)
        return queued if queued is not None else self._broken.remove(key)

    def pop_early(self) -> QueuedPod | None:
        """Pop the first rejected pod before its backoff ends."""
        return self._rejected.pop()

    def pop_completed(self, now: float) -> list[QueuedPod]:
        """Take all pods whose time is over."""
        done = []
        for heap in (self._rejected, self._broken):
            while (head := heap.peek()) is not None and not self.is_backing_off(head, now):
                heap.pop()
                done.append(head)
        return done

    @property
    def may_pop_early(self) -> bool:
        """Whether ``pop_early`` would find a pod."""
        return len(self._rejected) > 0

    @property
    def next_completion(self) -> float:
        """When the first pod's time is over; infinity if none waits."""
        heads = (self._rejected.peek(), self._broken.peek())
        first = min((self.expiration(head) for head in heads if head is not None), default=math.inf)
        return first + 1.0 if self.aligned else math.nextafter(first, math.inf)

    def get(self, key: str) -> QueuedPod | None:
        """A pod by key."""
        queued = self._rejected.get(key)
        return queued if queued is not None else self._broken.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._rejected or key in self._broken

    def __len__(self) -> int:
        return len(self._rejected) + len(self._broken)

    def __iter__(self) -> Iterator[QueuedPod]:
        """The pods, each kind first to last."""
        yield from self._rejected
        yield from self._broken
