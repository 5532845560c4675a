"""EventStream: live updates for browsers, as server-sent events.

One loop reads the changes for all clients, once a second while there are any. Each client has a short queue. A client
that does not keep up loses its updates and is told to load everything again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from mooring.late_certificates import web
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.unexpected_errors import report_unexpected

#: The maximum number of clients, and of updates that wait for one.
MAX_CLIENTS: Final = 32
_MAX_WAITING: Final = 8
#: The time between two updates.
UPDATE_SECONDS: Final = 1.0
#: A comment is sent if nothing happens, so that a lost connection is noticed.
_COMMENT_SECONDS: Final = 15.0
#: A stream ends after this time. The browser connects again, and its rights are checked again.
_STREAM_SECONDS: Final = 300.0
_RESYNC: Final = b"event: resync\ndata: {}\n\n"

#: Returns the updates, given the resources that clients show: event -> data, or resource -> data for ``nodes``.
Read = Callable[[frozenset[str]], Awaitable[dict[str, Any]]]


class _Client:
    """A browser that receives updates."""

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self._waiting: deque[bytes] = deque()
        self._wake = asyncio.Event()

    def offer(self, message: bytes) -> None:
        """Add an update, or replace all by a resync if too many wait."""
        if len(self._waiting) >= _MAX_WAITING:
            self._waiting.clear()
            message = _RESYNC
        self._waiting.append(message)
        self._wake.set()

    async def next(self) -> bytes:
        """Return the next updates; a comment if there are none for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_COMMENT_SECONDS):
                await self._wake.wait()
        self._wake.clear()
        found = b"".join(self._waiting)
        self._waiting.clear()
        return found or b": still here\n\n"


class EventStream:
    """The clients of the dashboard that receive updates."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._clients: set[_Client] = set()
        self._reading: asyncio.Task[None] | None = None
        self._last: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._clients)

    async def serve(self, request: web.Request, resource: str, headers: dict[str, str]) -> web.StreamResponse:
        """Send updates until the client leaves or the stream has lasted its time. Raises HttpError."""
        if len(self._clients) >= MAX_CLIENTS:
            raise HttpError(429, f"Too many requests: {MAX_CLIENTS} browsers receive updates already; try again later")
        response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
        client = _Client(resource)
        self._clients.add(client)
        try:
            await response.prepare(request)
            await response.write(b"retry: 2000\n\n" + b"".join(self._last.values()))
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._run(), name="dashboard updates")
            ends = asyncio.get_running_loop().time() + _STREAM_SECONDS
            while asyncio.get_running_loop().time() < ends:
                await response.write(await client.next())
        except ConnectionError:
            pass  # the client has left
        finally:
            self._clients.discard(client)
        return response

    async def stop(self) -> None:
        """Stop reading changes."""
        if self._reading is not None:
            self._reading.cancel()

    async def _run(self) -> None:
        while self._clients:
            try:
                updates = await self._read(frozenset(client.resource for client in self._clients))
            except HttpError:
                updates = {}  # the scheduler is busy
            except Exception as error:
                report_unexpected("updates of the dashboard failed", error)
                updates = {}
            self._send(updates)
            await asyncio.sleep(UPDATE_SECONDS)
        self._last.clear()

    def _send(self, updates: dict[str, Any]) -> None:
        nodes = {resource: _event("nodes", data) for resource, data in updates.pop("nodes", {}).items()}
        changed = []
        for name, data in updates.items():
            message = _event(name, data)
            if self._last.get(name) != message:
                self._last[name] = message
                changed.append(message)
        common = b"".join(changed)
        for client in self._clients:
            message = common + nodes.get(client.resource, b"")
            if message:
                client.offer(message)


def _event(name: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
