"""PrioritySort: the order of the scheduling queue."""

from __future__ import annotations

from mooring.framework import Plugin, QueuedPod


class PrioritySort(Plugin):
    """Sorts by priority, highest first, then by the time in the queue."""

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Return whether ``a`` comes before ``b``."""
        first, second = a.pod.priority, b.pod.priority
        return first > second or (first == second and a.timestamp < b.timestamp)
