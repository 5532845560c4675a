"""A scripted HTTP/2 server on TLS: what it sends is written down frame by frame, right or wrong.

It shares no code with the client; header blocks are encoded by the package hpack.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple

import hpack

from mooring.kube import Access, Priority, Timeouts
from mooring.kube.aiohttp_transport import AiohttpTransport
from mooring.kube.client_tls import TlsContexts
from mooring.kube.fast_writer import FastWriter
from mooring.kube.identity import FixedIdentity, Identity
from mooring.kube.transport import Answer
from tests.kube.server import CERTS, server_context
from tests.waiting import PATIENCE

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ACK = END_STREAM = 0x1
END_HEADERS, PADDED, HAS_PRIORITY = 0x4, 0x8, 0x20
TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, WINDOW, FRAME_SIZE = 1, 2, 3, 4, 5
CA: Final = (CERTS / "ca.pem").read_bytes()
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


class Request(NamedTuple):
    stream: int
    fields: dict[str, str]
    body: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def settings(*values: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *each) for each in values))


def block(status: int | str, *fields: tuple[str, str], huffman: bool = True) -> bytes:
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    encoded: bytes = encoder.encode([(":status", str(status)), *fields], huffman=huffman)
    return encoded


def headers(stream: int, status: int, *fields: tuple[str, str], end: bool = False) -> bytes:
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block(status, *fields))


def data(stream: int, body: bytes = b"", *, end: bool = True) -> bytes:
    return frame(DATA, END_STREAM if end else 0, stream, body)


def ok(stream: int, body: bytes = b"{}") -> bytes:
    return headers(stream, 201) + data(stream, body)


def reset(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def goaway(last: int, code: int = 0) -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", last, code))


def window(stream: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size))


class Frames:
    """Splits what a client sends into frames."""

    def __init__(self) -> None:
        self.data = b""

    def feed(self, data: bytes) -> list[Frame]:
        self.data += data
        found = []
        while len(self.data) >= 9:
            head, flags, stream = struct.unpack_from(">IBI", self.data)
            if len(self.data) < 9 + (head >> 8):
                break
            found.append(Frame(head & 0xFF, flags, stream, self.data[9 : 9 + (head >> 8)]))
            self.data = self.data[9 + (head >> 8) :]
        return found


class Peer:
    """One connection of a client, which has selected HTTP/2."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        #: All frames that were received.
        self.frames: list[Frame] = []
        self.decoder = hpack.Decoder()
        self._bodies: dict[int, bytes] = {}
        self._fields: dict[int, dict[str, str]] = {}

    async def start(self, *values: tuple[int, int]) -> None:
        """Read the preface and send settings."""
        assert await self.reader.readexactly(len(PREFACE)) == PREFACE
        self.send(settings(*values))

    async def frame(self) -> Frame:
        """Read a frame."""
        head, flags, stream = struct.unpack(">IBI", await self.reader.readexactly(9))
        found = Frame(head & 0xFF, flags, stream, await self.reader.readexactly(head >> 8))
        self.frames.append(found)
        return found

    async def until(self, kind: int) -> Frame:
        """Read frames up to one of a kind."""
        while (found := await self.frame()).kind != kind:
            pass
        return found

    async def request(self) -> Request:
        """Read frames until a request is complete."""
        while True:
            kind, flags, stream, payload = await self.frame()
            if kind in {HEADERS, CONTINUATION}:
                self._bodies.setdefault(stream, b"")
                self._fields[stream] = {**self._fields.get(stream, {}), **dict(self.decoder.decode(payload))}
            elif kind == DATA:
                self._bodies[stream] += payload
            if kind in {HEADERS, DATA} and flags & END_STREAM:
                return Request(stream, self._fields[stream], self._bodies[stream])

    def send(self, *frames: bytes) -> None:
        """Send frames."""
        self.writer.write(b"".join(frames))

    async def ended(self) -> None:
        """Read until the client closes the connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self.frame()


Script = Callable[[Peer, int], Awaitable[None]]
#: The parts of a response on a stream: a pause is a number, None closes the connection.
Reply = Callable[[int], list[bytes | float | None]]


class Http2Server:
    """Runs a script for each connection with HTTP/2, which is given the number of the connection, from 1."""

    def __init__(self, script: Script, *, protocols: tuple[str, ...] = ("h2", "http/1.1"), http1: bytes = b"") -> None:
        self.script = script
        self.protocols = protocols
        #: The response to each request with HTTP/1.1.
        self.http1 = http1
        self.peers: list[Peer] = []
        #: The protocol of each connection.
        self.selected: list[str | None] = []
        self.requests: list[Request] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []

    async def __aenter__(self) -> Http2Server:
        context = server_context()
        context.set_alpn_protocols(list(self.protocols))
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for error in self._errors:
            raise error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        selected = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        self.selected.append(selected)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                if selected == "h2":
                    self.peers.append(Peer(reader, writer))
                    await self.script(self.peers[-1], len(self.peers))
                else:
                    await self._serve_http1(reader, writer)
        except Exception as error:
            self._errors.append(error)
        finally:
            writer.close()

    async def _serve_http1(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(head.lower().split(b"content-length:")[1].split()[0]))
            self.requests.append(Request(0, {}, body))
            writer.write(self.http1)


@contextlib.asynccontextmanager
async def connected(
    script: Script,
    *,
    protocols: tuple[str, ...] = ("h2", "http/1.1"),
    http1: bytes = b"",
    connect: float = PATIENCE,
    **options: Any,
) -> AsyncIterator[tuple[Http2Server, AiohttpTransport, FastWriter]]:
    async with Http2Server(script, protocols=protocols, http1=http1) as server:
        access = Access(server=f"{server.url}/prefix", ca=CA)
        identities, tls = FixedIdentity(Identity("Bearer sesame")), TlsContexts(access)
        timeouts = Timeouts(connect=connect)
        http = AiohttpTransport(access, identities, tls, user_agent="test", timeouts=timeouts)
        writer = FastWriter(access, identities, tls, http, user_agent="test", timeouts=timeouts, **options)
        try:
            yield server, http, writer
        finally:
            await writer.close()
            await http.close()


async def ask(transport: AiohttpTransport | FastWriter, body: bytes = b"{}", timeout: float = PATIENCE) -> Answer:
    return await transport.request(
        "POST", "/x?y=1", body=body, content_type="application/json", timeout=timeout, priority=Priority.BIND
    )


def replying(reply: Reply, *values: tuple[int, int]) -> Script:
    """A script that answers each request with the same frames."""

    async def script(peer: Peer, number: int) -> None:
        await peer.start(*values)
        while True:
            request = await peer.request()
            for part in reply(request.stream):
                if part is None:
                    return
                if isinstance(part, bytes):
                    peer.send(part)
                    await peer.writer.drain()
                else:
                    await asyncio.sleep(part)

    return script


def http1(status: str, body: bytes = b"", head: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def split(blocks: bytes, stream: int, *, end: bool = False) -> bytes:
    """A header block, of which each byte has its own frame."""
    parts = [blocks[each : each + 1] for each in range(len(blocks))]
    frames = [frame(HEADERS, END_STREAM if end else 0, stream, parts[0])]
    frames += [frame(CONTINUATION, 0, stream, part) for part in parts[1:]]
    return b"".join([*frames, frame(CONTINUATION, END_HEADERS, stream)])


def padded(kind: int, flags: int, stream: int, payload: bytes, *, priority: bool = False) -> bytes:
    dependency = bytes([128, 0, 0, 1, 7]) if priority else b""
    flags |= PADDED | (HAS_PRIORITY if priority else 0)
    return frame(kind, flags, stream, b"\x05" + dependency + payload + bytes(5))
