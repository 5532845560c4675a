"""A fast HTTP client for lists and watches: the body of a response is read in parts, as they arrive.

Hand-written because aiohttp takes twice the CPU time for an event of a watch, and there is one for every bind. It
speaks HTTP/1.1 with one connection for each response. Unusual cases (a proxy, a rejected token, a redirect) are handled
by aiohttp: `HttpTransport` is the reference implementation, and tests require the same results of both.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Final

import httptools

from mooring.kube.access import Access
from mooring.kube.binding_bodies import JSON
from mooring.kube.client_errors import BadAnswer, OutcomeUnknown, error_from_answer
from mooring.kube.client_tls import TlsContexts, connection_failed
from mooring.kube.http_connection import Endpoint, NotProcessed, check_fields
from mooring.kube.identity import Identity, IdentitySource
from mooring.kube.transport import IDLE_SECONDS, Chunks, HttpTransport, Timeouts

#: A connection reads no more while this much of a response has not been taken.
_UNREAD: Final = 4 << 20
#: The largest head of a response, and the largest body of an error.
_MAX_HEAD: Final = 64 << 10
_MAX_ERROR: Final = 1 << 20


class StreamConnection(asyncio.Protocol):
    """A connection with one request at a time, whose response is read in parts."""

    def __init__(
        self, server: str, context: ssl.SSLContext | None, on_lost: "Callable[[StreamConnection], None]"
    ) -> None:
        self.context = context
        self._server = server
        #: Whether the connection has carried a request before.
        self.used = False
        #: The headers of the response, by lower-case name.
        self.headers: dict[str, str] = {}
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._parser: httptools.HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: The longest time without data, and when there was some.
        self._limit = 0.0
        self._received_at = 0.0
        self._received = 0
        #: The final status; 0 until it is received.
        self._status = 0
        self._parts: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._complete = False
        self._keeps_alive = False
        #: Why there is no response, and whether the reason is what the server sends.
        self._problem = ""
        self._malformed = False

    # Requests

    def send(self, request: bytes, limit: float) -> None:
        """Send a request. Without data for ``limit`` seconds, the connection is considered broken."""
        self.stop_timer()
        self._parser = httptools.HttpResponseParser(self)
        self.headers = {}
        self._status = self._received = 0
        self._complete = self._keeps_alive = False
        self._limit, self._received_at = limit, self._loop.time()
        self._timer = self._loop.call_later(limit, self._check)
        self._transport.write(request)

    async def status(self) -> int:
        """Wait for the head of the response. Raises OutcomeUnknown.

        Raises NotProcessed if the connection had carried a request before, and the server closed it without a response.
        """
        while not self._status:
            if self._problem:
                if self.used and not self._received:
                    raise NotProcessed(self._problem)
                raise self._error()
            await self._wait()
        return self._status

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises OutcomeUnknown."""
        while True:
            if self._parts:
                parts, self._parts, self._unread = self._parts, [], 0
                if self._paused:
                    self._paused = False
                    self._received_at = self._loop.time()
                    self._transport.resume_reading()
                yield parts[0] if len(parts) == 1 else b"".join(parts)
            elif self._complete:
                return
            elif self._problem:
                raise self._error()
            else:
                await self._wait()

    async def read(self, limit: int) -> bytes:
        """Return the body, or its first bytes if it is larger than a limit."""
        body = b""
        async for part in self.iter_any():
            body += part
            if len(body) > limit:
                break
        return body[:limit]

    @property
    def reusable(self) -> bool:
        """Whether another request can be sent."""
        return self._complete and self._keeps_alive and not self._parts and not self._transport.is_closing()

    def keep(self, seconds: float) -> None:
        """Wait for the next request, for some seconds."""
        self.used = True
        self._parser = None
        self.stop_timer()
        self._timer = self._loop.call_later(seconds, self._transport.close)

    def stop_timer(self) -> None:
        """Forget the deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abort(self) -> None:
        """Close the connection at once."""
        self.stop_timer()
        self._transport.abort()

    # Progress

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _error(self) -> OutcomeUnknown:
        if self._malformed:
            return BadAnswer(f"{self._server}: {self._problem}")
        return OutcomeUnknown(f"{self._server}: no response: {self._problem}")

    def _fail(self, problem: str) -> None:
        if not self._complete:
            self._problem = self._problem or problem
            self._wake()

    def _reject(self, problem: str) -> None:
        """Fail because of what the server sends."""
        self._malformed = True
        self._fail(problem)
        self.abort()

    def _check(self) -> None:
        """Fail if nothing was received for too long. One timer for many parts takes less time than one for each."""
        left = self._limit if self._paused else self._received_at + self._limit - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check)
            return
        self._fail("timed out")
        self.abort()

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport  # type: ignore[assignment]  # uvloop's TLS transports do not derive from it

    def data_received(self, data: bytes) -> None:
        """Parse a part of the response."""
        if self._parser is None or self._complete:
            # A server sends data on an idle connection only before closing it.
            self._keeps_alive = False
            self._transport.close()
            return
        self._received += len(data)
        self._received_at = self._loop.time()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._reject(f"the response is not HTTP: {error}")
        else:
            if not self._status and self._received > _MAX_HEAD:
                self._reject("the head of the response is too large")
        self._wake()

    def eof_received(self) -> None:
        """Take the end of a connection for that of a response without a length."""
        headers = self.headers
        if self._status and "content-length" not in headers and "transfer-encoding" not in headers:
            self._complete = True
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request under way."""
        self.stop_timer()
        when = "in the middle of the" if self._status else "before a"
        self._fail(f"the connection was closed {when} response{f': {exc}' if exc else ''}")
        self._on_lost(self)

    # Callbacks of httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """Keep the status, unless it is that of an interim response."""
        status = self._parser.get_status_code() if self._parser is not None else 0
        if status >= 200:
            self._status = status
        else:
            self.headers.clear()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self._parts.append(body)
        self._unread += len(body)
        if self._unread > _UNREAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """End the response."""
        if self._status and self._parser is not None:
            self._complete = True
            self._keeps_alive = self._parser.should_keep_alive()


class FastReader:
    """A client for lists and watches. Not thread-safe."""

    def __init__(
        self,
        access: Access,
        identities: IdentitySource,
        tls: TlsContexts,
        fallback: HttpTransport,
        *,
        user_agent: str,
        timeouts: Timeouts,
    ) -> None:
        self._endpoint = Endpoint(access)
        self._identities = identities
        self._tls = tls
        self._fallback = fallback
        self._timeouts = timeouts
        self._fixed = [("User-Agent", user_agent), ("Accept", JSON), *access.user.impersonation]
        self._open: set[StreamConnection] = set()
        #: Connections without a request.
        self._idle: list[StreamConnection] = []

    @contextlib.asynccontextmanager
    async def stream(self, target: str, *, idle: float) -> AsyncIterator[Chunks]:
        """Send a GET request and stream the body. `idle` limits the time between parts. Also raises ApiError."""
        identity = self._identities.fresh() or await self._identities.get()
        connection, status = await self._send(self._request(target, identity), self._tls.context(identity), idle)
        try:
            if status == 200:
                yield connection
                return
            body = identity.hide(await connection.read(_MAX_ERROR))
        finally:
            self._give_back(connection)
        if status != 401 and not 300 <= status < 400:
            raise error_from_answer(status, connection.headers, body)
        # aiohttp renews the credentials.
        async with self._fallback.stream(target, idle=idle) as chunks:
            yield chunks

    async def close(self) -> None:
        """Close the connections. Pending requests fail."""
        for connection in list(self._open):
            connection.abort()
        # Let the transports close before the loop does.
        await asyncio.sleep(0)

    def _request(self, target: str, identity: Identity) -> bytes:
        fields = [("Host", self._endpoint.authority), *self._fixed]
        if identity.authorization:
            fields.append(("Authorization", identity.authorization))
        check_fields(fields)
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        return f"GET {self._endpoint.prefix}{target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")

    async def _send(self, request: bytes, context: ssl.SSLContext | None, idle: float) -> tuple[StreamConnection, int]:
        """Send a request and wait for the status. Send it a second time if the connection was closed before."""
        while True:
            connection = self._find(context) or await self._connect(context)
            connection.send(request, idle)
            try:
                return connection, await connection.status()
            except NotProcessed:
                continue  # a new connection does not raise it
            except BaseException:
                connection.abort()
                raise

    # Connections

    def _find(self, context: ssl.SSLContext | None) -> StreamConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.context is context and connection.reusable:
                return connection
            connection.abort()
        return None

    def _give_back(self, connection: StreamConnection) -> None:
        if connection.reusable:
            connection.keep(IDLE_SECONDS)
            self._idle.append(connection)
        else:
            connection.abort()

    async def _connect(self, context: ssl.SSLContext | None) -> StreamConnection:
        server = self._endpoint.server
        try:
            async with asyncio.timeout(self._timeouts.connect):
                connection = await self._endpoint.connect(
                    lambda: StreamConnection(server, context, self._lost), context
                )
        except (OSError, TimeoutError) as error:
            raise connection_failed(server, error) from None
        self._open.add(connection)
        return connection

    def _lost(self, connection: StreamConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
