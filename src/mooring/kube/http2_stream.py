"""The state of a request on an HTTP/2 connection, and of a header block that arrives in several frames."""

import asyncio
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from mooring.kube.client_errors import OutcomeUnknown
from mooring.kube.http_connection import NotProcessed
from mooring.kube.transport import Answer

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
#: Makes a response without Python code.
_make_answer: Final[Callable[[tuple[int, Mapping[str, str], bytes]], Answer]] = functools.partial(tuple.__new__, Answer)


class Stream:
    """A request and its response."""

    __slots__ = (
        "answer", "body", "charged", "credit", "deadline", "frames", "headers", "number", "reads", "received", "rest",
        "status",
    )  # fmt: skip

    def __init__(self, number: int, answer: "asyncio.Future[Answer]", deadline: float, reads: int) -> None:
        self.number = number
        self.answer = answer
        self.deadline = deadline
        #: How often something had been received on the connection when the request was sent.
        self.reads = reads
        #: The frames that are not written yet, and the bytes of the body in them.
        self.frames = b""
        self.charged = 0
        #: The rest of the body, for which the server has no room yet.
        self.rest = b""
        #: The window for sending, without the initial window of the connection.
        self.credit = 0
        self.status = 0
        self.headers = NO_HEADERS
        self.body: bytes | bytearray = b""
        #: The bytes received, for flow control.
        self.received = 0

    def succeed(self, body: bytes) -> None:
        """End the request with a response that is a success, for which headers are not kept. Hot path."""
        if not self.answer.done():
            self.answer.set_result(_make_answer((self.status, NO_HEADERS, body)))

    def finish(self) -> None:
        """End the request with the response that was received."""
        if self.status < 300:
            self.succeed(bytes(self.body))
        elif not self.answer.done():
            self.answer.set_result(Answer(self.status, self.headers, bytes(self.body)))

    def end(self, problem: str, *, refused: bool = False) -> None:
        """End the request without a response. It may have been carried out unless refused or sent incompletely."""
        if not self.answer.done():
            harmless = (refused or self.frames or self.rest) and not self.status
            self.answer.set_exception(NotProcessed(problem) if harmless else OutcomeUnknown(problem))


class HeaderBlock:
    """A header block in several frames, of which the last has not been received."""

    def __init__(self, stream: int, flags: int) -> None:
        self.stream = stream
        self.flags = flags
        self.data = bytearray()
