"""LazyHeap: pods in order, by key, on the standard library's heap.

Taking a pod out of the middle of a binary heap means finding it. Here it is only struck from the register; the heap
drops struck entries when they surface, and is rebuilt when more than half of it is struck. All operations are O(log n),
rebuilding included.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from mooring.scheduler.queue.queued_pod import Less, QueuedPod, SortKey

#: (order, number of arrival, pod): pods of equal order keep the order of arrival.
_Entry = tuple[Any, int, QueuedPod]
#: Not worth rebuilding below this size.
_SMALL = 64


class LazyHeap:
    """Pods ordered by a sort key."""

    __slots__ = ("_arrivals", "_entries", "_heap", "_order")

    def __init__(self, order: SortKey) -> None:
        self._order = order
        self._heap: list[_Entry] = []
        #: The entries that count.
        self._entries: dict[str, _Entry] = {}
        self._arrivals = count()

    def push(self, queued: QueuedPod) -> None:
        """Add a pod, instead of any other of its key."""
        entry = (self._order(queued), next(self._arrivals), queued)
        self._entries[queued.key] = entry
        heappush(self._heap, entry)
        self._tidy()

    def reorder(self, queued: QueuedPod) -> None:
        """Move a pod that is here to where it now belongs; among equals it keeps its turn."""
        order, arrival, _ = self._entries[queued.key]
        now = self._order(queued)
        if now == order:
            return
        entry = self._entries[queued.key] = (now, arrival, queued)
        heappush(self._heap, entry)
        self._tidy()

    def remove(self, key: str) -> QueuedPod | None:
        """Take a pod out; None if it is not here."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._tidy()
        return entry[2]

    def peek(self) -> QueuedPod | None:
        """The first pod; it stays."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            if entries.get(entry[2].key) is entry:
                return entry[2]
            heappop(heap)
        return None

    def pop(self) -> QueuedPod | None:
        """Take the first pod."""
        queued = self.peek()
        if queued is not None:
            heappop(self._heap)
            del self._entries[queued.key]
        return queued

    def get(self, key: str) -> QueuedPod | None:
        """A pod by key."""
        entry = self._entries.get(key)
        return None if entry is None else entry[2]

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueuedPod]:
        """The pods, first to last: O(n log n)."""
        return (entry[2] for entry in sorted(self._entries.values(), key=lambda entry: entry[:2]))

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _SMALL:
            self._heap = list(self._entries.values())
            heapify(self._heap)


class _ByLess:
    """A place in the order that a ``less`` function gives.

    It holds a copy of the pod as it was when it came: a struck entry must go on comparing as it did, or the heap around
    it falls out of order.
    """

    __slots__ = ("less", "queued")

    def __init__(self, less: Less, queued: QueuedPod) -> None:
        self.less = less
        self.queued = copy.copy(queued)

    def __lt__(self, other: _ByLess) -> bool:
        return self.less(self.queued, other.queued)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ByLess):
            return NotImplemented
        return not self.less(self.queued, other.queued) and not self.less(other.queued, self.queued)

    __hash__ = None  # type: ignore[assignment]  # equal places of different pods have no common hash


def key_from_less(less: Less) -> SortKey:
    """A sort key out of a ``less`` function, for QueueSort plugins that have no key."""
    return lambda queued: _ByLess(less, queued)
