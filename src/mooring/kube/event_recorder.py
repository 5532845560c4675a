"""The event recorder. It sends events in the background and combines repeats into a series, as client-go does.

A repeated event is not sent again. The second occurrence starts a series, further ones are counted, and the count is
written when the series ends or every half hour. Events that differ only in the note are repeats.
"""

import asyncio
import random
import re
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from mooring.api import Event, EventSeries, KubeObject, ObjectMeta, ObjectReference, format_time
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
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

log: Final = get_logger(__name__)


class EventSink(Protocol):
    """The API that events are sent to; `Client` implements it."""

    async def create_event(self, event: Event) -> None:
        """Create an event. Raises AlreadyExists."""
        ...

    async def patch_event(self, namespace: str, name: str, patch: bytes) -> None:
        """Patch an event. Raises NotFound."""
        ...


class _Key(NamedTuple):
    """The fields that are equal in repeats of an event."""

    component: str
    type: str
    reason: str
    action: str
    regarding: ObjectReference
    related: ObjectReference | None


class _Entry:
    """An event and its number of occurrences."""

    __slots__ = ("again", "busy", "count", "created", "first", "key", "last", "name", "note", "queued")

    def __init__(self, key: _Key, name: str, note: str, now: float) -> None:
        self.key = key
        self.name = name
        self.note = note
        self.first = self.last = now
        self.count = 1
        self.created = self.queued = self.busy = self.again = False


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
        senders: int = 16,
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
        self._queue: deque[_Entry] = deque()
        self._busy = 0
        self._more = asyncio.Event()
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
    ) -> None:
        """Record an event about an object. `component` is the reporting scheduler's name."""
        about = related if related is None else reference(related)
        key = _Key(component, type, reason, action, reference(regarding), about)
        now = self._now()
        entry = self._entries.get(key)
        if entry is None:
            if len(self._queue) >= self._limit:
                self._drop()
                return
            entry = _Entry(key, self._name(key.regarding.name, now), note, now)
            self._remember(entry)
        else:
            entry.count += 1
            entry.last = now
            if entry.count > 2:
                return
        self._enqueue(entry)

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
            self._more.set()
            self._idle.clear()

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
        while True:
            while not self._queue:
                self._more.clear()
                await self._more.wait()
            if self._held():
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                continue
            entry = self._queue.popleft()
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

    def _held(self) -> bool:
        """Return whether the next event must wait for more important requests."""
        if self._hold_back is None or not self._hold_back():
            return False
        age = self._now() - self._queue[0].last
        return age < _HOLD_SECONDS or (age < 2 * _HOLD_SECONDS and self._busy >= _SENDERS_WHILE_HELD)

    async def _send(self, entry: _Entry) -> None:
        backoff = Backoff(first=0.5, cap=10.0, random=self._random)
        while True:
            try:
                await self._write(entry)
            except KubeError as error:
                if backoff.tries >= _tries(error):
                    log.warning("the server rejected an event", name=entry.name, error=str(error))
                    return
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _write(self, entry: _Entry) -> None:
        namespace = entry.key.regarding.namespace or "default"
        if entry.created:
            patch = msgspec.json.encode({"series": _series(entry)})
            try:
                await self._sink.patch_event(namespace, entry.name, patch)
            except NotFound:
                entry.created = False
            else:
                return
        try:
            await self._sink.create_event(self._event(entry, namespace))
        except AlreadyExists:
            # An earlier attempt succeeded.
            entry.created = True
            if entry.count > 1:
                await self._write(entry)
        entry.created = True

    def _event(self, entry: _Entry, namespace: str) -> Event:
        key = entry.key
        return Event(
            metadata=ObjectMeta(name=entry.name, namespace=namespace),
            event_time=format_time(entry.first, micros=True),
            series=_series(entry),
            reporting_controller=key.component,
            reporting_instance=f"{key.component}-{self._host}",
            action=key.action,
            reason=key.reason,
            regarding=key.regarding,
            related=key.related,
            note=_truncated(entry.note),
            type=key.type,
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
        if len(name) <= 253 and _NAME.fullmatch(name):
            return name
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


def reference(value: KubeObject | ObjectReference) -> ObjectReference:
    """Return a reference to an object, or the argument if it is a reference."""
    if isinstance(value, ObjectReference):
        return value
    return ObjectReference(
        api_version=value.api_version,
        kind=value.kind,
        namespace=value.metadata.namespace,
        name=value.metadata.name,
        uid=value.metadata.uid,
        resource_version=value.metadata.resource_version,
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


def _truncated(note: str) -> str:
    """Truncate a note to the length that the server accepts."""
    text = note.encode()
    if len(text) <= _NOTE_BYTES:
        return note
    return text[: _NOTE_BYTES - 4].decode("utf-8", "ignore") + " ..."
