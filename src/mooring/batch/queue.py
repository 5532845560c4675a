"""QueueInfo: a queue as a session sees it; and the heap that queues, jobs and tasks wait in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from mooring.api.meta import parse_time
from mooring.api.volcano import Queue

HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
ROOT: Final = "root"
OPEN: Final = "Open"

T = TypeVar("T")


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
        """A queue is known by its name."""
        return self.name

    @property
    def parent(self) -> str:
        """The queue above; the root is above all that name none."""
        return self.queue.spec.parent or ROOT

    @property
    def reclaimable(self) -> bool:
        """Whether other queues may take back what this one uses."""
        return self.queue.spec.reclaimable is not False

    def __repr__(self) -> str:
        return f"QueueInfo({self.name})"


class Heap(Generic[T]):
    """A binary heap by a comparison, as Go's container/heap has it.

    The comparison may change while things wait here (shares do), so which element comes out next depends on the exact
    moves: they are Go's.
    """

    __slots__ = ("_items", "_less")

    def __init__(self, less: Callable[[T, T], bool], items: Iterable[T] = ()) -> None:
        self._items: list[T] = []
        self._less = less
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: T) -> None:
        """Put something in."""
        items, less = self._items, self._less
        items.append(item)
        place = len(items) - 1
        while place:
            above = (place - 1) // 2
            if not less(items[place], items[above]):
                break
            items[place], items[above] = items[above], items[place]
            place = above

    def pop(self) -> T:
        """Take out what comes first."""
        items, less = self._items, self._less
        size = len(items) - 1
        items[0], items[size] = items[size], items[0]
        place = 0
        while True:
            child = 2 * place + 1
            if child >= size:
                break
            if child + 1 < size and less(items[child + 1], items[child]):
                child += 1
            if not less(items[child], items[place]):
                break
            items[place], items[child] = items[child], items[place]
            place = child
        return items.pop()

    def copy(self) -> Heap[T]:
        """A heap with the same things in the same places."""
        copy: Heap[T] = Heap(self._less)
        copy._items = list(self._items)
        return copy
