"""Events for users, sent in the background: repeats become one event with a count, as client-go does it.

The same thing said again about the same object is not a new event: the second time its series is written, after that it
is only counted, and the count is written when the series ends or every half hour. What counts as the same leaves the
note out.
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
import structlog

from mooring.api import Event, EventSeries, KubeObject, ObjectMeta, ObjectReference, format_time
from mooring.kube.client_errors import AlreadyExists, ApiError, Forbidden, KubeError, NotFound, Unauthorized
from mooring.kube.retry_backoff import Backoff

EventKind: TypeAlias = Literal["Normal", "Warning"]
#: A series ends when the thing did not happen for so long.
FINISH_SECONDS: Final = 360.0
#: A series that goes on is written every so many checks for finished ones, lest the server forget it: half an hour.
_REFRESH_CHECKS: Final = 5
#: How often an event is sent again: for long where the server is away or busy, a few times where it refuses us, as one
#: that has just started does, and never where it refuses the event.
_TRIES: Final = 12
_TRIES_WHEN_REFUSED: Final = 4
#: While there is more important work, events wait for so long; then a few at a time go, and after twice as long all.
_HOLD_SECONDS: Final = 10.0
_SENDERS_WHILE_HELD: Final = 4
_LOOK_AGAIN_SECONDS: Final = 0.05
_NOTE_BYTES: Final = 1024
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

log: Final = structlog.get_logger(__name__)


class EventSink(Protocol):
    """Where events go; `Client` is one."""

    async def create_event(self, event: Event) -> None:
        """Create it. Raises AlreadyExists."""
        ...

    async def patch_event(self, namespace: str, name: str, patch: bytes) -> None:
        """Patch it. Raises NotFound."""
        ...


class _Key(NamedTuple):
    """What makes two events the same."""

    component: str
    type: str
    reason: str
    action: str
    regarding: ObjectReference
    related: ObjectReference | None


class _Entry:
    """One event and how often it happened."""

    __slots__ = ("again", "busy", "count", "created", "first", "key", "last", "name", "note", "queued")

    def __init__(self, key: _Key, name: str, note: str, now: float) -> None:
        self.key = key
        self.name = name
        self.note = note
        self.first = self.last = now
        self.count = 1
        self.created = self.queued = self.busy = self.again = False


class EventRecorder:
    """Takes events at any time without waiting and sends them while `run()` runs. Belongs to one event loop.

    At most `limit` events wait to be sent; beyond that new ones are dropped and counted. While `hold_back` says that
    the server has more important work, events wait for it, though for seconds at the most: each costs the server as
    much as a bind.
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
        #: How many events were dropped because too many waited.
        self.dropped = 0

    @property
    def pending(self) -> int:
        """How many events wait or are being sent."""
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
        """Say that something happened to an object. `component` is who says it: a scheduler's name."""
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
            group.create_task(self._look_after_series())

    async def drain(self, timeout: float) -> bool:
        """Wait until everything is sent. False if that takes too long."""
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
            # The oldest goes: at worst its next repeat begins a new event.
            self._entries.pop(next(iter(self._entries)))

    def _drop(self) -> None:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:
            log.warning("events are dropped: too many wait to be sent", dropped=self.dropped, waiting=self._limit)

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
                # Another sender has it under way: two at once could overtake each other.
                entry.again = True
                continue
            self._busy += 1
            entry.busy = True
            try:
                await self._send(entry)
            finally:
                entry.busy = False
                self._busy -= 1
                if entry.again:
                    entry.again = False
                    self._enqueue(entry)
                if not self._queue and not self._busy:
                    self._idle.set()

    def _held(self) -> bool:
        """Whether the next event has to wait for more important work."""
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
                    log.warning("an event is not accepted", name=entry.name, error=str(error))
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
            # An earlier attempt got through after all.
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
            note=_fitted(entry.note),
            type=key.type,
        )

    async def _look_after_series(self) -> None:
        checks = 0
        while True:
            await asyncio.sleep(FINISH_SECONDS)
            checks += 1
            self._check_series(refresh=checks % _REFRESH_CHECKS == 0)

    def _check_series(self, *, refresh: bool) -> None:
        """Write the last count of what has ended and forget it; refresh what goes on."""
        over = self._now() - FINISH_SECONDS
        for key, entry in list(self._entries.items()):
            ended = entry.last < over
            if ended:
                del self._entries[key]
            # Two is what the second time wrote already; a refresh is for the server's clock, so it always writes.
            if (ended and entry.count > 2) or (refresh and entry.count > 1):
                self._enqueue(entry)

    def _name(self, about: str, now: float) -> str:
        self._last_nanos = max(self._last_nanos + 1, int(now * 1e9))
        name = f"{about}.{self._last_nanos:x}"
        if len(name) <= 253 and _NAME.fullmatch(name):
            return name
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


def reference(value: KubeObject | ObjectReference) -> ObjectReference:
    """Point to an object as events do; what is a reference already is handed back."""
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


def _fitted(note: str) -> str:
    """A note no longer than the server takes."""
    text = note.encode()
    if len(text) <= _NOTE_BYTES:
        return note
    return text[: _NOTE_BYTES - 4].decode("utf-8", "ignore") + " ..."
