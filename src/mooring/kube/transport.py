"""What all HTTP transports have in common: credentials, renewed once if the server rejects them, and the responses."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from mooring.kube.access import Access
from mooring.kube.binding_bodies import ACCEPTED, JSON, OBJECT_STARTS
from mooring.kube.client_errors import error_from_answer
from mooring.kube.client_tls import TlsContexts, rejected_certificate
from mooring.kube.identity import Identity, IdentitySource, proxy_identity
from mooring.kube.request_limits import Priority

#: The maximum number of connections for lists and watches. The fast writer has its own connections.
CONNECTIONS: Final = 128
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


class RequestObserver(Protocol):
    """What learns about the requests of a client, such as metrics."""

    def request_finished(
        self, method: str, status: int, seconds: float, *, limited: float | None, sent: int, received: int
    ) -> None:
        """Record a request with the sizes of its bodies; a status of 0 means that there was no response.

        ``limited`` is how many seconds it waited for the rate limit before; None if it is a watch.
        """
        ...

    def request_retried(self, method: str, status: int) -> None:
        """Record that a request is sent again after a status."""
        ...


class Chunks(Protocol):
    """The body of a streamed response."""

    def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the data as it arrives."""
        ...

    async def read(self) -> bytes:
        """Return the rest of the data."""
        ...


class Response(Protocol):
    """A response whose headers were received, and its body."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        ...

    @property
    def content(self) -> Chunks:
        """The body, as it arrives."""
        ...

    async def read(self) -> bytes:
        """Return the whole body."""
        ...


class Limits(NamedTuple):
    """The limits of a request in seconds: for all of it, and for each wait for data."""

    total: float | None = None
    idle: float | None = None


class HttpTransport(ABC):
    """A transport with credentials, TLS and timeouts. Not thread-safe."""

    def __init__(
        self, access: Access, identities: IdentitySource, tls: TlsContexts, *, user_agent: str, timeouts: Timeouts
    ) -> None:
        self._access = access
        self._identities = identities
        self._tls = tls
        self._timeouts = timeouts
        self._fixed = [("User-Agent", user_agent), ("Accept-Encoding", "identity"), *access.user.impersonation]
        #: The credentials of the proxy.
        self._proxy = proxy_identity(access.proxy)

    @abstractmethod
    def _open(
        self, method: str, target: str, identity: Identity, body: bytes | None, content_type: str, limits: Limits
    ) -> AbstractAsyncContextManager[Response]:
        """Send a request and receive the headers of the response. Raises KubeError, also while the body is read."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections, and return when they are closed."""

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
        limits = Limits(total=timeout)
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
        limits = Limits(idle=idle)
        for again in (True, False):
            identity = self._identities.fresh() or await self._identities.get()
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
        limits: Limits,
    ) -> Answer:
        async with self._open(method, target, identity, body, content_type, limits) as response:
            body = await response.read()
            if response.status >= 300 or not body.startswith(OBJECT_STARTS):
                body = self._proxy.hide(identity.hide(body))
            return Answer(response.status, _lower(response.headers), body)

    def _headers(self, identity: Identity, body: bytes | None, content_type: str) -> list[tuple[str, str]]:
        headers = [*self._fixed, ("Accept", ACCEPTED.get(content_type, JSON))]
        if identity.authorization:
            headers.append(("Authorization", identity.authorization))
        if body is not None:
            headers.append(("Content-Type", content_type))
        return headers


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
