"""InFlightPods: the pods in flight, and the events since they were popped.

An event during an attempt may make the pod schedulable. Events are stored as long as any pod that was
popped before them is in flight, and are replayed for a pod that is rejected.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator

import msgspec

from mooring.scheduler.queue.queued_pod import QueuedPod
from mooring.scheduler.queue.queueing_hints import Event

#: This number of events is dropped only with the last pod: to look for the first takes longer than to keep them.
_FEW_EVENTS = 64


class InFlightPod(msgspec.Struct, eq=False):
    """A pod in flight."""

    queued: QueuedPod
    #: The number of events that were recorded before it was popped.
    start: int
    #: Whether the pod was deleted or bound after it was popped.
    gone: bool = False


class InFlightPods:
    """All pods between ``pop`` and ``done``."""

    def __init__(self) -> None:
        #: By uid, in order of popping.
        self._flights: OrderedDict[str, InFlightPod] = OrderedDict()
        self._by_key: dict[str, list[str]] = {}
        self._events: list[Event] = []
        #: How many events were dropped: the number of the first in ``_events``.
        self._dropped = 0

    def start(self, queued: QueuedPod) -> bool:
        """Add a popped pod. Return False if it is already in flight."""
        uid = queued.pod.metadata.uid
        if uid in self._flights:
            return False
        self._flights[uid] = InFlightPod(queued, self._dropped + len(self._events))
        self._by_key.setdefault(queued.key, []).append(uid)
        return True

    def get(self, uid: str) -> InFlightPod | None:
        """Return a pod in flight by uid."""
        return self._flights.get(uid)

    def latest(self, key: str) -> InFlightPod | None:
        """Return the last popped pod with a name; there are several if a pod was deleted and created again."""
        uids = self._by_key.get(key)
        return self._flights[uids[-1]] if uids else None

    def record(self, event: Event) -> None:
        """Store an event if any pod is in flight."""
        if self._flights:
            self._events.append(event)

    def missed(self, flight: InFlightPod) -> list[Event]:
        """Return the events since a pod was popped, in order."""
        return self._events[max(flight.start - self._dropped, 0) :]

    def done(self, uid: str) -> None:
        """Remove a pod, and the events that no other pod needs."""
        flight = self._flights.pop(uid, None)
        if flight is None:
            return
        uids = self._by_key[flight.queued.key]
        uids.remove(uid)
        if not uids:
            del self._by_key[flight.queued.key]
        if not self._flights or len(self._events) >= _FEW_EVENTS:
            self._prune()

    def _prune(self) -> None:
        if not self._flights:
            self._dropped += len(self._events)
            self._events.clear()
            return
        needed = next(iter(self._flights.values())).start
        unused = needed - self._dropped
        # Deleting the head of a list moves the rest, so wait until it is at least half of the list.
        if 2 * unused > len(self._events):
            del self._events[:unused]
            self._dropped = needed

    def events(self) -> Counter[str]:
        """Return the number of stored events by label, for metrics. O(events)."""
        first = next(iter(self._flights.values()), None)
        return Counter(event.interest.label for event in (self.missed(first) if first is not None else ()))

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over the pods in order of popping."""
        return iter([flight.queued for flight in self._flights.values()])
