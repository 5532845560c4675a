"""The HTTP transport without aiohttp: lists, watches and other requests that the fast writer does not send.

It speaks HTTP/1.1, and connects only without a proxy. `AiohttpTransport` is the reference implementation, and tests
require the same results of both.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Final

from mooring.kube.access import Access
from mooring.kube.client_errors import BadAnswer, OutcomeUnknown
from mooring.kube.client_tls import TlsContexts, connection_failed
from mooring.kube.http1_stream import BrokenResponse, Disconnected, Http1Stream, InvalidResponse, StreamedResponse
from mooring.kube.http_connection import ServerAddress, check_headers
from mooring.kube.identity import Identity, IdentitySource
from mooring.kube.transport import CONNECTIONS, IDLE_SECONDS, HttpTransport, Limits, Response, Timeouts

#: The methods of requests that can be sent again if the server closes an idle connection meanwhile.
_REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})


class Http1Transport(HttpTransport):
    """Connections that are kept and used again, with credentials, TLS and timeouts. Not thread-safe."""

    def __init__(
        self, access: Access, identities: IdentitySource, tls: TlsContexts, *, user_agent: str, timeouts: Timeouts
    ) -> None:
        super().__init__(access, identities, tls, user_agent=user_agent, timeouts=timeouts)
        self._address = ServerAddress.of(access)
        self._streams: set[Http1Stream] = set()
        #: The connections without a request.
        self._idle: list[Http1Stream] = []
        self._room = asyncio.Semaphore(CONNECTIONS)

    async def close(self) -> None:
        """Close the connections, and return when they are closed."""
        streams = list(self._streams)
        for each in streams:
            each.abort()
        await asyncio.gather(*(each.closed for each in streams))

    @contextlib.asynccontextmanager
    async def _open(
        self, method: str, target: str, identity: Identity, body: bytes | None, content_type: str, limits: Limits
    ) -> AsyncIterator[Response]:
        request = self._encoded(method, target, identity, body, content_type)
        server = self._access.server
        try:
            async with asyncio.timeout(limits.total), self._room:
                context = self._tls.context(identity)
                stream, response = await self._exchange(context, request, limits.idle, again=method in _REPEATABLE)
                try:
                    yield response
                finally:
                    self._give_back(stream, response)
        except BrokenResponse as error:
            raise OutcomeUnknown(f"{server}: no response: {error}") from None
        except TimeoutError:
            raise OutcomeUnknown(f"{server}: no response: timed out") from None
        except InvalidResponse as error:
            raise BadAnswer(f"{server}: {error}") from None

    def _encoded(self, method: str, target: str, identity: Identity, body: bytes | None, content_type: str) -> bytes:
        headers = [("Host", self._address.authority), *self._headers(identity, body, content_type)]
        check_headers(headers)
        if body is not None or method != "GET":
            headers.append(("Content-Length", str(len(body or b""))))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        return f"{method} {self._address.prefix}{target} HTTP/1.1\r\n{lines}\r\n".encode() + (body or b"")

    async def _exchange(
        self, context: ssl.SSLContext | None, request: bytes, idle: float | None, *, again: bool
    ) -> tuple[Http1Stream, StreamedResponse]:
        """Send a request and wait for the headers of the response."""
        while True:
            kept = self._kept(context)
            stream = kept or await self._connect(context)
            response = stream.send(request, idle)
            try:
                await response.head()
            except BaseException as error:
                stream.abort()
                stale = kept is not None and isinstance(error, Disconnected) and not response.begun
                if not (again and stale):
                    raise
            else:
                return stream, response

    def _kept(self, context: ssl.SSLContext | None) -> Http1Stream | None:
        """Return a connection without a request; None if there is none."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            stream = self._idle.pop()
            if stream.closing:
                continue
            if stream.context is context and now - stream.idle_since < IDLE_SECONDS:
                return stream
            stream.abort()  # the certificates have been replaced, or the server may close it at any time
        return None

    def _give_back(self, stream: Http1Stream, response: StreamedResponse) -> None:
        """Keep a connection, unless the response was not read to its end."""
        if response.ended and not stream.closing:
            stream.idle_since = asyncio.get_running_loop().time()
            self._idle.append(stream)
        else:
            stream.abort()

    async def _connect(self, context: ssl.SSLContext | None) -> Http1Stream:
        address = self._address
        try:
            async with asyncio.timeout(self._timeouts.connect):
                _, stream = await asyncio.get_running_loop().create_connection(
                    lambda: Http1Stream(context, self._lost),
                    address.host,
                    address.port,
                    ssl=context,
                    server_hostname=address.server_name if context is not None else None,
                )
        except (OSError, TimeoutError) as error:
            raise connection_failed(self._access.server, error) from None
        if not stream.closed.done():
            self._streams.add(stream)
        return stream

    def _lost(self, stream: Http1Stream) -> None:
        self._streams.discard(stream)
        if stream in self._idle:
            self._idle.remove(stream)
