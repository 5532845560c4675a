"""LazyHeap: a priority queue of pods with removal by key, on the standard library's heap.

A removed pod stays in the heap as a stale entry. Stale entries are dropped when they reach the top, and the heap is
rebuilt when more than half of it is stale. Pods that are added in their order, as nearly all are, form a run besides
the heap. All operations are O(log n), amortized, and O(1) for the run.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, nsmallest
from itertools import count
from typing import Any

from mooring.scheduler.queue.queued_pod import Less, QueuedPod, SortKey

#: (order, insertion number, pod): pods of equal order stay in insertion order.
_Entry = tuple[Any, int, QueuedPod]
#: The heap is not rebuilt below this size.
_SMALL = 64


class LazyHeap:
    """Pods ordered by a sort key."""

    __slots__ = ("_counter", "_heap", "_order", "_run", "entries")

    def __init__(self, order: SortKey) -> None:
        self._order = order
        self._heap: list[_Entry] = []
        #: Entries in ascending order, which are not in the heap.
        self._run: deque[_Entry] = deque()
        #: The valid entries by key.
        self.entries: dict[str, _Entry] = {}
        self._counter = count()

    def push(self, queued: QueuedPod) -> None:
        """Add a pod; it replaces another pod with the same key."""
        entry = (self._order(queued), next(self._counter), queued)
        self.entries[queued.key] = entry
        run = self._run
        if not run or run[-1] < entry:
            run.append(entry)
        else:
            heappush(self._heap, entry)
        self._rebuild_if_stale()

    def reorder(self, queued: QueuedPod) -> None:
        """Move a pod whose order has changed; it keeps its insertion number."""
        order, number, _ = self.entries[queued.key]
        now = self._order(queued)
        if now == order:
            return
        entry = self.entries[queued.key] = (now, number, queued)
        heappush(self._heap, entry)
        self._rebuild_if_stale()

    def remove(self, key: str) -> QueuedPod | None:
        """Remove and return a pod; None if it is not in the heap."""
        entry = self.entries.pop(key, None)
        if entry is None:
            return None
        self._rebuild_if_stale()
        return entry[2]

    def peek(self) -> QueuedPod | None:
        """Return the first pod without removing it."""
        heap, run, entries = self._heap, self._run, self.entries
        while run and entries.get(run[0][2].key) is not run[0]:
            run.popleft()
        while heap and entries.get(heap[0][2].key) is not heap[0]:
            heappop(heap)
        if heap and (not run or heap[0] < run[0]):
            return heap[0][2]
        return run[0][2] if run else None

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod."""
        queued = self.peek()
        if queued is not None:
            if self._run and self._run[0][2] is queued:
                self._run.popleft()
            else:
                heappop(self._heap)
            del self.entries[queued.key]
        return queued

    def get(self, key: str) -> QueuedPod | None:
        """Return a pod by key."""
        entry = self.entries.get(key)
        return None if entry is None else entry[2]

    def __contains__(self, key: object) -> bool:
        return key in self.entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over the pods in order. O(n log n)."""
        return (entry[2] for entry in sorted(self.entries.values(), key=lambda entry: entry[:2]))

    def first(self, count: int) -> list[QueuedPod]:
        """Return the first pods in order. O(n log count)."""
        return [entry[2] for entry in nsmallest(count, self.entries.values(), key=lambda entry: entry[:2])]

    def _rebuild_if_stale(self) -> None:
        if len(self._heap) + len(self._run) > 2 * len(self.entries) + _SMALL:
            self._heap = list(self.entries.values())
            heapify(self._heap)
            self._run.clear()


class _ByLess:
    """A sort key that compares with a ``less`` function.

    It has a copy of the pod as it was when inserted: a stale entry must compare as before, or the heap becomes invalid.
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

    __hash__ = None  # type: ignore[assignment]  # equal keys have no common hash


def key_from_less(less: Less) -> SortKey:
    """Return a sort key for a QueueSort plugin that only defines ``less``."""
    return lambda queued: _ByLess(less, queued)
