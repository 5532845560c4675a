"""A fast HTTP client for small JSON writes (binds, events, status patches).

Hand-written because it takes a fifth of the CPU time of aiohttp, which matters for every bind. It uses one asyncio
protocol for each persistent connection and httptools to parse. Unusual cases (a proxy, a rejected token, a redirect)
are handled by aiohttp: `HttpTransport` is the reference implementation, and tests require the same results of both.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from mooring.kube.access import Access
from mooring.kube.client_errors import NOT_LEADING, ConnectionFailed, NotLeading, OutcomeUnknown
from mooring.kube.client_tls import TlsContexts, connection_failed
from mooring.kube.identity import Identity, IdentitySource
from mooring.kube.request_limits import ConcurrencyLimiter, Priority
from mooring.kube.transport import IDLE_SECONDS, Answer, Timeouts, Transport

#: As many as the scheduling loop has binds in flight.
_CONNECTIONS: Final = 128
#: The interval of deadline checks: one timer for all connections is cheaper than one for each request.
_SWEEP_SECONDS: Final = 0.5


class _Connection(asyncio.Protocol):
    """A persistent connection with at most one request at a time."""

    __slots__ = (
        "_body", "_parser", "_received", "_transport", "answer", "context", "deadline", "idle_since", "lost", "on_lost",
    )  # fmt: skip

    def __init__(self, context: ssl.SSLContext | None, on_lost: "Callable[[_Connection], None]") -> None:
        self.context = context
        self.on_lost = on_lost
        self.answer: asyncio.Future[Answer] | None = None
        self.deadline = 0.0
        self.idle_since = 0.0
        self.lost = False
        self._transport: asyncio.WriteTransport | None = None
        self._parser = httptools.HttpResponseParser(self)
        #: What was received since the request was sent, and the body of the response.
        self._received: list[bytes] = []
        self._body: list[bytes] = []

    def send(self, head: bytes, body: bytes, deadline: float) -> "asyncio.Future[Answer]":
        """Write a request and return a future for the response."""
        self.answer = asyncio.get_running_loop().create_future()
        self.deadline = deadline
        self._received.clear()
        self._body.clear()
        assert self._transport is not None
        self._transport.write(head + body)
        return self.answer

    def abort(self, problem: str) -> None:
        """Abort the request and close the connection."""
        self.fail(problem)
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close an idle connection."""
        self.lost = True
        if self._transport is not None:
            self._transport.close()

    def fail(self, problem: str) -> None:
        """Fail the pending request, if any."""
        self.lost = True
        answer, self.answer = self.answer, None
        if answer is not None and not answer.done():
            answer.set_exception(OutcomeUnknown(problem))

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's TLS transports do not derive from it

    def data_received(self, data: bytes) -> None:
        if self.answer is None:
            # A server sends data on an idle connection only before closing it.
            self.close()
            return
        self._received.append(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.abort(f"the response is not HTTP: {error}")

    def eof_received(self) -> None:
        # The connection must not be reused from here on, although it closes only in the next loop iteration.
        self.lost = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(f"the connection was closed before a response{f': {exc}' if exc else ''}")
        self.on_lost(self)

    # Callbacks of httptools

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        parser, answer = self._parser, self.answer
        if answer is None:
            return
        status = parser.get_status_code()
        if status < 200:
            # An interim response (100 Continue): the final one follows on the same connection.
            self._body.clear()
            return
        self.answer = None
        if not parser.should_keep_alive():
            self.close()
        if not answer.done():
            # The headers of a successful response are not used, and a call for each of them takes time.
            headers = {} if status < 300 else _HeaderParser().read(self._received)
            answer.set_result(Answer(status, headers, b"".join(self._body)))


class FastWriter:
    """A pool of connections for small writes. Free connections are assigned by priority. Not thread-safe."""

    def __init__(
        self,
        access: Access,
        identities: IdentitySource,
        tls: TlsContexts,
        fallback: Transport,
        *,
        user_agent: str,
        timeouts: Timeouts,
        connections: int = _CONNECTIONS,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        parts = urlsplit(access.server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path
        self._server_name = access.tls_server_name or self._host
        self._server = access.server
        self._identities = identities
        self._tls = tls
        self._fallback = fallback
        self._timeouts = timeouts
        self._may_write = may_write
        self._open: set[_Connection] = set()
        self._idle: list[_Connection] = []
        self._limiter = ConcurrencyLimiter(connections)
        self._timer: asyncio.TimerHandle | None = None
        fixed = [("Host", parts.netloc.rpartition("@")[2]), ("User-Agent", user_agent), ("Accept", "application/json")]
        self._fixed = "".join(f"{name}: {value}\r\n" for name, value in (*fixed, *access.user.impersonation))
        self._heads: dict[tuple[str, str], str] = {}
        self._heads_identity: Identity | None = None

    async def request(
        self, method: str, target: str, *, body: bytes | None, content_type: str, timeout: float, priority: Priority
    ) -> Answer:
        """Send a body and wait for the response. Raises ConnectionFailed or OutcomeUnknown."""
        if body is None:
            return await self._fallback.request(
                method, target, body=body, content_type=content_type, timeout=timeout, priority=priority
            )
        identity = self._identities.fresh() or await self._identities.get()
        head = self._head(method, target, identity, content_type, len(body))
        if not self._limiter.try_enter():
            await self._wait_for_connection(timeout, priority)
        try:
            answer = await self._exchange(head, body, identity, timeout)
        finally:
            self._limiter.leave()
        if answer.status >= 300 or not answer.body.startswith(b"{"):
            answer = answer._replace(body=identity.hide(answer.body))
        if answer.status == 401 or 300 <= answer.status < 400:
            # The request was not carried out, so a retry is safe. aiohttp renews the credentials.
            return await self._fallback.request(
                method, target, body=body, content_type=content_type, timeout=timeout, priority=priority
            )
        return answer

    async def close(self) -> None:
        """Close the connections. Pending requests fail."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in list(self._open):
            connection.abort("the client was closed")
        self._idle.clear()
        # Let the transports close before the loop does.
        await asyncio.sleep(0)

    def _head(self, method: str, target: str, identity: Identity, content_type: str, length: int) -> bytes:
        if self._heads_identity is not identity:
            self._heads.clear()
            self._heads_identity = identity
        fixed = self._heads.get((method, content_type))
        if fixed is None:
            secret = f"Authorization: {identity.authorization}\r\n" if identity.authorization else ""
            fixed = f" HTTP/1.1\r\n{self._fixed}{secret}Content-Type: {content_type}\r\nContent-Length: "
            if fixed.count("\n") != fixed.count("\r\n"):
                raise ConnectionFailed("a header contains a line break; check the token")
            self._heads[method, content_type] = fixed
        return f"{method} {self._prefix}{target}{fixed}{length}\r\n\r\n".encode("latin-1")

    async def _wait_for_connection(self, timeout: float, priority: Priority) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._limiter.enter(priority)
        except TimeoutError:
            raise ConnectionFailed(f"{self._server}: no connection was free within {timeout:g} s") from None

    async def _exchange(self, head: bytes, body: bytes, identity: Identity, timeout: float) -> Answer:
        context = self._tls.context(identity)
        connection = self._idle_one(context) or await self._connect(context)
        loop = asyncio.get_running_loop()
        try:
            if self._may_write is not None and not self._may_write():
                # The lease may have expired while the request waited for a connection.
                raise NotLeading(NOT_LEADING)
            return await connection.send(head, body, loop.time() + timeout)
        except asyncio.CancelledError:
            connection.abort("cancelled")
            raise
        except OutcomeUnknown as error:
            raise OutcomeUnknown(f"{self._server}: {error}") from None
        finally:
            if not connection.lost:
                connection.idle_since = loop.time()
                self._idle.append(connection)

    def _idle_one(self, context: ssl.SSLContext | None) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.context is context and not connection.lost:
                return connection
            connection.close()
        return None

    async def _connect(self, context: ssl.SSLContext | None) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeouts.connect):
                _, connection = await loop.create_connection(
                    lambda: _Connection(context, self._open.discard),
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=self._server_name if context is not None else None,
                )
        except (OSError, TimeoutError) as error:
            raise connection_failed(self._server, error) from None
        self._open.add(connection)
        if self._timer is None:
            self._timer = loop.call_later(_SWEEP_SECONDS, self._sweep)
        return connection

    def _sweep(self) -> None:
        """Fail overdue requests and close idle connections."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self._open):
            if connection.answer is not None and now >= connection.deadline:
                connection.abort("timed out waiting for a response")
        while self._idle and now - self._idle[0].idle_since > IDLE_SECONDS:
            self._idle.pop(0).close()
        self._timer = loop.call_later(_SWEEP_SECONDS, self._sweep) if self._open else None


class _HeaderParser:
    """Reads the headers of the first response in some data that is not an interim one."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self._done = False
        self._parser = httptools.HttpResponseParser(self)

    def read(self, received: list[bytes]) -> dict[str, str]:
        """Return the headers."""
        with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):  # other data may follow
            for data in received:
                self._parser.feed_data(data)
        return self.headers

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._done:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            self._done = True
        elif not self._done:
            self.headers.clear()
