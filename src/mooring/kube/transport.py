"""The HTTP transport with aiohttp, for all requests except those of the fast writer, and as its fallback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from yarl import URL

from mooring.kube.access import Access
from mooring.kube.binding_bodies import ACCEPTED, JSON, OBJECT_STARTS
from mooring.kube.client_errors import (
    BadAnswer,
    OutcomeUnknown,
    error_from_answer,
)
from mooring.kube.client_tls import TlsContexts, connection_failed, rejected_certificate
from mooring.kube.identity import Identity, IdentitySource, proxy_identity
from mooring.kube.late_certificates import aiohttp
from mooring.kube.request_limits import Priority

#: The maximum number of connections for lists and watches. The fast writer has its own connections.
_CONNECTIONS: Final = 128
#: API servers close idle connections after 90 s. Close them sooner, so that no request hits a closing one.
IDLE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Timeouts:
    """Timeouts in seconds."""

    connect: float = 10.0
    request: float = 30.0
    #: For the first byte of a list, and between two parts of it.
    listing: float = 60.0
    #: A watch without data for this time is considered broken: servers send a bookmark every minute.
    watch_idle: float = 150.0


class Answer(NamedTuple):
    """The response of a server. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """An interface to send requests and receive responses."""

    async def request(
        self, method: str, target: str, *, body: bytes | None, content_type: str, timeout: float, priority: Priority
    ) -> Answer:
        """Send a request; `target` is the path with its query. Raises ConnectionFailed or OutcomeUnknown."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class Chunks(Protocol):
    """The body of a streamed response."""

    def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the data as it arrives."""
        ...


class _Connector(aiohttp.TCPConnector):
    """A connector that also waits for connections that were closed before it, such as those of cancelled watches."""

    def __init__(self) -> None:
        super().__init__(limit=_CONNECTIONS, keepalive_timeout=IDLE_SECONDS)
        #: The connections that are not closed, by the future that is set when they are.
        self._open: dict[asyncio.Future[None], asyncio.Transport] = {}

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """Open a connection, or take one that is idle."""
        connection = await super().connect(req, traces, timeout)
        closed = None if connection.protocol is None else connection.protocol.closed
        if closed is not None and closed not in self._open and connection.transport is not None:
            self._open[closed] = connection.transport
            closed.add_done_callback(self._lost)
        return connection

    def _lost(self, closed: asyncio.Future[None]) -> None:
        del self._open[closed]
        if not closed.cancelled():
            closed.exception()  # why it was lost was told to the request

    async def close_all(self) -> None:
        """Close all connections, and return when they are closed."""
        await self.close(abort_ssl=True)
        waiting = list(self._open)
        for transport in self._open.values():
            transport.abort()
        await asyncio.gather(*waiting, return_exceptions=True)


class HttpTransport:
    """aiohttp with credentials, TLS, proxy and timeouts. Not thread-safe."""

    def __init__(
        self, access: Access, identities: IdentitySource, tls: TlsContexts, *, user_agent: str, timeouts: Timeouts
    ) -> None:
        self._access = access
        self._identities = identities
        self._tls = tls
        self._timeouts = timeouts
        self._headers = [("User-Agent", user_agent), ("Accept-Encoding", "identity")]
        self._headers += access.user.impersonation
        self._session: aiohttp.ClientSession | None = None
        self._connector: _Connector | None = None
        #: The credentials of the proxy, which aiohttp sends.
        self._proxy = proxy_identity(access.proxy)

    async def request(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float,
        priority: Priority = Priority.STATUS,
    ) -> Answer:
        """Send a request and read the response. Retries once with new credentials if the server rejects them."""
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=self._timeouts.connect)
        for again in (True, False):
            identity = self._identities.fresh() or await self._identities.get()
            answer = await self._send(method, target, identity, body, content_type, limits)
            if answer.status != 401 or not again or not await self._renewed(identity):
                break
        if answer.status == 401 and (error := rejected_certificate(self._access, identity)) is not None:
            raise error
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, target: str, *, idle: float) -> AsyncIterator[Chunks]:
        """Send a GET request and stream the body. `idle` limits the time between parts. Also raises ApiError."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect, sock_read=idle)
        for again in (True, False):
            identity = self._identities.fresh() or await self._identities.get()
            with self._translated_errors():
                async with self._open("GET", target, identity, None, "", limits) as response:
                    if response.status == 200:
                        yield response.content
                        return
                    body = self._proxy.hide(identity.hide(await response.read()))
            if response.status != 401 or not again or not await self._renewed(identity):
                break
        if response.status == 401 and (error := rejected_certificate(self._access, identity)) is not None:
            raise error
        raise error_from_answer(response.status, _lower(response.headers), body)

    async def close(self) -> None:
        """Close the connections, and return when they are closed."""
        if self._session is not None and self._connector is not None:
            await self._connector.close_all()
            await self._session.close()
        self._session = self._connector = None

    async def _renewed(self, rejected: Identity) -> bool:
        self._identities.reject(rejected)
        return await self._identities.get() != rejected

    async def _send(
        self,
        method: str,
        target: str,
        identity: Identity,
        body: bytes | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> Answer:
        with self._translated_errors():
            async with self._open(method, target, identity, body, content_type, limits) as response:
                body = await response.read()
                if response.status >= 300 or not body.startswith(OBJECT_STARTS):
                    body = self._proxy.hide(identity.hide(body))
                return Answer(response.status, _lower(response.headers), body)

    def _open(
        self,
        method: str,
        target: str,
        identity: Identity,
        body: bytes | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> Any:
        if self._session is None:
            self._connector = _Connector()
            # Cookies of a load balancer would pin the client to one server.
            self._session = aiohttp.ClientSession(connector=self._connector, cookie_jar=aiohttp.DummyCookieJar())
        headers = [*self._headers, ("Accept", ACCEPTED.get(content_type, JSON))]
        if identity.authorization:
            headers.append(("Authorization", identity.authorization))
        if body is not None:
            headers.append(("Content-Type", content_type))
        context = self._tls.context(identity)
        return self._session.request(
            method,
            URL(self._access.server + target, encoded=True),
            data=body,
            headers=headers,
            ssl=context if context is not None else True,
            server_hostname=self._access.tls_server_name or None,
            proxy=self._access.proxy or None,
            allow_redirects=False,
            timeout=limits,
        )

    @contextlib.contextmanager
    def _translated_errors(self) -> Any:
        """Convert the errors of aiohttp to those of this package."""
        try:
            yield
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError) as error:
            why: Exception = error
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                why = error.certificate_error
            elif isinstance(error, aiohttp.ClientConnectorError):
                why = error.os_error
            raise connection_failed(self._access.server, why) from None
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError, OSError) as error:
            what = str(error) or "timed out"
            if isinstance(error, aiohttp.ClientPayloadError):
                what = "the connection was closed in the middle of the response"
            raise OutcomeUnknown(f"{self._access.server}: no response: {what}") from None
        except aiohttp.ClientError as error:
            raise BadAnswer(f"{self._access.server}: {error}") from None


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
