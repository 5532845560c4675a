"""The event recorder. It sends events in the background and combines repeats into a series, as client-go does.

A repeated event is not sent again. The second occurrence starts a series, further ones are counted, and the count is
written when the series ends or every half hour. Events that differ only in the note are repeats.

Batch sessions and controllers write events of the core group instead, as Volcano does, so that readers of core/v1 find
`lastTimestamp` and `count`. Events with different notes are different events, up to ten in ten minutes. Repeats are
written: 25 at first, then one every five minutes.
"""

import asyncio
import random
import re
import socket
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from mooring.api import Event, EventSeries, KubeObject, ObjectMeta, ObjectReference, format_time
from mooring.api.events import CoreEvent, EventSource
from mooring.kube.client_errors import AlreadyExists, ApiError, Forbidden, KubeError, NotFound, Unauthorized
from mooring.kube.retry_backoff import Backoff
from mooring.logs import get_logger
from mooring.unexpected_errors import report_unexpected

EventKind: TypeAlias = Literal["Normal", "Warning"]
#: A series ends after this many seconds without a repeat.
FINISH_SECONDS: Final = 360.0
#: A continuing series is refreshed after this number of checks (half an hour), before the server expires it.
_REFRESH_CHECKS: Final = 5
#: Retries of an event: many if the server is unavailable or overloaded, a few if it rejects the credentials, as a
#: server that has just started does, and none if it rejects the event.
_TRIES: Final = 12
_TRIES_WHEN_REFUSED: Final = 4
#: Seconds that events wait for more important requests. After that some are sent, and after twice that time all.
_HOLD_SECONDS: Final = 10.0
_SENDERS_WHILE_HELD: Final = 4
_LOOK_AGAIN_SECONDS: Final = 0.05
_NOTE_BYTES: Final = 1024
#: How many repeats of an event of the core group are written at once, and the seconds after which one more is.
_REPEATS: Final = 25
_REPEAT_SECONDS: Final = 300.0
#: How many notes of similar events of the core group become events of their own, in how many seconds.
_NOTES: Final = 10
_NOTES_SECONDS: Final = 600.0
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

log: Final = get_logger(__name__)


class EventSink(Protocol):
    """The API that events are sent to; `Client` implements it."""

    def create_event(self, event: Event | CoreEvent) -> Awaitable[object]:
        """Create an event. Raises AlreadyExists."""
        ...

    async def patch_event(self, namespace: str, name: str, patch: bytes, *, core: bool = False) -> None:
        """Patch an event. Raises NotFound."""
        ...


class _Key(msgspec.Struct, frozen=True, gc=False):
    """The fields that are equal in repeats of an event."""

    component: str
    type: str
    reason: str
    action: str
    regarding: ObjectReference
    related: ObjectReference | None
    core: bool
    #: The note, if events with other notes are not repeats.
    note: str = ""


class _Entry(msgspec.Struct, eq=False, gc=False):
    """An event and its number of occurrences."""

    key: _Key
    name: str
    note: str
    first: float
    last: float
    written: float
    count: int = 1
    created: bool = False
    queued: bool = False
    busy: bool = False
    again: bool = False

    def repeat(self, note: str, now: float) -> bool:
        """Count a repeat. Return whether it must be written."""
        self.count += 1
        self.last = now
        if not self.key.core:
            return self.count == 2
        self.note = note
        if self.count > _REPEATS and now - self.written < _REPEAT_SECONDS:
            return False
        self.written = now
        return True


class EventRecorder:
    """A recorder that accepts events without blocking and sends them while `run()` runs. Not thread-safe.

    At most `limit` events are queued; further ones are dropped and counted. While `hold_back` returns true, events
    wait for more important requests for a few seconds, because an event costs the server as much as a bind.
    """

    def __init__(
        self,
        sink: EventSink,
        *,
        host: str | None = None,
        limit: int = 100_000,
        senders: int = 64,
        now: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        hold_back: Callable[[], bool] | None = None,
    ) -> None:
        self._sink = sink
        self._hold_back = hold_back
        self._host = host if host is not None else socket.gethostname()
        self._limit = limit
        self._senders = senders
        self._now = now
        self._random = rng or random.Random()
        self._entries: dict[_Key, _Entry] = {}
        #: The notes of similar events of the core group, and since when they are collected.
        self._notes: dict[_Key, tuple[float, frozenset[str]]] = {}
        self._queue: deque[_Entry] = deque()
        self._busy = 0
        #: The senders that wait for an event. An event wakes only one of them.
        self._waiting: deque[asyncio.Future[None]] = deque()
        #: How many senders were woken and have not run since.
        self._woken = 0
        #: Whether a sender looks from time to time if events may be sent. The others wait.
        self._looking = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._last_nanos = 0
        #: The number of events dropped because the queue was full.
        self.dropped = 0

    @property
    def pending(self) -> int:
        """The number of events that are queued or being sent."""
        return len(self._queue) + self._busy

    def record(
        self,
        regarding: KubeObject | ObjectReference,
        *,
        type: EventKind,
        reason: str,
        action: str,
        note: str,
        component: str,
        related: KubeObject | ObjectReference | None = None,
        core: bool = False,
    ) -> None:
        """Record an event about an object. `component` is the reporting scheduler's name.

        `core` writes an event of the core group, with times and a count.
        """
        about = related if related is None else reference(related)
        where = reference(regarding)
        if core:  # the same event for every version of the object
            where = msgspec.structs.replace(where, resource_version="")
        key = _Key(component, type, reason, action, where, about, core)
        now = self._now()
        if core:
            key = msgspec.structs.replace(key, note=self._distinct_note(key, note, now))
        entry = self._entries.get(key)
        if entry is None:
            if len(self._queue) >= self._limit:
                self._drop()
                return
            entry = _Entry(key, self._name(where.name, now), note, now, now, now)
            self._remember(entry)
        elif not entry.repeat(note, now):
            return
        self._enqueue(entry)

    def _distinct_note(self, similar: _Key, note: str, now: float) -> str:
        """Return the note, or "" if similar events already have many notes; later ones update one event."""
        begun, notes = self._notes.get(similar, (now, frozenset()))
        if now - begun > _NOTES_SECONDS:
            begun, notes = now, frozenset()
        if note in notes:
            return note
        if len(notes) >= _NOTES:
            return ""
        if similar not in self._notes and len(self._notes) >= self._limit:
            self._notes.pop(next(iter(self._notes)))
        self._notes[similar] = (begun, notes | {note})
        return note

    async def run(self) -> None:
        """Send events until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._senders):
                group.create_task(self._send_all())
            group.create_task(self._maintain_series())

    async def drain(self, timeout: float) -> bool:
        """Wait until all events are sent. Return False after the timeout."""
        self._hold_back = None
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _enqueue(self, entry: _Entry) -> None:
        if not entry.queued:
            entry.queued = True
            self._queue.append(entry)
            self._idle.clear()
            self._wake_sender()

    def _wake_sender(self) -> None:
        while self._waiting:
            sender = self._waiting.popleft()
            if not sender.done():  # it may be cancelled
                sender.set_result(None)
                self._woken += 1
                return

    def _remember(self, entry: _Entry) -> None:
        self._entries[entry.key] = entry
        if len(self._entries) > self._limit:
            # Drop the oldest entry. At worst, its next repeat starts a new event.
            self._entries.pop(next(iter(self._entries)))

    def _drop(self) -> None:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:
            log.warning("events are dropped: the queue is full", dropped=self.dropped, waiting=self._limit)

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()  # once, because it is a system call
        while True:
            if not self._queue or self._looking or self._held():
                await self._turn(loop)
            entry = self._queue.popleft()
            if len(self._queue) > self._woken and self._waiting:
                self._wake_sender()
            entry.queued = False
            if entry.busy:
                # Another task is sending it; two writes could arrive in the wrong order.
                entry.again = True
                continue
            self._busy += 1
            entry.busy = True
            try:
                await self._send(entry)
            except Exception as error:
                report_unexpected("an event cannot be sent", error, name=entry.name)
            finally:
                entry.busy = False
                self._busy -= 1
                if entry.again:
                    entry.again = False
                    self._enqueue(entry)
                if not self._queue and not self._busy:
                    self._idle.set()

    async def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until there is an event that may be sent."""
        while True:
            if not self._queue or self._looking:
                woken = loop.create_future()
                self._waiting.append(woken)
                try:
                    await woken
                finally:
                    self._woken -= woken.done() and not woken.cancelled()
            elif self._held():
                self._looking = True
                try:
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                finally:
                    self._looking = False
            else:
                return

    def _held(self) -> bool:
        """Return whether the next event must wait for more important requests."""
        if self._hold_back is None or not self._hold_back():
            return False
        age = self._now() - self._queue[0].last
        return age < _HOLD_SECONDS or (age < 2 * _HOLD_SECONDS and self._busy >= _SENDERS_WHILE_HELD)

    async def _send(self, entry: _Entry) -> None:
        namespace, core = entry.key.regarding.namespace or "default", entry.key.core
        backoff: Backoff | None = None
        while True:
            created = entry.created
            try:
                if created:
                    patch = msgspec.json.encode(_counted(entry) if core else {"series": _series(entry)})
                    await self._sink.patch_event(namespace, entry.name, patch, core=core)
                else:
                    make = self._core_event if core else self._event
                    await self._sink.create_event(make(entry, namespace))
            except KubeError as error:
                if created and isinstance(error, NotFound):
                    entry.created = False
                    continue
                if not created and isinstance(error, AlreadyExists):  # an earlier attempt succeeded
                    entry.created = True
                    if entry.count > 1:
                        continue
                    return
                backoff = backoff or Backoff(first=0.5, cap=10.0, random=self._random)
                if backoff.tries >= _tries(error):
                    log.warning("the server rejected an event", name=entry.name, error=str(error))
                    return
                await asyncio.sleep(backoff.next())
            else:
                entry.created = True
                return

    def _event(self, entry: _Entry, namespace: str) -> Event:
        key = entry.key
        return Event(
            api_version="events.k8s.io/v1",
            kind="Event",
            metadata=ObjectMeta(name=entry.name, namespace=namespace),
            event_time=format_time(entry.first, micros=True),
            series=_series(entry) if entry.count > 1 else None,
            reporting_controller=key.component,
            reporting_instance=f"{key.component}-{self._host}",
            action=key.action,
            reason=key.reason,
            regarding=key.regarding,
            related=key.related,
            note=_truncated(entry.note),
            type=key.type,
        )

    def _core_event(self, entry: _Entry, namespace: str) -> CoreEvent:
        key = entry.key
        return CoreEvent(
            metadata=ObjectMeta(name=entry.name, namespace=namespace),
            involved_object=key.regarding,
            reason=key.reason,
            message=_truncated(entry.note),
            source=EventSource(component=key.component),
            first_timestamp=format_time(entry.first),
            last_timestamp=format_time(entry.last),
            count=entry.count,
            type=key.type,
            reporting_component=key.component,
        )

    async def _maintain_series(self) -> None:
        checks = 0
        while True:
            await asyncio.sleep(FINISH_SECONDS)
            checks += 1
            self._check_series(refresh=checks % _REFRESH_CHECKS == 0)

    def _check_series(self, *, refresh: bool) -> None:
        """Write the final count of series that ended and remove them; refresh the others."""
        over = self._now() - FINISH_SECONDS
        for key, entry in list(self._entries.items()):
            ended = entry.last < over
            if ended:
                del self._entries[key]
            # The second occurrence already wrote a count of two. A refresh always writes, to postpone expiry.
            if (ended and entry.count > 2) or (refresh and entry.count > 1):
                self._enqueue(entry)

    def _name(self, about: str, now: float) -> str:
        self._last_nanos = max(self._last_nanos + 1, int(now * 1e9))
        name = f"{about}.{self._last_nanos:x}"
        if len(name) <= 253 and _NAME.fullmatch(about):  # what follows it is valid
            return name
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


def reference(value: KubeObject | ObjectReference) -> ObjectReference:
    """Return a reference to an object, or the argument if it is a reference."""
    if isinstance(value, ObjectReference):
        return value
    metadata = value.metadata
    return ObjectReference(
        api_version=value.api_version,
        kind=value.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def _tries(error: KubeError) -> int:
    if isinstance(error, Unauthorized | Forbidden):
        return _TRIES_WHEN_REFUSED
    refused = isinstance(error, ApiError) and not error.outcome_unknown and error.status != 429
    return 0 if refused else _TRIES


def _series(entry: _Entry) -> EventSeries | None:
    if entry.count < 2:
        return None
    return EventSeries(count=entry.count, last_observed_time=format_time(entry.last, micros=True))


def _counted(entry: _Entry) -> dict[str, object]:
    """Return the patch of a repeated event of the core group."""
    return {"count": entry.count, "lastTimestamp": format_time(entry.last), "message": _truncated(entry.note)}


def _truncated(note: str) -> str:
    """Truncate a note to the length that the server accepts."""
    if len(note) <= _NOTE_BYTES and note.isascii():
        return note
    text = note.encode()
    if len(text) <= _NOTE_BYTES:
        return note
    return text[: _NOTE_BYTES - 4].decode("utf-8", "ignore") + " ..."
