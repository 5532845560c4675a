"""A queue in a session."""

from __future__ import annotations

from typing import Final

from mooring.api.meta import ObjectMeta, parse_time
from mooring.api.resources import check_amounts
from mooring.api.volcano import Queue, QueueSpec

HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
ROOT: Final = "root"
OPEN: Final = "Open"


def standing_queues(default_queue: str) -> dict[str, Queue]:
    """Return the queues that every cluster has: the root queue and the default queue."""
    root = Queue(metadata=ObjectMeta(name=ROOT), spec=QueueSpec(reclaimable=False))
    default = Queue(metadata=ObjectMeta(name=default_queue), spec=QueueSpec(reclaimable=True))
    return {ROOT: root, default_queue: default}


class QueueInfo:
    """A queue in a session.

    Attributes:
        queue: The Kubernetes object.
        name: The name of the queue.
        weight: Its weight in proportion to other queues.
        priority: Its priority.
        hierarchy: Its place in the hierarchy of drf, such as ``root/science/dev``; empty if it has none.
        hierarchy_weights: The weights along that path, such as ``1/2/8``; empty if there are none.
        is_open: Whether it accepts jobs.
        created: When it was created, in seconds since the epoch.
    """

    __slots__ = ("created", "hierarchy", "hierarchy_weights", "is_open", "name", "priority", "queue", "weight")

    def __init__(self, queue: Queue) -> None:
        """Raises ValueError if the queue cannot be parsed."""
        check_amounts("spec.capability", queue.spec.capability)
        check_amounts("spec.deserved", queue.spec.deserved)
        check_amounts("spec.guarantee.resource", queue.spec.guarantee.resource)
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
        """The name of the parent queue; ``root`` if none is set."""
        return self.queue.spec.parent or ROOT

    @property
    def reclaimable(self) -> bool:
        """Whether other queues may reclaim what this one uses."""
        return self.queue.spec.reclaimable is not False

    def __repr__(self) -> str:
        return f"QueueInfo({self.name})"
