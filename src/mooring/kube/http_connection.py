"""A persistent connection to a server: what HTTP/1.1 and HTTP/2 have in common for the fast writer."""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, NamedTuple, cast
from urllib.parse import urlsplit

from mooring.kube.access import Access
from mooring.kube.client_errors import ConnectionFailed
from mooring.kube.transport import Answer

#: Name and value of a header.
Field = tuple[str, str]
TIMED_OUT: Final = "timed out waiting for a response"


class NotProcessed(Exception):
    """The server has certainly not carried out the request, so that it can be sent again."""


class ServerAddress(NamedTuple):
    """The address of a server: where to connect, the name in its certificate, and what requests begin with."""

    host: str
    port: int
    server_name: str
    authority: str
    prefix: str

    @classmethod
    def of(cls, access: Access) -> "ServerAddress":
        """Return the address of the server of an access."""
        parts = urlsplit(access.server)
        host = parts.hostname or ""
        return cls(
            host=host,
            port=parts.port or (443 if parts.scheme == "https" else 80),
            server_name=access.tls_server_name or host,
            authority=parts.netloc.rpartition("@")[2],
            prefix=parts.path,
        )


def check_headers(fields: Iterable[Field]) -> None:
    """Raise ConnectionFailed for a value that would add headers."""
    if any("\n" in value or "\r" in value for _, value in fields):
        raise ConnectionFailed("a header contains a line break; check the token")


class Head(NamedTuple):
    """The bytes of a request that are the same for all paths and bodies: those before and after the path."""

    before: bytes
    after: bytes


class Connection(asyncio.Protocol, ABC):
    """A persistent connection. The future of a request ends with a response, OutcomeUnknown or NotProcessed."""

    __slots__ = ("_on_lost", "_transport", "closing", "context", "idle_since", "listed", "loop")

    #: The version of HTTP.
    version: ClassVar[str]

    def __init__(self, context: ssl.SSLContext | None, on_lost: "Callable[[Connection], None]") -> None:
        #: Kept, because to ask for it is a system call.
        self.loop = asyncio.get_running_loop()
        self.context = context
        #: Whether it takes no more requests. Those under way may still be answered.
        self.closing = False
        #: Since when there is no request under way. Updated by `check`.
        self.idle_since = self.loop.time()
        #: Whether it is in the pool's list of connections that may take requests.
        self.listed = False
        self._on_lost = on_lost
        self._transport: asyncio.WriteTransport | None = None

    @staticmethod
    @abstractmethod
    def head(method: str, authority: str, fields: Sequence[Field]) -> Head:
        """Encode the method and the headers of requests."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """The number of requests that can be sent now. Not positive if there is none."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether a request is under way."""

    @abstractmethod
    def send(self, head: Head, path: str, body: bytes, deadline: float) -> "asyncio.Future[Answer]":
        """Send a request. Call it only if there is capacity."""

    @abstractmethod
    def cancel(self, answer: "asyncio.Future[Answer]") -> None:
        """Give up a request: its response is not wanted any more."""

    @abstractmethod
    def fail(self, problem: str) -> None:
        """End all requests under way, because the connection is lost."""

    @abstractmethod
    def check_deadlines(self, now: float) -> None:
        """End the requests that are overdue."""

    async def established(self) -> None:
        """Wait until requests can be sent. Raises OSError if the connection is lost before."""

    def check(self, now: float, idle_seconds: float) -> None:
        """End overdue requests, and close the connection if it has been idle for some time. Call it regularly."""
        if self.busy:
            self.idle_since = now
            self.check_deadlines(now)
        elif now - self.idle_since > idle_seconds:
            self.close()

    def abort(self, problem: str) -> None:
        """Close the connection at once. The requests under way end."""
        self.closing = True
        self.fail(problem)
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Take no more requests, and close the connection as soon as there is none under way."""
        self.closing = True
        if self._transport is not None and not self.busy:
            self._transport.close()

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's TLS transports do not derive from it

    def eof_received(self) -> None:
        """Take no more requests from here on, although the connection closes only in the next loop iteration."""
        self.closing = True

    def connection_lost(self, exc: Exception | None) -> None:
        """End the requests under way."""
        self.closing = True
        self.fail(f"the connection was closed before a response{f': {exc}' if exc else ''}")
        self._on_lost(self)
