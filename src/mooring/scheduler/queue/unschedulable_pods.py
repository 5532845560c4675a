"""UnschedulablePods: rejected and gated pods, indexed by plugin; and Gates, the PreEnqueue plugins that gate them.

An event may requeue only pods that certain plugins rejected. With an index by plugin, its cost does not depend on the
number of other pods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from mooring.api.pod import Pod
from mooring.framework.plugin_errors import contain, failure_text
from mooring.framework.status import Status
from mooring.scheduler.answers import as_status
from mooring.scheduler.queue.lazy_heap import LazyHeap
from mooring.scheduler.queue.queued_pod import QueueCounters, QueuedPod
from mooring.scheduler.queue.queueing_hints import ErrorReport, Interest

_Bucket = dict[str, QueuedPod]
#: An index key: (profile, rejecting plugin), or ("", gating plugin) for a gated pod.
_Label = tuple[str, str]


def _last_attempt(queued: QueuedPod) -> float:
    return max(queued.timestamp, queued.flush_timestamp)


def _backoff_end(queued: QueuedPod) -> float:
    return queued.backoff_expiration or 0.0


class UnschedulablePods:
    """The pods that were rejected or are gated."""

    def __init__(self) -> None:
        #: The pods and their index keys, by key.
        self.pods: dict[str, tuple[QueuedPod, tuple[_Label, ...]]] = {}
        #: Profile -> rejecting plugin -> pods that are not gated.
        self._rejected: dict[str, dict[str, _Bucket]] = {}
        #: Gating plugin -> pods.
        self._gated: dict[str, _Bucket] = {}
        self._by_age = LazyHeap(_last_attempt)
        #: Those that are retried when their backoff ends, if no event requeues them before.
        self._retries = LazyHeap(_backoff_end)
        #: How many pods are gated.
        self.gated = 0

    def put(self, queued: QueuedPod) -> bool:
        """Add a pod, or update its index entries. Return whether it is new."""
        existing = self.pods.get(queued.key)
        if existing is not None:
            self._remove_from_index(*existing)
            self._retries.remove(queued.key)
        if queued.gating_plugin:
            labels: tuple[_Label, ...] = (("", queued.gating_plugin),)
            self.gated += 1
        else:
            labels = tuple((queued.profile, plugin) for plugin in queued.rejectors)
        for label in labels:
            self._bucket(label)[queued.key] = queued
        self.pods[queued.key] = (queued, labels)
        self._by_age.push(queued)
        return existing is None

    def remove(self, key: str) -> QueuedPod | None:
        """Remove and return a pod; None if it is not in the pool."""
        existing = self.pods.pop(key, None)
        if existing is None:
            return None
        self._remove_from_index(*existing)
        self._by_age.remove(key)
        self._retries.remove(key)
        return existing[0]

    def retry_after_backoff(self, queued: QueuedPod) -> None:
        """Let `next_retry` return a pod, which backs off, until it is removed."""
        self._retries.push(queued)

    def is_retried(self, queued: QueuedPod) -> bool:
        """Return whether `next_retry` returns a pod when its turn comes."""
        return self._retries.get(queued.key) is queued

    @property
    def next_retry(self) -> QueuedPod | None:
        """The pod whose backoff ends first among those that are retried then; None if there are none."""
        return self._retries.peek()

    def _bucket(self, label: _Label) -> _Bucket:
        profile, plugin = label
        buckets = self._rejected.setdefault(profile, {}) if profile else self._gated
        return buckets.setdefault(plugin, {})

    def _remove_from_index(self, queued: QueuedPod, labels: tuple[_Label, ...]) -> None:
        for label in labels:
            del self._bucket(label)[queued.key]
            self.gated -= not label[0]

    def concerned(self, interest: Interest) -> list[QueuedPod]:
        """Return the pods that an event may requeue. O(their number)."""
        if not self.pods:
            return []
        if interest.wildcard:
            return [queued for queued, _ in self.pods.values()]
        buckets: list[_Bucket] = []
        for profile, by_plugin in self._rejected.items():
            wanted = interest.hints.get(profile)
            # Any event requeues pods of a profile that does not exist.
            buckets += by_plugin.values() if wanted is None else (by_plugin.get(plugin, {}) for plugin in wanted)
        # Only events of its gating plugin requeue a gated pod, in any profile.
        buckets += (self._gated.get(plugin, {}) for plugin in interest.plugins)
        found: _Bucket = {}
        for bucket in buckets:
            found.update(bucket)
        return list(found.values())

    def older_than(self, moment: float) -> list[QueuedPod]:
        """Return the pods whose last attempt was before a time, oldest first, without removing them."""
        found = []
        while (queued := self._by_age.peek()) is not None and _last_attempt(queued) < moment:
            self._by_age.pop()
            found.append(queued)
        for queued in found:
            self._by_age.push(queued)
        return found

    @property
    def oldest(self) -> float:
        """When the last attempt of the longest waiting pod took place; infinity if there are no pods."""
        queued = self._by_age.peek()
        return math.inf if queued is None else _last_attempt(queued)

    def get(self, key: str) -> QueuedPod | None:
        """Return a pod by key."""
        existing = self.pods.get(key)
        return None if existing is None else existing[0]

    def __contains__(self, key: object) -> bool:
        return key in self.pods

    def __len__(self) -> int:
        return len(self.pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over the pods in no particular order."""
        return iter([queued for queued, _ in self.pods.values()])


#: A PreEnqueue plugin's method: None admits the pod; a reason, or a Status other than success, gates it.
PreEnqueue: TypeAlias = Callable[[Pod], Status | str | None]
#: Profile -> plugin -> its method.
PreEnqueueMap: TypeAlias = Mapping[str, Mapping[str, PreEnqueue]]


class Gates:
    """The PreEnqueue plugins. They gate pods, and the pod records which plugin gates it."""

    def __init__(self, plugins: PreEnqueueMap, counters: QueueCounters, on_error: ErrorReport | None = None) -> None:
        self._plugins = plugins
        self._counters = counters
        self._on_error = on_error

    def check(self, queued: QueuedPod) -> bool:
        """Return whether all PreEnqueue plugins admit the pod. The plugin that gated it last runs first."""
        plugins = self._plugins.get(queued.profile, {})
        last = queued.gating_plugin
        order = [last, *(name for name in plugins if name != last)] if last in plugins else plugins
        for name in order:
            try:
                answer = plugins[name](queued.pod)
                if answer is None:  # the usual case
                    continue
                status = as_status(answer)
            except BaseException as error:
                contain(error)
                if self._on_error is not None:
                    self._on_error(name, "pre_enqueue", queued.pod, error)
                status = Status.error(failure_text(error))
            if not status.is_success:
                self._gate(queued, name, status)
                return False
        queued.gating_plugin = ""
        queued.gating_reasons = ()
        return True

    def _gate(self, queued: QueuedPod, plugin: str, status: Status) -> None:
        if plugin not in queued.rejectors:
            self._counters.rejected[plugin, queued.profile] += 1
        # The plugin counts as a rejector, so that its events and hints apply.
        queued.unschedulable_plugins |= {plugin}
        queued.gating_plugin = plugin
        queued.gating_reasons = status.reasons
