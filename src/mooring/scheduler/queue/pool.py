"""UnschedulablePool: unschedulable pods that wait for an event, indexed by the plugins that rejected them.

An event concerns the pods that certain plugins rejected. With the index, an event is checked against those pods only,
regardless of how many others wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mooring.scheduler.queue.heap import LazyHeap
from mooring.scheduler.queue.interests import Interest
from mooring.scheduler.queue.queued_pod import QueuedPod

_Bucket = dict[str, QueuedPod]
#: Where a pod is filed: (profile, rejecting plugin), or ("", gating plugin) for one that is held back.
_Label = tuple[str, str]


def _last_tried(queued: QueuedPod) -> float:
    return max(queued.timestamp, queued.flush_timestamp)


class UnschedulablePool:
    """Pods that were rejected or are gated."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[QueuedPod, tuple[_Label, ...]]] = {}
        #: Profile -> rejecting plugin -> pods that are not held back.
        self._rejected: dict[str, dict[str, _Bucket]] = {}
        #: Gating plugin -> pods it holds back.
        self._gated: dict[str, _Bucket] = {}
        self._by_age = LazyHeap(_last_tried)
        #: How many pods are held back.
        self.gated = 0

    def put(self, queued: QueuedPod) -> bool:
        """Add a pod, or file it anew if it is here; whether it is new."""
        known = self._pods.get(queued.key)
        if known is not None:
            self._unfile(*known)
        if queued.gating_plugin:
            labels: tuple[_Label, ...] = (("", queued.gating_plugin),)
            self.gated += 1
        else:
            labels = tuple((queued.profile, plugin) for plugin in queued.rejectors)
        for label in labels:
            self._bucket(label)[queued.key] = queued
        self._pods[queued.key] = (queued, labels)
        self._by_age.push(queued)
        return known is None

    def remove(self, key: str) -> QueuedPod | None:
        """Take a pod out; None if it is not here."""
        known = self._pods.pop(key, None)
        if known is None:
            return None
        self._unfile(*known)
        self._by_age.remove(key)
        return known[0]

    def _bucket(self, label: _Label) -> _Bucket:
        profile, plugin = label
        buckets = self._rejected.setdefault(profile, {}) if profile else self._gated
        return buckets.setdefault(plugin, {})

    def _unfile(self, queued: QueuedPod, labels: tuple[_Label, ...]) -> None:
        for label in labels:
            del self._bucket(label)[queued.key]
            self.gated -= not label[0]

    def concerned(self, interest: Interest) -> list[QueuedPod]:
        """The pods that an event may help: O(their number), not of the pool."""
        if interest.wildcard:
            return [queued for queued, _ in self._pods.values()]
        buckets: list[_Bucket] = []
        for profile, by_plugin in self._rejected.items():
            wanted = interest.hints.get(profile)
            # Pods of an unknown profile are requeued by any event.
            buckets += by_plugin.values() if wanted is None else (by_plugin.get(plugin, {}) for plugin in wanted)
        # A pod that is held back hears only what its gating plugin registered for, in whatever profile.
        buckets += (self._gated.get(plugin, {}) for plugin in interest.plugins)
        found: _Bucket = {}
        for bucket in buckets:
            found.update(bucket)
        return list(found.values())

    def older_than(self, moment: float) -> list[QueuedPod]:
        """The pods that were last tried before a moment, oldest first; they stay."""
        found = []
        while (queued := self._by_age.peek()) is not None and _last_tried(queued) < moment:
            self._by_age.pop()
            found.append(queued)
        for queued in found:
            self._by_age.push(queued)
        return found

    @property
    def oldest(self) -> float:
        """When the pod that waits longest was last tried; infinity if the pool is empty."""
        queued = self._by_age.peek()
        return math.inf if queued is None else _last_tried(queued)

    def get(self, key: str) -> QueuedPod | None:
        """A pod by key."""
        known = self._pods.get(key)
        return None if known is None else known[0]

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        """The pods, in no particular order."""
        return iter([queued for queued, _ in self._pods.values()])
