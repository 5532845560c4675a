"""A connection that speaks HTTP/1.1, for responses of any size: one request at a time, whose response is streamed.

Hand-written because lists take half of the CPU time of aiohttp, which also takes a sixth of a start to import.
httptools parses the responses.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Final, cast

import httptools

#: The largest size of the headers of a response.
_MAX_HEAD: Final = 64 << 10
#: Nothing is read from the connection while this much of a response waits for its reader.
_MAX_WAITING: Final = 1 << 20


class BrokenResponse(Exception):
    """The response is missing or incomplete."""


class Disconnected(BrokenResponse):
    """The connection was closed before the end of a response."""


class InvalidResponse(Exception):
    """The response is not valid HTTP, or not what was accepted."""


class StreamedResponse:
    """A response as it arrives."""

    __slots__ = (
        "_connection", "_error", "_heard", "_idle", "_loop", "_parts", "_timer", "_waiter", "begun", "ended", "headers",
        "is_whole", "size", "status",
    )  # fmt: skip

    def __init__(self, connection: "Http1Stream", idle: float | None) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        #: The longest wait for data in seconds.
        self._idle = idle
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._parts: list[bytes] = []
        #: The size of the parts that the reader has not taken.
        self.size = 0
        #: 0 until the headers are complete.
        self.status = 0
        self.headers: dict[str, str] = {}
        #: Whether something was received, and whether everything was.
        self.begun = False
        self.ended = False
        #: Whether the reader waits for the whole body.
        self.is_whole = False

    @property
    def content(self) -> "StreamedResponse":
        """The body, as it arrives."""
        return self

    async def head(self) -> None:
        """Wait for the headers. Raises BrokenResponse or InvalidResponse, as all methods that wait."""
        while not self.status:
            await self._more()
        if self._error is not None:
            raise self._error

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        while True:
            if self._parts:
                yield self._take()
            elif self.ended:
                return
            else:
                await self._more()

    async def read(self) -> bytes:
        """Return the rest of the body."""
        self.is_whole = True
        self._connection.resume()
        while not self.ended:
            await self._more()
        return self._take()

    def add(self, part: bytes) -> None:
        """Add a part of the body."""
        self._parts.append(part)
        self.size += len(part)

    def end(self) -> None:
        """Note that the body is complete."""
        self.ended = True
        self._stop_timer()
        self.wake()

    def fail(self, error: Exception) -> None:
        """End the response with an error, if it has not ended."""
        if not self.ended and self._error is None:
            self._error = error
            self._stop_timer()
            self.wake()

    def heard(self, now: float) -> None:
        """Note that data has arrived, and wake the reader if it can be used."""
        self._heard = now
        if self._parts and not self.is_whole:
            self.wake()

    def wake(self) -> None:
        """Wake the reader."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self) -> bytes:
        parts, self._parts, self.size = self._parts, [], 0
        self._connection.resume()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _more(self) -> None:
        """Wait until there is data, the end or an error."""
        if self._error is not None:
            raise self._error
        loop = self._loop
        self._waiter = loop.create_future()
        if self._idle is not None:
            self._heard = loop.time()
            if self._timer is None:  # one for many waits: there is one for each event of a watch
                self._timer = loop.call_later(self._idle, self._check_idle, self._idle)
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._error is not None:
            raise self._error

    def _check_idle(self, idle: float) -> None:
        """Fail if the reader has waited for too long. It does not wait while it handles data."""
        self._timer = None
        if self._waiter is None:
            return
        left = self._heard + idle - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_idle, idle)
        else:
            self.fail(BrokenResponse("timed out"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Http1Stream(asyncio.Protocol):
    """A connection with at most one request at a time."""

    __slots__ = (
        "_head_size", "_loop", "_on_lost", "_parser", "_paused", "_response", "_transport", "closed", "closing",
        "context", "idle_since",
    )  # fmt: skip

    def __init__(self, context: ssl.SSLContext | None, on_lost: "Callable[[Http1Stream], None]") -> None:
        self.context = context
        #: Whether it takes no more requests.
        self.closing = False
        #: When the last response ended.
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        #: Set when the connection is closed.
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._response: StreamedResponse | None = None
        self._head_size = 0
        self._paused = False

    def send(self, request: bytes, idle: float | None) -> StreamedResponse:
        """Send a request and return its response, which arrives later. The response before it must have ended."""
        self._response = StreamedResponse(self, idle)
        self._head_size = 0
        self._transport.write(request)
        return self._response

    def resume(self) -> None:
        """Read from the connection again."""
        if self._paused:
            self._paused = False
            if not self.closing:  # transports of uvloop that are closed cannot read
                self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once."""
        self.closing = True
        self._transport.abort()

    def _fail(self, error: Exception) -> None:
        if self._response is not None:
            self._response.fail(error)
        self.abort()

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's TLS transports do not derive from it

    def data_received(self, data: bytes) -> None:
        """Parse a part of a response."""
        response = self._response
        if response is None or response.ended:
            self.abort()  # a server sends data on an idle connection only before closing it
            return
        response.begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(InvalidResponse(f"the response is not HTTP: {error}"))
            return
        if not response.status:
            self._head_size += len(data)
            if self._head_size > _MAX_HEAD:
                self._fail(InvalidResponse(f"the headers of the response have more than {_MAX_HEAD >> 10} KiB"))
        response.heard(self._loop.time())
        if response.size > _MAX_WAITING and not (response.is_whole or self._paused or self.closing):
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """Take no more requests. The end of the connection is the end of a response without a length."""
        self.closing = True
        response = self._response
        if response is not None and response.status and not response.headers.keys() & _DELIMITED:
            response.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request under way."""
        self.closing = True
        if self._response is not None:
            where = "in the middle of the response" if self._response.status else "before a response"
            self._response.fail(Disconnected(f"the connection was closed {where}{f': {exc}' if exc else ''}"))
        if not self.closed.done():
            self.closed.set_result(None)
        self._on_lost(self)

    # Callbacks of httptools

    def on_message_begin(self) -> None:
        """Take no more requests if the server sends more than one response."""
        self.closing = self.closing or self._response is None or self._response.ended

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        if self._response is not None and not self._response.ended:
            self._response.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """Pass on the status and the headers, unless it is an interim response (100 Continue)."""
        response, status = self._response, self._parser.get_status_code()
        if response is None or response.ended:
            return
        if status < 200:
            response.headers.clear()
            return
        response.status = status
        encoding = response.headers.get("content-encoding", _PLAIN)
        if encoding != _PLAIN:
            response.fail(InvalidResponse(f"the response is encoded as {encoding[:20]!r}, which was not accepted"))
        response.wake()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        if self._response is not None and not self._response.ended:
            self._response.add(body)

    def on_message_complete(self) -> None:
        """End the response."""
        response = self._response
        if response is None or response.ended or not response.status:
            return
        if not self._parser.should_keep_alive():
            self.closing = True
        response.end()


_PLAIN: Final = "identity"
#: The headers of responses that have an end of their own.
_DELIMITED: Final = frozenset({"content-length", "transfer-encoding"})
