"""The heap in which queues, jobs and tasks wait during a session: Go's container/heap.

The comparison may change while items wait (shares change with every placement), so the item that comes out next
depends on the exact swaps. They are those of Go, as in Volcano. The standard library's heapq swaps differently; the
pod-by-pod engine uses it (``scheduler.queue.lazy_heap``), because there the order of an entry never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Heap(Generic[T]):
    """A binary heap ordered by a ``less`` function."""

    __slots__ = ("_items", "_less")

    def __init__(self, less: Callable[[T, T], bool], items: Iterable[T] = ()) -> None:
        self._items: list[T] = []
        self._less = less
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: T) -> None:
        """Add an item."""
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
        """Remove and return the first item."""
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
        """Return a heap with the same items in the same places."""
        copy: Heap[T] = Heap(self._less)
        copy._items = list(self._items)
        return copy
