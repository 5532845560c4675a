"""BackoffQueue: pods that are retried when their backoff ends.

The backoff grows with the number of failures. It ends on a whole second, so that pods that become ready at about the
same time are ordered by priority. Rejected pods and pods whose attempt failed with an error are kept apart: if no other
pod is ready, rejected pods may be retried early. The others may not, because their backoff protects what failed.
Neither may groups of pods, as in kube-scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mooring.api.scheduling import native_group_key
from mooring.scheduler.queue.lazy_heap import LazyHeap
from mooring.scheduler.queue.queued_pod import QueuedPod, SortKey

_NEVER = float("-inf")
_NANO = 1_000_000_000


class BackoffQueue:
    """Pods that wait until their backoff ends."""

    def __init__(self, *, initial: float, maximum: float, sort_key: SortKey, aligned: bool = True) -> None:
        #: Whether times are rounded down to whole seconds. kube-scheduler does this if pods may be popped early.
        self.aligned = aligned
        self._initial = round(initial * _NANO)
        self._maximum = round(maximum * _NANO)
        by_second: SortKey = lambda queued: (self.expiration(queued), sort_key(queued))  # noqa: E731 - next to its use
        self._rejected = LazyHeap(by_second if aligned else self.expiration)
        self._failed = LazyHeap(self.expiration)
        #: Group -> its pods that wait for the backoff of the group, by key; and the groups of these pods.
        self._groups: dict[str, dict[str, QueuedPod]] = {}
        self._group_of: dict[str, str] = {}

    def duration(self, failures: int, size: int = 1) -> float:
        """Return the backoff after a number of failures: doubled each time, up to the maximum.

        The maximum of a group grows with the root of its size.
        """
        if failures == 0:
            return 0.0
        shift, maximum = failures - 1, int(self._maximum * math.sqrt(size))
        if self._initial > maximum >> shift:
            return maximum / _NANO
        return (self._initial << shift) / _NANO

    def expiration(self, queued: QueuedPod) -> float:
        """Return when the pod's backoff ends; minus infinity if it has none."""
        if queued.backoff_expiration is not None:
            return queued.backoff_expiration
        return self.set_expiration(queued)

    def set_expiration(self, queued: QueuedPod, size: int = 1) -> float:
        """Compute when the backoff of a pod, or of its group with this number of pods, ends."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if failures == 0 or self._maximum == 0:
            return _NEVER
        queued.backoff_expiration = self._align(queued.timestamp + self.duration(failures, size))
        return queued.backoff_expiration

    def is_backing_off(self, queued: QueuedPod, now: float) -> bool:
        """Return whether the pod has to wait. The second in which its backoff ends is part of the backoff."""
        return self.expiration(queued) >= self._align(now)

    def _align(self, moment: float) -> float:
        return float(math.floor(moment)) if self.aligned else moment

    def push(self, queued: QueuedPod) -> None:
        """Add a pod."""
        group = native_group_key(queued.pod) if queued.waits_with_group else None
        if group is not None:
            self._group_of[queued.key] = group
            self._groups.setdefault(group, {})[queued.key] = queued
        (self._rejected if queued.rejectors and not queued.waits_with_group else self._failed).push(queued)

    def of_group(self, group: str) -> QueuedPod | None:
        """Return a pod that waits for the backoff of a group (``namespace/name``); None if there is none."""
        return next(iter(self._groups.get(group, {}).values()), None)

    def _leave(self, key: str) -> None:
        group = self._group_of.pop(key, None)
        if group is not None:
            del self._groups[group][key]
            if not self._groups[group]:
                del self._groups[group]

    def reorder(self, queued: QueuedPod) -> None:
        """Move a pod whose order has changed."""
        (self._rejected if queued.key in self._rejected else self._failed).reorder(queued)

    def remove(self, key: str) -> QueuedPod | None:
        """Remove and return a pod; None if it is not in the queue."""
        if key in self._rejected.entries:
            queued = self._rejected.remove(key)
        elif key in self._failed.entries:
            queued = self._failed.remove(key)
        else:
            return None
        self._leave(key)
        return queued

    def pop_early(self) -> QueuedPod | None:
        """Pop the first rejected pod before its backoff ends."""
        return self._rejected.pop()

    def pop_completed(self, now: float) -> list[QueuedPod]:
        """Remove and return all pods whose backoff has ended."""
        done = []
        for heap in (self._rejected, self._failed):
            while (head := heap.peek()) is not None and not self.is_backing_off(head, now):
                heap.pop()
                self._leave(head.key)
                done.append(head)
        return done

    @property
    def may_pop_early(self) -> bool:
        """Whether ``pop_early`` would return a pod."""
        return bool(self._rejected.entries)

    @property
    def next_completion(self) -> float:
        """When the first backoff ends; infinity if no pod waits."""
        heads = (self._rejected.peek(), self._failed.peek())
        return min((self.completion(head) for head in heads if head is not None), default=math.inf)

    def completion(self, queued: QueuedPod) -> float:
        """Return the first time at which a pod does not back off any more."""
        ends = self.expiration(queued)
        return ends + 1.0 if self.aligned else math.nextafter(ends, math.inf)

    def get(self, key: str) -> QueuedPod | None:
        """Return a pod by key."""
        entry = self._rejected.entries.get(key) or self._failed.entries.get(key)
        return None if entry is None else entry[2]

    def __contains__(self, key: object) -> bool:
        return key in self._rejected.entries or key in self._failed.entries

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over the rejected pods in order, then over those whose attempt failed with an error."""
        yield from self._rejected
        yield from self._failed
