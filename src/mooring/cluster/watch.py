"""Watches, which stream the changes of a resource. Each change is encoded once for all clients."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from mooring.apiserver.documents import Document
from mooring.cluster.api_resource import Resource
from mooring.cluster.conversion import convert, encode_as
from mooring.cluster.errors import ApiError, expired
from mooring.cluster.selectors import SelectionPredicate
from mooring.cluster.store import ADDED, DELETED, MODIFIED, Change, Store, Stored, encode

#: The maximum number of pending bytes. A client with more is disconnected and must list again.
_MOST_PENDING: Final = 256 * 1024 * 1024
#: The annotation of the bookmark that ends the initial events of a streamed list.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

#: Converts a document, for example to a row of a table.
Transform = Callable[[Document], Document]


class Watcher:
    """The stream of one client: a buffer of lines to send."""

    def __init__(self, resource: Resource, predicate: SelectionPredicate, transform: Transform | None = None) -> None:
        self.resource = resource
        self.predicate = predicate
        self.transform = transform
        self.lines: list[bytes] = []
        self.size = 0
        #: The version at which the stream started. The stream already includes earlier changes.
        self.version = 0
        self.closed = False
        self.ready = asyncio.Event()

    def push(self, change: Change) -> None:
        """Add a change of the resource if it concerns a selected object."""
        if change.version <= self.version:
            return
        kind, stored = self._seen(change)
        if kind:
            self._add(self._line(change, kind, stored))

    def _seen(self, change: Change) -> tuple[str, Stored]:
        """Return the event type and the object, as seen by a client that watches only selected objects."""
        predicate = self.predicate
        if predicate.is_open:
            return change.kind, change.stored
        previous = change.previous
        before = previous is not None and predicate.matches(previous.document)
        after = change.kind != DELETED and predicate.matches(change.stored.document)
        if after:
            return (MODIFIED if before else ADDED), change.stored
        if not before or previous is None:
            return "", change.stored
        if change.kind == DELETED:
            return DELETED, change.stored
        # The object is no longer selected: send its last selected state with the version of the change.
        metadata = {**previous.document["metadata"], "resourceVersion": str(change.version)}
        return DELETED, Stored({**previous.document, "metadata": metadata}, change.version)

    def _line(self, change: Change, kind: str, stored: Stored) -> bytes:
        if self.transform is not None:
            return _line(kind, encode(self.transform(convert(stored.document, self.resource))))
        if stored is not change.stored:
            return _line(kind, encode_as(stored, self.resource))
        key = (kind, self.resource.group_version)
        line = change.lines.get(key)
        if line is None:
            line = change.lines[key] = _line(kind, encode_as(stored, self.resource))
        return line

    def add_existing(self, stored: Stored) -> None:
        """Add an existing object."""
        if self.transform is not None:
            self._add(_line(ADDED, encode(self.transform(convert(stored.document, self.resource)))))
        else:
            self._add(_line(ADDED, encode_as(stored, self.resource)))

    def bookmark(self, version: int, *, end_of_initial: bool = False) -> None:
        """Add a bookmark with a resource version."""
        metadata: Document = {"resourceVersion": str(version), "creationTimestamp": None}
        if end_of_initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        document = {"kind": self.resource.kind, "apiVersion": self.resource.group_version, "metadata": metadata}
        if self.resource.stored_as == "pods":
            document.update(spec={"containers": None}, status={})
        shown = document if self.transform is None else self.transform(document)
        self._add(_line("BOOKMARK", encode(shown)))

    def fail(self, error: ApiError) -> None:
        """End the stream with an error."""
        self._add(_line("ERROR", encode(error.document)))
        self.close()

    def close(self) -> None:
        """End the stream."""
        self.closed = True
        self.ready.set()

    def take(self) -> bytes:
        """Remove and return all pending lines."""
        chunk = b"".join(self.lines)
        self.lines.clear()
        self.size = 0
        self.ready.clear()
        return chunk

    def _add(self, line: bytes) -> None:
        self.lines.append(line)
        self.size += len(line)
        if self.size > _MOST_PENDING:
            self.lines.clear()
            self.close()
        self.ready.set()


def _line(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded)


class Broadcaster:
    """All open streams."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, set[Watcher]] = {}
        self._stop = store.subscribe(self._changed)

    def _changed(self, storage: str, change: Change) -> None:
        for watch in self._open.get(storage, ()):
            watch.push(change)

    def start(self, watch: Watcher, version: str, *, initial: bool, bookmarks: bool) -> None:
        """Open a stream after a version, or with the existing objects if no version is given."""
        storage = watch.resource.stored_as
        if initial or version in {"", "0"}:
            self._send_present(watch, self._store.objects(storage, watch.predicate.namespace))
            if initial and bookmarks:
                watch.bookmark(watch.version, end_of_initial=True)
        else:
            self._send_missed(watch, int(version))
        if not watch.closed:
            self._open.setdefault(storage, set()).add(watch)

    def _send_present(self, watch: Watcher, present: Iterable[Stored]) -> None:
        watch.version = self._store.version
        for stored in present:
            if watch.predicate.matches(stored.document):
                watch.add_existing(stored)

    def _send_missed(self, watch: Watcher, version: int) -> None:
        changes = self._store.since(watch.resource.stored_as, version)
        if changes is None or version > self._store.version:
            current = self._store.collection(watch.resource.stored_as).floor
            watch.fail(expired(f"too old resource version: {version} ({current})"))
            return
        for change in changes:
            watch.push(change)

    def stop(self, watch: Watcher) -> None:
        """Close a stream."""
        self._open.get(watch.resource.stored_as, set()).discard(watch)

    def cut(self, storage: str | None = None) -> None:
        """Close the streams of a resource, or all."""
        for name, broadcaster in self._open.items():
            if storage is None or storage == name:
                for watch in tuple(broadcaster):
                    watch.close()

    def close(self) -> None:
        """Close all streams."""
        self._stop()
        self.cut()

    @property
    def published(self) -> int:
        """The version up to which streams are complete."""
        return self._store.published
