"""InFlight: popped pods and the events since.

An event during an attempt may be the one that makes the pod schedulable. Events are stored as long as any pod that was
popped before them is in flight, and are replayed for a pod that is rejected.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator

import msgspec

from mooring.api.pod import Pod
from mooring.scheduler.queue.interests import Event
from mooring.scheduler.queue.queued_pod import QueuedPod


class Flight(msgspec.Struct, eq=False):
    """One pod being tried."""

    queued: QueuedPod
    #: How many events there had been when it was popped.
    start: int
    #: The newest version of the pod, if it changed since.
    latest: Pod | None = None
    #: Whether the pod was deleted or bound since.
    gone: bool = False


class InFlight:
    """All pods between ``pop`` and ``done``."""

    def __init__(self) -> None:
        #: By uid, in order of popping.
        self._flights: OrderedDict[str, Flight] = OrderedDict()
        self._by_key: dict[str, list[str]] = {}
        self._events: list[Event] = []
        #: How many events were forgotten: the number of the first in ``_events``.
        self._forgotten = 0

    def start(self, queued: QueuedPod) -> bool:
        """A pod is being tried from now on; False if it is already."""
        uid = queued.uid
        if uid in self._flights:
            return False
        self._flights[uid] = Flight(queued, self._forgotten + len(self._events))
        self._by_key.setdefault(queued.key, []).append(uid)
        return True

    def get(self, uid: str) -> Flight | None:
        """A pod being tried, by uid."""
        return self._flights.get(uid)

    def latest(self, key: str) -> Flight | None:
        """The last popped of the pods being tried under one name; several are, if a namesake replaced a pod."""
        uids = self._by_key.get(key)
        return self._flights[uids[-1]] if uids else None

    def record(self, event: Event) -> None:
        """Keep an event for the pods being tried now, if there are any."""
        if self._flights:
            self._events.append(event)

    def missed(self, flight: Flight) -> list[Event]:
        """What happened since a pod was popped, first to last."""
        return self._events[max(flight.start - self._forgotten, 0) :]

    def done(self, uid: str) -> None:
        """A pod's attempt is over; events that no other pod needs are forgotten."""
        flight = self._flights.pop(uid, None)
        if flight is None:
            return
        uids = self._by_key[flight.queued.key]
        uids.remove(uid)
        if not uids:
            del self._by_key[flight.queued.key]
        self._prune()

    def _prune(self) -> None:
        if not self._flights:
            self._forgotten += len(self._events)
            self._events.clear()
            return
        needed = next(iter(self._flights.values())).start
        useless = needed - self._forgotten
        # Cutting off the head of a list moves the rest, so it is done when it is at least half.
        if 2 * useless > len(self._events):
            del self._events[:useless]
            self._forgotten = needed

    def events(self) -> Counter[str]:
        """How many events are kept, by label: for metrics, O(events)."""
        first = next(iter(self._flights.values()), None)
        return Counter(event.interest.label for event in (self.missed(first) if first is not None else ()))

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[QueuedPod]:
        """The pods being tried, in order of popping."""
        return iter([flight.queued for flight in self._flights.values()])
