"""Forgets events that are an hour old, as the API server does."""

from collections.abc import Iterable
from typing import Final

from mooring.apiserver.documents import Document, seconds_of
from mooring.cluster.controllers.base import Controller, Name
from mooring.cluster.store import ADDED, Change

LIFETIME: Final = 3600.0


class OldEvents(Controller):
    """Deletes events when their time is up. One look at the oldest is planned at a time."""

    watched = frozenset({"events"})

    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """Only the first event starts the clock; afterwards it winds itself up."""
        if storage != "events" or change.kind != ADDED or self._planned:
            return []
        self._planned = True
        return [("", "")]

    _planned = False

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Delete what is too old; the answer is when the next one will be."""
        now = self.tools.now()
        youngest_to_go = now - LIFETIME
        oldest = now
        for stored in list(self.tools.store.objects("events")):
            document = stored.document
            last = _last_seen(document)
            if last <= youngest_to_go:
                metadata = document["metadata"]
                self.tools.store.remove("events", metadata["namespace"], metadata["name"])
            else:
                oldest = min(oldest, last)
        self._planned = self.tools.store.count("events") > 0
        return max(oldest + LIFETIME - now, 60.0) if self._planned else None


def _last_seen(event: Document) -> float:
    series = event.get("series") or {}
    text = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return seconds_of(text or event["metadata"]["creationTimestamp"])
