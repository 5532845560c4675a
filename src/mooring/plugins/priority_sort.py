"""PrioritySort: the order of the queue."""

from __future__ import annotations

from typing import Protocol

from mooring.api.pod import Pod
from mooring.framework import Plugin


class QueuedPod(Protocol):
    """What the queue knows of a waiting pod, as far as sorting is concerned."""

    @property
    def pod(self) -> Pod:
        """The pod."""

    @property
    def timestamp(self) -> float:
        """When it (last) came into the queue, in seconds."""


class PrioritySort(Plugin):
    """Pods of higher priority first; among equals, the one that has waited longer."""

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Whether ``a`` comes before ``b``."""
        first, second = a.pod.priority, b.pod.priority
        return first > second or (first == second and a.timestamp < b.timestamp)
