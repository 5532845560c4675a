"""A server that sends responses as they are written down, and responses that clients must understand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

Reply = Callable[[int], list[bytes | float | None]]


class RawServer:
    """Answers each request with bytes as they are written down: a pause is a number, None closes the connection."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.requests: list[bytes] = []
        self.connections = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                _, _, length = head.lower().partition(b"content-length:")
                self.requests.append(head + await reader.readexactly(int(length.split()[0]) if length else 0))
                for part in self.reply(len(self.requests)):
                    if part is None:
                        return
                    if isinstance(part, bytes):
                        writer.write(part)
                        await writer.drain()
                    else:
                        await asyncio.sleep(part)


def ok(body: bytes = b"{}", head: bytes = b"") -> bytes:
    return b"HTTP/1.1 201 Created\r\n" + head + b"Content-Length: %d\r\n\r\n" % len(body) + body


ANSWERS: dict[str, list[bytes | float | None]] = {
    "plain": [ok(b'{"a":1}', b"X-Odd:  sp ace \r\n")],
    "empty": [ok(b"")],
    "no content": [b"HTTP/1.1 204 No Content\r\n\r\n"],
    "byte by byte": [bytes([each]) for each in ok(b'{"a": "bcd"}')],
    "chunked": [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        0.01,
        b"6\r\n world\r\n0\r\n\r\n",
    ],
    "big": [ok(b"x" * 300_000)],
    "interim": [b"HTTP/1.1 100 Continue\r\n\r\n", 0.01, ok(b"after")],
    "interim at once": [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok(b"after")],
    "error": [b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}"],
    "throttled": [b"HTTP/1.1 429 Slow Down\r\nRETRY-AFTER:  3 \r\nContent-Length: 2\r\n\r\n{}"],
    "closes": [ok(b"bye", b"Connection: close\r\n"), None],
    "closes unannounced": [ok(b"bye"), None],
    "http 1.0": [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", None],
    "redirect": [b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"],
    "rejected": [b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"],
}
