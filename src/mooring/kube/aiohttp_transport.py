"""The HTTP transport with aiohttp, for proxies, and the reference implementation of the others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from yarl import URL

from mooring.kube.access import Access
from mooring.kube.client_errors import BadAnswer, OutcomeUnknown
from mooring.kube.client_tls import TlsContexts, connection_failed
from mooring.kube.identity import Identity, IdentitySource
from mooring.kube.transport import CONNECTIONS, IDLE_SECONDS, HttpTransport, Limits, Response, Timeouts
from mooring.late_certificates import aiohttp


class _Connector(aiohttp.TCPConnector):
    """A connector that also waits for connections that were closed before it, such as those of cancelled watches."""

    def __init__(self) -> None:
        super().__init__(limit=CONNECTIONS, keepalive_timeout=IDLE_SECONDS)
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


class AiohttpTransport(HttpTransport):
    """aiohttp with credentials, TLS, proxy and timeouts. Not thread-safe."""

    def __init__(
        self, access: Access, identities: IdentitySource, tls: TlsContexts, *, user_agent: str, timeouts: Timeouts
    ) -> None:
        super().__init__(access, identities, tls, user_agent=user_agent, timeouts=timeouts)
        self._session: aiohttp.ClientSession | None = None
        self._connector: _Connector | None = None

    async def close(self) -> None:
        """Close the connections, and return when they are closed."""
        if self._session is not None and self._connector is not None:
            await self._connector.close_all()
            await self._session.close()
        self._session = self._connector = None

    @contextlib.asynccontextmanager
    async def _open(
        self, method: str, target: str, identity: Identity, body: bytes | None, content_type: str, limits: Limits
    ) -> AsyncIterator[Response]:
        if self._session is None:
            self._connector = _Connector()
            # Cookies of a load balancer would pin the client to one server.
            self._session = aiohttp.ClientSession(connector=self._connector, cookie_jar=aiohttp.DummyCookieJar())
        with self._translated_errors():
            context = self._tls.context(identity)
            async with self._session.request(
                method,
                URL(self._access.server + target, encoded=True),
                data=body,
                headers=self._headers(identity, body, content_type),
                ssl=context if context is not None else True,
                server_hostname=self._access.tls_server_name or None,
                proxy=self._access.proxy or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    total=limits.total, sock_connect=self._timeouts.connect, sock_read=limits.idle
                ),
            ) as response:
                yield response

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
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
