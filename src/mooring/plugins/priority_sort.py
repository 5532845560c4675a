"""PrioritySort: the order of the scheduling queue."""

from __future__ import annotations

from typing import Protocol

from mooring.api.pod import Pod
from mooring.framework import Plugin


class QueuedPod(Protocol):
    """The properties of a queued pod that sorting reads."""

    @property
    def pod(self) -> Pod:
        """The pod."""

    @property
    def timestamp(self) -> float:
        """When the pod was (last) added to the queue, in seconds."""


class PrioritySort(Plugin):
    """Sorts by priority, highest first, then by the time in the queue."""

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Whether ``a`` comes before ``b``."""
        first, second = a.pod.priority, b.pod.priority
        return first > second or (first == second and a.timestamp < b.timestamp)
