"""A listener for aiohttp servers that limits connections and the time that clients take.

aiohttp's own listener accepts any number of connections, and each TLS connection takes 280 KB. This one accepts the
connections itself, so that one too many is closed before its TLS handshake. Once a second it closes the connections
whose clients are too slow. A response may take any time, so that watches are not cut off.
"""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import msgspec

from mooring.late_certificates import web
from mooring.listening_sockets import open_sockets, port_of
from mooring.logs import QUIET_SERVER, get_logger

log: Final = get_logger("mooring.http")

#: The maximum number of connections to accept before the event loop gets its turn.
_ACCEPTS_PER_TURN: Final = 64
#: The pause after the system has no more file descriptors or memory for a connection.
_ACCEPT_RETRY_SECONDS: Final = 1.0
#: How long a client may take to confirm the end of a TLS connection.
_TLS_CLOSE_SECONDS: Final = 2.0
#: The minimum time between two log messages about refused connections.
_REPORT_SECONDS: Final = 60.0

_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class ConnectionLimits(msgspec.Struct, frozen=True):
    """Limits of a server. Header and idle time are those of Kubernetes components."""

    connections: int = 256
    #: For one client: an IPv4 address, or an IPv6 network of 64 bits. Loopback addresses have no limit of their own.
    connections_per_client: int = 64
    handshake_seconds: float = 10.0
    #: From the connection, or from the first byte of a further request, until the headers are complete.
    header_seconds: float = 32.0
    #: Between two requests, which includes the time to read the last part of a response.
    idle_seconds: float = 90.0
    #: From the end of the headers until the body is complete.
    body_seconds: float = 60.0
    #: While the client reads nothing of a long response or watch.
    stalled_seconds: float = 60.0
    #: The time between two checks.
    check_seconds: float = 1.0


class _Connection(web.RequestHandler):
    """A connection, with the times that its limits need."""

    __slots__ = (
        "_begun",
        "_header_begun",
        "_listener",
        "_request",
        "_stalled_since",
        "_unsent",
        "_wire",
        "client",
        "handshake",
        "is_used",
    )

    def __init__(self, listener: "Listener", server: web.Server, client: str, limits: ConnectionLimits) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=limits.idle_seconds,
            logger=QUIET_SERVER,
            access_log=None,  # type: ignore[arg-type]  # aiohttp accepts None
        )
        self._listener = listener
        #: The address that the limit per client counts; empty for none.
        self.client = client
        #: The task that establishes the connection.
        self.handshake: asyncio.Task[None] | None = None
        #: Whether the client has sent a complete request.
        self.is_used = False
        # aiohttp's own reference to the transport is lost before everything is sent.
        self._wire: asyncio.Transport | None = None
        self._request: web.BaseRequest | None = None
        self._begun = 0.0
        self._header_begun: float | None = None
        self._unsent = 0
        self._stalled_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        self._wire = cast(asyncio.Transport, transport)
        self._header_begun = self._loop.time()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Notice the first byte of a further request."""
        if data and self._request is None and self._header_begun is None:
            self._header_begun = self._loop.time()
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Free the place of the connection."""
        super().connection_lost(exc)
        self._wire = self._request = None
        self._listener.release(self)

    def enter(self, request: web.BaseRequest) -> None:
        """Note that the headers of a request are complete."""
        self._request = request
        self._begun = self._loop.time()
        self._header_begun = None
        self.is_used = True

    def leave(self) -> None:
        """Note that a request is handled."""
        self._request = None

    def is_overdue(self, now: float, limits: ConnectionLimits) -> bool:
        """Whether the client takes too long. An idle connection is closed by aiohttp."""
        if self._wire is None:
            return False
        if self._header_begun is not None and now - self._header_begun > limits.header_seconds:
            return True
        request = self._request
        if request is not None and not request.content.is_eof() and now - self._begun > limits.body_seconds:
            return True
        unsent = self._wire.get_write_buffer_size()
        if not self._unsent or unsent < self._unsent:
            self._stalled_since = now
        self._unsent = unsent
        return unsent > 0 and now - self._stalled_since > limits.stalled_seconds

    def end(self) -> None:
        """Close the connection at once, in any state."""
        if self._wire is not None:
            self._wire.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


class Listener:
    """A socket that accepts connections for the server of an aiohttp runner, within limits."""

    def __init__(
        self, runner: web.BaseRunner, limits: ConnectionLimits, *, tls: ssl.SSLContext | None = None, backlog: int = 128
    ) -> None:
        self._runner = runner
        self._limits = limits
        self._tls = tls
        self._backlog = backlog
        self._server: web.Server
        self._loop: asyncio.AbstractEventLoop
        self._sockets: list[socket.socket] = []
        #: In the order in which they were accepted.
        self._connections: dict[_Connection, None] = {}
        self._per_client: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._refused = 0
        self._reported = float("-inf")

    def __len__(self) -> int:
        """The number of connections, including those that are being established."""
        return len(self._connections)

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; 0 selects a free one. Raises OSError."""
        sockets = await open_sockets(host, port, backlog=self._backlog)
        await self.serve(sockets)
        return port_of(sockets)

    async def serve(self, sockets: list[socket.socket]) -> None:
        """Accept connections from sockets that listen. They are closed by `stop`."""
        self._loop = asyncio.get_running_loop()
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        server.request_handler = _observed(server.request_handler)
        self._server = server
        self._sockets = sockets
        for each in self._sockets:
            self._loop.add_reader(each.fileno(), self._accept, each)
        self._timer = self._loop.call_later(self._limits.check_seconds, self._check)

    async def stop(self) -> None:
        """Stop listening, and close all connections once their requests are handled or the runner's timeout is over."""
        if self._timer is not None:
            self._timer.cancel()
        for each in self._sockets:
            self._loop.remove_reader(each.fileno())
            each.close()
        self._sockets = []
        pending = [each.handshake for each in self._connections if each.handshake is not None]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await self._runner.cleanup()

    def release(self, connection: _Connection) -> None:
        """Free the place of a connection. Further calls have no effect."""
        if connection not in self._connections:
            return
        del self._connections[connection]
        if connection.client:
            self._per_client[connection.client] -= 1
            if not self._per_client[connection.client]:
                del self._per_client[connection.client]

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("Failed to accept a connection", error=error.strerror)
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(_ACCEPT_RETRY_SECONDS, self._accept_again, listening)
                return
            client = _client(peer[0])
            if self._has_room(client):
                self._open(accepted, client)
            else:
                accepted.close()
                self._report_refused()

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _has_room(self, client: str) -> bool:
        """Whether to accept a connection.

        If the server is full, the oldest connection without a complete request makes room, so that clients that only
        connect do not lock out the others.
        """
        limits = self._limits
        if client and self._per_client[client] >= limits.connections_per_client:
            return False
        if len(self._connections) < limits.connections:
            return True
        oldest = next((each for each in self._connections if not each.is_used), None)
        if oldest is None:
            return False
        self.release(oldest)
        oldest.end()
        self._report_refused()
        return True

    def _report_refused(self) -> None:
        self._refused += 1
        now = self._loop.time()
        if now - self._reported >= _REPORT_SECONDS:
            log.warning("Refused connections over the limit", refused=self._refused, open=len(self._connections))
            self._reported, self._refused = now, 0

    def _open(self, accepted: socket.socket, client: str) -> None:
        accepted.setblocking(False)
        connection = _Connection(self, self._server, client, self._limits)
        self._connections[connection] = None
        if client:
            self._per_client[client] += 1

        def done(task: asyncio.Task[None]) -> None:
            connection.handshake = None
            failed = task.cancelled() or task.exception() is not None
            if failed:
                self.release(connection)
                with contextlib.suppress(OSError):
                    accepted.close()

        connection.handshake = self._loop.create_task(self._connect(connection, accepted))
        connection.handshake.add_done_callback(done)

    async def _connect(self, connection: _Connection, accepted: socket.socket) -> None:
        seconds: dict[str, Any] = {}
        if self._tls is not None:
            seconds["ssl_handshake_timeout"] = self._limits.handshake_seconds
            seconds["ssl_shutdown_timeout"] = _TLS_CLOSE_SECONDS
        await self._loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._tls, **seconds)

    def _check(self) -> None:
        """Close the connections that take too long."""
        now = self._loop.time()
        for each in [each for each in self._connections if each.is_overdue(now, self._limits)]:
            each.end()
        self._timer = self._loop.call_later(self._limits.check_seconds, self._check)


def _observed(handler: Any) -> _Handler:
    """Return a handler that tells the connection when a request begins and ends."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, _Connection)
        connection.enter(request)
        try:
            response: web.StreamResponse = await handler(request)
            return response
        finally:
            connection.leave()

    return handle


def _client(address: str) -> str:
    """Return the client that an address belongs to; empty for this machine."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is None:
            return "" if ip.is_loopback else str(ipaddress.ip_network((int(ip), 64), strict=False))
        ip = ip.ipv4_mapped
    return "" if ip.is_loopback else str(ip)
