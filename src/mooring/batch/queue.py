"""A queue in a session."""

from __future__ import annotations

from typing import Final

from mooring.api.meta import parse_time
from mooring.api.volcano import Queue

HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
ROOT: Final = "root"
OPEN: Final = "Open"


class QueueInfo:
    """One queue."""

    __slots__ = ("created", "hierarchy", "hierarchy_weights", "is_open", "name", "priority", "queue", "weight")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.name = queue.name
        self.weight = queue.spec.weight
        self.priority = queue.spec.priority
        self.hierarchy = queue.annotations.get(HIERARCHY, "")
        self.hierarchy_weights = queue.annotations.get(HIERARCHY_WEIGHTS, "")
        self.is_open = queue.status.state == OPEN
        created = queue.metadata.creation_timestamp
        self.created = parse_time(created) if created else 0.0

    @property
    def uid(self) -> str:
        """The queue's name, which identifies it."""
        return self.name

    @property
    def parent(self) -> str:
        """The parent queue; the root queue if none is set."""
        return self.queue.spec.parent or ROOT

    @property
    def reclaimable(self) -> bool:
        """Whether other queues may reclaim what this one uses."""
        return self.queue.spec.reclaimable is not False

    def __repr__(self) -> str:
        return f"QueueInfo({self.name})"
