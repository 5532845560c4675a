"""A connection that speaks HTTP/1.1, for small requests and responses: one request at a time.

Hand-written because it takes a fifth of the CPU time of aiohttp. httptools parses the responses.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Sequence

import httptools

from mooring.kube.client_errors import OutcomeUnknown
from mooring.kube.http_connection import TIMED_OUT, Connection, Field, Head
from mooring.kube.transport import Answer


class Http1Connection(Connection):
    """A connection with at most one request at a time."""

    __slots__ = ("_answer", "_body", "_deadline", "_parser", "_received")

    version = "1.1"

    def __init__(self, context: ssl.SSLContext | None, on_lost: Callable[[Connection], None]) -> None:
        super().__init__(context, on_lost)
        self._answer: asyncio.Future[Answer] | None = None
        self._deadline = 0.0
        self._parser = httptools.HttpResponseParser(self)
        #: What was received since the request was sent, and the body of the response.
        self._received: list[bytes] = []
        self._body: list[bytes] = []

    @staticmethod
    def head(method: str, authority: str, fields: Sequence[Field]) -> Head:
        """Encode the method and the headers of requests."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in (("Host", authority), *fields))
        return Head(f"{method} ".encode(), f" HTTP/1.1\r\n{lines}Content-Length: ".encode("latin-1"))

    @property
    def capacity(self) -> int:
        """One if no request is under way."""
        return 0 if self.closing or self._answer is not None else 1

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._answer is not None

    def send(self, head: Head, path: str, body: bytes, deadline: float) -> "asyncio.Future[Answer]":
        """Write a request and return a future for the response."""
        self._answer = self.loop.create_future()
        self._deadline = deadline
        self._received.clear()
        self._body.clear()
        assert self._transport is not None
        target = path.encode("latin-1")
        self._transport.write(b"%b%b%b%d\r\n\r\n%b" % (head.before, target, head.after, len(body), body))
        return self._answer

    def cancel(self, answer: "asyncio.Future[Answer]") -> None:
        """Close the connection: the response of the request would come before those of others."""
        if answer is self._answer:
            self.abort("cancelled")

    def fail(self, problem: str) -> None:
        """Fail the pending request, if any."""
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(OutcomeUnknown(problem))

    def check_deadlines(self, now: float) -> None:
        """Close the connection if its request is overdue."""
        if now >= self._deadline:
            self.abort(TIMED_OUT)

    # Callbacks of asyncio

    def data_received(self, data: bytes) -> None:
        """Parse a part of a response."""
        if self._answer is None:
            # A server sends data on an idle connection only before closing it.
            self.close()
            return
        self._received.append(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.abort(f"the response is not HTTP: {error}")

    # Callbacks of httptools

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """End the request with its response."""
        parser, answer = self._parser, self._answer
        if answer is None:
            return
        status = parser.get_status_code()
        if status < 200:
            # An interim response (100 Continue): the final one follows on the same connection.
            self._body.clear()
            return
        self._answer = None
        if not parser.should_keep_alive():
            self.close()
        if not answer.done():
            # The headers of a successful response are not used, and a call for each of them takes time.
            headers = {} if status < 300 else _HeaderParser().read(self._received)
            answer.set_result(Answer(status, headers, b"".join(self._body)))


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
