"""Counters of the queue, for metrics."""

from __future__ import annotations

from collections import Counter

from mooring.scheduler.queue.queued_pod import QueuedPod


class QueueCounters:
    """Plain numbers that the metrics read."""

    __slots__ = ("hints", "incoming", "rejected")

    def __init__(self) -> None:
        #: (queue, event) -> pods that came there: ``queue_incoming_pods_total``.
        self.incoming: Counter[tuple[str, str]] = Counter()
        #: (plugin, event, Queue|QueueSkip|Error) -> calls of hints.
        self.hints: Counter[tuple[str, str, str]] = Counter()
        #: (plugin, profile) -> waiting pods that the plugin rejected or gates: ``unschedulable_pods``.
        self.rejected: Counter[tuple[str, str]] = Counter()

    def came(self, queue: str, event: str) -> None:
        """A pod came to the active, backoff or unschedulable queue."""
        self.incoming[queue, event] += 1

    def reject(self, queued: QueuedPod) -> None:
        """A pod waits because of its rejecting plugins."""
        for plugin in queued.rejectors:
            self.rejected[plugin, queued.profile] += 1

    def release(self, queued: QueuedPod) -> None:
        """A pod does not wait any more."""
        for plugin in queued.rejectors:
            self.rejected[plugin, queued.profile] -= 1
