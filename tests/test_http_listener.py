"""Limits on the connections of HTTP servers."""

import asyncio
import contextlib
import errno
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from mooring import http_listener
from mooring.http_listener import ConnectionLimits, Listener
from tests.live.endpoints.serving import trusting_context
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE, until

CERTS = Path(__file__).parent / "kube" / "certs"
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
#: Nothing ends within a test.
PATIENT = ConnectionLimits(check_seconds=0.02)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Server:
    """A listener whose server answers ``ok`` once it has read the body."""

    def __init__(self, limits: ConnectionLimits, *, tls: bool) -> None:
        self.tls = tls
        self._opened: list[asyncio.StreamWriter] = []
        context = None
        if tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(CERTS / "server.pem", CERTS / "server.key")
        self.server = web.Server(self.handle)
        self.listener = Listener(web.ServerRunner(self.server, shutdown_timeout=0.1), limits, tls=context)
        self.port = 0
        self.accepted = 0
        self.release = asyncio.Event()
        open_connection = self.listener._open

        def count(*given: Any) -> None:
            self.accepted += 1
            open_connection(*given)

        self.listener._open = count  # type: ignore[method-assign]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        if request.path == "/large":
            return web.Response(body=bytes(20_000_000))
        if request.path == "/watch":
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first\n")
            await self.release.wait()
            await response.write(b"last\n")
            return response
        return web.Response(text="ok")

    async def connect(self, *, tls: bool | None = None) -> Streams:
        context = None
        if self.tls if tls is None else tls:
            context = trusting_context()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        self._opened.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self._opened:
            writer.transport.abort()
        await self.listener.stop()

    async def until(self, connections: int) -> None:
        """Wait for a number of connections, with as many transports."""
        await until(lambda: len(self.listener) == connections and len(self.server.connections) <= connections)

    async def until_cut_off(self) -> None:
        """Wait until a connection was accepted and is gone. On a busy machine both happen between two looks."""
        await until(lambda: self.accepted)
        await self.until(0)


@pytest.fixture(params=[False, True], ids=["http", "https"])
async def serve(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    started: list[Server] = []

    async def start(**changes: Any) -> Server:
        server = Server(msgspec.structs.replace(PATIENT, **changes), tls=request.param)
        server.port = await server.listener.start("127.0.0.1", 0)
        started.append(server)
        return server

    yield start
    for server in started:
        await server.close()


async def ask(streams: Streams, request: bytes = REQUEST) -> bytes:
    reader, writer = streams
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    return await reader.readexactly(2)


async def ended(streams: Streams) -> None:
    """Wait for the server to close a connection."""
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(ConnectionError):
            while await streams[0].read(65536):
                pass


async def test_idle_connections_end_and_leave_nothing_behind(serve):
    server = await serve(idle_seconds=0.5, header_seconds=60.0)
    opened = []
    for _ in range(20):
        opened.append(await server.connect())
        assert await ask(opened[-1]) == b"ok"
    for each in opened:
        await ended(each)
    await server.until(0)
    gc.collect()
    transports = [each for each in gc.get_objects() if type(each) is http_listener._Connection]
    assert transports == []


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        pytest.param({"header_seconds": 0.05}, [b""], id="nothing"),
        pytest.param({"header_seconds": 0.05}, [b"GET / HT"], id="half a line"),
        pytest.param({"header_seconds": 0.05}, [b"GET / HTTP/1.1\r\nHost: x\r\n"], id="half the headers"),
        pytest.param({"header_seconds": 1.5}, [REQUEST, b"GET / HT"], id="half the headers of the second request"),
        pytest.param(
            {"body_seconds": 0.05}, [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"], id="half a body"
        ),
        pytest.param(
            {"body_seconds": 0.05},
            [b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"],
            id="half a chunked body",
        ),
        # asyncio's TLS counts the response as sent, so that the connection is idle.
        pytest.param(
            {"stalled_seconds": 0.05, "idle_seconds": 0.3},
            [b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"],
            id="unread response",
        ),
    ],
)
async def test_slow_clients_are_cut_off(serve, limits, sent, monkeypatch):
    monkeypatch.setattr(http_listener, "_TLS_CLOSE_SECONDS", 0.05)
    server = await serve(**limits)
    streams = await server.connect()
    for each in sent[:-1]:
        assert await ask(streams, each) == b"ok"
    streams[1].write(sent[-1])
    await server.until_cut_off()


async def test_headers_sent_byte_by_byte_are_cut_off(serve):
    server = await serve(header_seconds=0.1)
    _, writer = await server.connect()
    await until(lambda: server.accepted)
    async with asyncio.timeout(PATIENCE):
        while len(server.listener):
            if not writer.transport.is_closing():
                writer.write(b"x")
            await asyncio.sleep(0.005)


async def test_a_tls_handshake_that_is_not_finished_is_cut_off(serve):
    server = await serve(handshake_seconds=0.05, header_seconds=0.05)
    streams = await server.connect(tls=False)
    await ended(streams)
    await server.until_cut_off()


async def test_a_failed_handshake_frees_its_place(serve):
    server = await serve(handshake_seconds=60.0, header_seconds=60.0)
    _, writer = await server.connect(tls=False)
    writer.write(b"\x16\x03\x01nonsense\r\n\r\n")
    await server.until_cut_off()


async def test_long_responses_are_not_cut_off(serve):
    server = await serve(idle_seconds=1.0, header_seconds=1.0, body_seconds=0.05, stalled_seconds=0.05)
    reader, writer = await server.connect()
    writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"first\n")
    other = await server.connect()  # ends, which shows that the time is over
    await ended(other)
    await ended(await server.connect())
    server.release.set()
    async with asyncio.timeout(PATIENCE):
        await reader.readuntil(b"last\n")


async def test_a_full_server_serves_those_who_are_connected_and_refuses_others(serve):
    server = await serve(connections=3)
    first = [await server.connect() for _ in range(3)]
    for each in first:
        assert await ask(each) == b"ok"
    with capture_logs() as logs:
        for _ in range(5):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await ask(await server.connect())
    assert [each["event"] for each in logs] == ["Refused connections over the limit"]
    for each in first:
        assert await ask(each) == b"ok"
    first[0][1].close()
    await server.until(2)
    assert await ask(await server.connect()) == b"ok"


async def test_clients_that_only_connect_do_not_lock_out_others(serve):
    server = await serve(connections=5)
    used = await server.connect()
    assert await ask(used) == b"ok"
    unused = [await server.connect(tls=False) for _ in range(12)]
    assert await ask(await server.connect()) == b"ok"
    assert await ask(used) == b"ok"
    for each in unused[:9]:
        await ended(each)
    await server.until(5)


async def test_one_client_cannot_take_all_connections(serve, monkeypatch):
    monkeypatch.setattr(http_listener, "_client", lambda address: "192.0.2.1")
    server = await serve(connections_per_client=2)
    first = [await server.connect() for _ in range(2)]
    assert await ask(first[0]) == b"ok"
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await ask(await server.connect())
    monkeypatch.setattr(http_listener, "_client", lambda address: "192.0.2.2")
    assert await ask(await server.connect()) == b"ok"
    first[0][1].close()
    await server.until(2)
    monkeypatch.setattr(http_listener, "_client", lambda address: "192.0.2.1")
    assert await ask(await server.connect()) == b"ok"


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("127.0.0.1", ""),
        ("::1", ""),
        ("::ffff:127.0.0.1", ""),
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_the_client_of_an_address(address, client):
    assert http_listener._client(address) == client


async def test_accepting_continues_after_the_system_ran_out_of_files(serve, monkeypatch):
    monkeypatch.setattr(http_listener, "_ACCEPT_RETRY_SECONDS", 0.01)
    server = await serve()
    (listening,) = server.listener._sockets

    def accept() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    server.listener._accept(cast(Any, SimpleNamespace(accept=accept, fileno=listening.fileno)))
    server.listener._loop.call_later(0.01, server.listener._accept_again, listening)
    assert await ask(await server.connect()) == b"ok"


async def test_all_addresses_of_a_name_have_the_same_port(serve):
    server = await serve()
    other = Server(PATIENT, tls=False)
    port = await other.listener.start("localhost", 0)
    try:
        assert {each.getsockname()[1] for each in other.listener._sockets} == {port}
        with pytest.raises(OSError, match="in use"), contextlib.closing(socket.socket()) as third:
            third.bind(("127.0.0.1", server.port))
    finally:
        await other.close()
