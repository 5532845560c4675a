"""The store: all objects with their resource versions, and recent changes.

The store does not depend on kinds. One counter numbers all changes, like the revision of etcd. All code runs on the
event loop, so reading and writing without an await in between needs no lock.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import msgspec

from mooring.apiserver.documents import Document

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

#: The number of changes of one resource that are kept for watches that start at an older version.
HISTORY: Final = 10_000

encode: Final = msgspec.json.Encoder().encode


class Stored:
    """An object in the store."""

    __slots__ = ("document", "encoded", "version")

    def __init__(self, document: Document, version: int, encoded: bytes | None = None) -> None:
        self.document = document
        self.version = version
        #: The document as JSON, encoded once for all clients.
        self.encoded = encode(document) if encoded is None else encoded


class Change:
    """A change of one object. `stored` is the new object, or the last state of a deleted one."""

    __slots__ = ("kind", "lines", "previous", "stored", "version")

    def __init__(self, kind: str, stored: Stored, previous: Stored | None, version: int) -> None:
        self.kind = kind
        self.stored = stored
        self.previous = previous
        self.version = version
        #: The encoded events of watches, by event type and group version.
        self.lines: dict[tuple[str, str], bytes] = {}


Subscriber = Callable[[str, Change], None]


class Journal(Protocol):
    """A log of changes that survives restarts. `append` may return before the change is on disk."""

    def append(self, storage: str, namespace: str, name: str, stored: Stored | None, version: int) -> None:
        """Add one change; None is a deletion."""


class Collection:
    """All objects of one resource by namespace and name, and recent changes."""

    __slots__ = ("floor", "history", "objects")

    def __init__(self, floor: int) -> None:
        self.objects: dict[str, dict[str, Stored]] = {}
        self.history: deque[Change] = deque()
        #: The oldest version from which the history is complete.
        self.floor = floor


class Store:
    """All objects of the cluster. Changes are published to subscribers in order when they are on disk."""

    def __init__(self, *, history: int = HISTORY, version: int = 0) -> None:
        self.version = version
        self._history = history
        self._collections: dict[str, Collection] = {}
        self._subscribers: list[Subscriber] = []
        self._immediate_subscribers: list[Subscriber] = []
        self._start = version
        self.journal: Journal | None = None
        #: The version up to which changes have been published.
        self.published = version
        self._unpublished: deque[tuple[str, Change]] = deque()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call a subscriber with every later change when it is published. Return a function that unsubscribes it."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def subscribe_immediately(self, subscriber: Subscriber) -> None:
        """Call a subscriber with every later change immediately, before the change is on disk."""
        self._immediate_subscribers.append(subscriber)

    def get(self, storage: str, namespace: str, name: str) -> Stored | None:
        """Return an object, or None."""
        collection = self._collections.get(storage)
        if collection is None:
            return None
        inside = collection.objects.get(namespace)
        return None if inside is None else inside.get(name)

    def put(self, storage: str, namespace: str, name: str, document: Document) -> Stored:
        """Store or replace an object, and set its resource version."""
        self.version = version = self.version + 1
        document = {**document, "metadata": {**document["metadata"], "resourceVersion": str(version)}}
        stored = Stored(document, version)
        collection = self.collection(storage)
        inside = collection.objects.setdefault(namespace, {})
        previous = inside.get(name)
        inside[name] = stored
        self._record(storage, Change(MODIFIED if previous else ADDED, stored, previous, version))
        return stored

    def remove(self, storage: str, namespace: str, name: str) -> Stored:
        """Delete an object; return it with the resource version of the deletion."""
        self.version = version = self.version + 1
        inside = self.collection(storage).objects[namespace]
        previous = inside.pop(name)
        if not inside:
            del self.collection(storage).objects[namespace]
        document = previous.document
        document = {**document, "metadata": {**document["metadata"], "resourceVersion": str(version)}}
        stored = Stored(document, version)
        self._record(storage, Change(DELETED, stored, previous, version))
        return stored

    def load(self, storage: str, namespace: str, name: str, stored: Stored) -> None:
        """Add an object that was loaded from disk, without recording a change."""
        self.collection(storage).objects.setdefault(namespace, {})[name] = stored

    def restart(self, version: int) -> None:
        """Continue from a version after loading objects, without earlier changes."""
        self.version = self.published = self._start = version
        for collection in self._collections.values():
            collection.floor = version

    def objects(self, storage: str, namespace: str | None = None) -> Iterator[Stored]:
        """Yield the objects of a resource, in one namespace or all, sorted by namespace and name."""
        collection = self._collections.get(storage)
        if collection is None:
            return
        if namespace is not None:
            inside = collection.objects.get(namespace, {})
            for name in sorted(inside):
                yield inside[name]
            return
        for each in sorted(collection.objects):
            inside = collection.objects[each]
            for name in sorted(inside):
                yield inside[name]

    def count(self, storage: str) -> int:
        """Return the number of objects of a resource."""
        collection = self._collections.get(storage)
        return 0 if collection is None else sum(map(len, collection.objects.values()))

    def storages(self) -> tuple[str, ...]:
        """Return the resources that have or had objects."""
        return tuple(self._collections)

    def collection(self, storage: str) -> Collection:
        """Return the collection of a resource."""
        found = self._collections.get(storage)
        if found is None:
            found = self._collections[storage] = Collection(self._start)
        return found

    def since(self, storage: str, version: int) -> list[Change] | None:
        """Return the published changes after a version, or None if they are no longer available."""
        collection = self.collection(storage)
        if version < collection.floor:
            return None
        history = collection.history
        changes: list[Change] = []
        for change in reversed(history):
            if change.version <= version:
                break
            changes.append(change)
        changes.reverse()
        return changes

    def publish(self, upto: int) -> None:
        """Publish the changes up to a version."""
        while self._unpublished and self._unpublished[0][1].version <= upto:
            storage, change = self._unpublished.popleft()
            self._publish(storage, change)

    def _record(self, storage: str, change: Change) -> None:
        for subscriber in self._immediate_subscribers:
            subscriber(storage, change)
        if self.journal is None:
            self._publish(storage, change)
            return
        metadata = change.stored.document["metadata"]
        self._unpublished.append((storage, change))
        kept = None if change.kind == DELETED else change.stored
        self.journal.append(storage, metadata.get("namespace", ""), metadata["name"], kept, change.version)

    def _publish(self, storage: str, change: Change) -> None:
        collection = self.collection(storage)
        history = collection.history
        history.append(change)
        if len(history) > self._history:
            collection.floor = history.popleft().version
        self.published = change.version
        for subscriber in tuple(self._subscribers):
            subscriber(storage, change)
