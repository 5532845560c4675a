"""A fast HTTP client for small JSON writes (binds, events, status patches).

Hand-written because it takes a fifth of the CPU time of aiohttp, which matters for every bind. It speaks HTTP/2 if the
server selects that in the TLS handshake, otherwise HTTP/1.1. Unusual cases (a rejected token, a redirect) are left to
the transport of the other requests. `AiohttpTransport` is the reference implementation, and tests require the same
results of both.
"""

import asyncio
import functools
import ssl
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from mooring.kube.access import Access
from mooring.kube.binding_bodies import ACCEPTED, JSON, OBJECT_STARTS
from mooring.kube.client_errors import NOT_LEADING, ConnectionFailed, NotLeading, OutcomeUnknown
from mooring.kube.client_tls import TlsContexts, connection_failed
from mooring.kube.http1_connection import Http1Connection
from mooring.kube.http2_connection import Http2Connection
from mooring.kube.http_connection import Connection, Head, NotProcessed, ServerAddress, check_headers
from mooring.kube.identity import Identity, IdentitySource
from mooring.kube.request_limits import ConcurrencyLimiter, Priority
from mooring.kube.transport import IDLE_SECONDS, Answer, Timeouts, Transport

if find_spec("hpack") is None:
    # It is imported for the first failure, and must be there then.
    raise ImportError("hpack is missing; it is installed with mooring-scheduler[fast]")

#: Requests under way, as many as the scheduling loop has binds in flight. With HTTP/1.1 each has its own connection.
_REQUESTS: Final = 128
#: The interval of deadline checks: one timer for all connections is cheaper than one for each request.
_SWEEP_SECONDS: Final = 0.5
_LATE_SECONDS: Final = 0.01


class _Handshake(asyncio.Protocol):
    """Passes a new connection to the class for the version of HTTP that the server has selected."""

    def __init__(self, create: Callable[[bool], Connection]) -> None:
        self._create = create
        self.connection: Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        secured = transport.get_extra_info("ssl_object")
        self.connection = self._create(secured is not None and secured.selected_alpn_protocol() == "h2")
        # Data may follow at once, so this cannot wait until the connection is returned.
        transport.set_protocol(self.connection)
        self.connection.connection_made(transport)


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
        requests: int = _REQUESTS,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        self._address = ServerAddress.of(access)
        self._prefix = self._address.prefix
        self._server = access.server
        self._identities = identities
        self._tls = tls
        self._fallback = fallback
        self._timeouts = timeouts
        self._may_write = may_write
        self._open: set[Connection] = set()
        #: Connections that may have capacity. The last one is used until it has none.
        self._available: list[Connection] = []
        #: The connection being opened that requests wait for together, by the TLS context.
        self._opening: dict[ssl.SSLContext | None, asyncio.Task[Connection]] = {}
        #: Whether the last connection spoke HTTP/1.1, so that each request needs its own.
        self._http1 = access.server.startswith("http:")
        self._closed = False
        self._limiter = ConcurrencyLimiter(requests)
        self._timer: asyncio.TimerHandle | None = None
        self._swept_at = 0.0
        self._fixed = [("User-Agent", user_agent), *access.user.impersonation]
        self._heads: dict[tuple[str, str, str], Head] = {}
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
        if identity is not self._heads_identity:
            self._use_identity(identity)
        if not self._limiter.try_enter():
            await self._wait_for_connection(timeout, priority)
        try:
            deadline = 0.0
            while True:
                context = self._tls.http2_context(identity)
                connection = self._find(context) or await self._connect(context, timeout)
                if self._may_write is not None and not self._may_write():
                    # The lease may have expired while the request waited for a connection.
                    self._give_back(connection)
                    raise NotLeading(NOT_LEADING)
                again = not deadline
                deadline = deadline or connection.loop.time() + timeout
                head = self._head(connection, method, content_type, identity)
                sent = connection.send(head, self._prefix + target, body, deadline)
                try:
                    answer = await sent
                    break
                except BaseException as error:
                    self._unanswered(error, connection, sent, deadline if again else 0.0)
                finally:
                    if not connection.listed:
                        self._give_back(connection)
        finally:
            self._limiter.leave()
        if answer.status >= 300 or not answer.body.startswith(OBJECT_STARTS):
            answer = answer._replace(body=identity.hide(answer.body))
        if answer.status == 401 or 300 <= answer.status < 400:
            # The request was not carried out, so a retry is safe. The other transport renews the credentials.
            return await self._fallback.request(
                method, target, body=body, content_type=content_type, timeout=timeout, priority=priority
            )
        return answer

    async def close(self) -> None:
        """Close the connections. Pending requests fail."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for opening in list(self._opening.values()):
            opening.cancel()
        for connection in list(self._open):
            connection.abort("the client was closed")
        # Let the transports close before the loop does.
        await asyncio.sleep(0)

    # Requests

    def _use_identity(self, identity: Identity) -> None:
        """Forget the headers of another identity. Raises ConnectionFailed for a token that would add headers."""
        check_headers((*self._fixed, ("", identity.authorization)))
        self._heads.clear()
        self._heads_identity = identity

    def _head(self, connection: Connection, method: str, content_type: str, identity: Identity) -> Head:
        if identity is not self._heads_identity:
            self._use_identity(identity)
        head = self._heads.get((connection.version, method, content_type))
        if head is None:
            fields = [*self._fixed, ("Accept", ACCEPTED.get(content_type, JSON)), ("Content-Type", content_type)]
            if identity.authorization:
                fields.append(("Authorization", identity.authorization))
            head = connection.head(method, self._address.authority, fields)
            self._heads[connection.version, method, content_type] = head
        return head

    async def _wait_for_connection(self, timeout: float, priority: Priority) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._limiter.enter(priority)
        except TimeoutError:
            raise ConnectionFailed(f"{self._server}: no connection was free within {timeout:g} s") from None

    def _unanswered(
        self, error: BaseException, connection: Connection, sent: "asyncio.Future[Answer]", deadline: float
    ) -> None:
        """Raise why a request has no response. Return if it was not processed, and may be sent until a deadline."""
        if isinstance(error, asyncio.CancelledError):
            connection.cancel(sent)
        if isinstance(error, OutcomeUnknown):
            raise OutcomeUnknown(f"{self._server}: {error}") from None
        if not isinstance(error, NotProcessed):
            raise error
        if self._closed or connection.loop.time() >= deadline:
            raise ConnectionFailed(f"{self._server}: {error}") from None

    # Connections

    def _find(self, context: ssl.SSLContext | None) -> Connection | None:
        """Return a connection with capacity, or None."""
        while self._available:
            connection = self._available[-1]
            if connection.capacity > 0 and connection.context is context:
                return connection
            self._available.pop()
            connection.listed = False
            if connection.context is not context:
                # The certificates have been replaced.
                connection.close()
        return None

    def _give_back(self, connection: Connection) -> None:
        if not connection.listed and connection.capacity > 0:
            connection.listed = True
            self._available.append(connection)

    async def _connect(self, context: ssl.SSLContext | None, timeout: float) -> Connection:
        """Return a new connection with capacity. If the server speaks HTTP/2, requests that wait share one."""
        try:
            async with asyncio.timeout(timeout):
                while not self._http1:
                    connection = await self._shared_connection(context)
                    if connection.capacity > 0:
                        return connection
                    # Others that waited for it have taken all its streams, or it was closed meanwhile.
                return self._find(context) or await self._open_connection(context)
        except TimeoutError:
            raise ConnectionFailed(f"{self._server}: no connection was established within {timeout:g} s") from None

    async def _shared_connection(self, context: ssl.SSLContext | None) -> Connection:
        opening = self._opening.get(context)
        if opening is None:
            opening = self._opening[context] = asyncio.get_running_loop().create_task(self._open_connection(context))
            opening.add_done_callback(functools.partial(self._opened, context))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise ConnectionFailed(f"{self._server}: the client was closed") from None
            raise
        except ConnectionFailed as error:
            raise ConnectionFailed(str(error)) from None

    def _opened(self, context: ssl.SSLContext | None, opening: "asyncio.Task[Connection]") -> None:
        del self._opening[context]
        # It may have failed, and no request may wait for it any more.
        if not opening.cancelled() and opening.exception() is None:
            self._give_back(opening.result())

    async def _open_connection(self, context: ssl.SSLContext | None) -> Connection:
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._timeouts.connect):
                _, handshake = await loop.create_connection(
                    lambda: _Handshake(lambda http2: self._created(context, http2)),
                    self._address.host,
                    self._address.port,
                    ssl=context,
                    server_hostname=self._address.server_name if context is not None else None,
                )
                connection = handshake.connection
                assert connection is not None
                await connection.established()
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            if connection is not None:
                connection.abort("the connection could not be established")
            if isinstance(error, asyncio.CancelledError):
                raise
            raise connection_failed(self._server, error) from None
        if connection.closing:
            raise connection_failed(self._server, ConnectionResetError("the server closes connections at once"))
        self._http1 = isinstance(connection, Http1Connection)
        if self._timer is None:
            self._swept_at = loop.time()
            self._timer = loop.call_later(_SWEEP_SECONDS, self._sweep)
        return connection

    def _created(self, context: ssl.SSLContext | None, http2: bool) -> Connection:
        connection = (
            Http2Connection(context, self._lost, self._may_write) if http2 else Http1Connection(context, self._lost)
        )
        self._open.add(connection)
        return connection

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection.listed:
            self._available.remove(connection)
            connection.listed = False

    def _sweep(self) -> None:
        """End overdue requests and close idle connections."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        late = now - self._swept_at > 2 * _SWEEP_SECONDS
        self._swept_at = now
        if late:
            # The event loop was blocked. Responses may have arrived meanwhile: let it read them first.
            self._timer = loop.call_later(_LATE_SECONDS, self._sweep)
            return
        for connection in list(self._open):
            connection.check(now, IDLE_SECONDS)
        self._timer = loop.call_later(_SWEEP_SECONDS, self._sweep) if self._open else None
