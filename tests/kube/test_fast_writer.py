"""The fast writer gives the same answers as aiohttp, whatever the server does on the wire."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable

import pytest

from mooring.api import ObjectMeta, Pod
from mooring.kube import Access, Client, ConnectionFailed, KubeError, NotLeading, OutcomeUnknown, Priority, Timeouts
from mooring.kube.aiohttp_transport import AiohttpTransport
from mooring.kube.client_tls import TlsContexts
from mooring.kube.fast_writer import FastWriter
from mooring.kube.identity import FixedIdentity, Identity
from mooring.kube.transport import Answer
from tests.kube.server import CERTS, Api
from tests.waiting import PATIENCE, until

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
                length = int(head.lower().split(b"content-length:")[1].split()[0])
                self.requests.append(head + await reader.readexactly(length))
                for part in self.reply(len(self.requests)):
                    if part is None:
                        return
                    if isinstance(part, bytes):
                        writer.write(part)
                        await writer.drain()
                    else:
                        await asyncio.sleep(part)


@contextlib.asynccontextmanager
async def connected(reply: Reply, **options: int) -> AsyncIterator[tuple[RawServer, AiohttpTransport, FastWriter]]:
    raw = RawServer(reply)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    access = Access(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/prefix")
    identities, tls = FixedIdentity(Identity("Bearer t")), TlsContexts(access)
    timeouts = Timeouts(connect=PATIENCE)
    http = AiohttpTransport(access, identities, tls, user_agent="test", timeouts=timeouts)
    writer = FastWriter(access, identities, tls, http, user_agent="test", timeouts=timeouts, **options)
    try:
        yield raw, http, writer
    finally:
        await writer.close()
        await http.close()
        server.close()
        for task in raw.tasks:
            task.cancel()
        await asyncio.sleep(0.01)


async def ask(transport: AiohttpTransport | FastWriter, body: bytes = b"{}", timeout: float = PATIENCE) -> Answer:
    return await transport.request(
        "POST", "/x?y=1", body=body, content_type="application/json", timeout=timeout, priority=Priority.BIND
    )


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


def test_same_answers_as_aiohttp_on_uvloop() -> None:
    """The transports of uvloop are other classes, for TLS too."""
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        for name in ANSWERS:
            await test_same_answers_as_aiohttp(name)
        async with Api(tls=True) as api:
            await test_a_new_certificate_gets_new_connections(api)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("name", ANSWERS)
async def test_same_answers_as_aiohttp(name: str) -> None:
    async with connected(lambda count: ANSWERS[name]) as (raw, http, writer):
        for _ in range(3):
            expected, got = await ask(http), await ask(writer)
            assert (got.status, got.body) == (expected.status, expected.body)
            assert got.headers.get("retry-after") == expected.headers.get("retry-after")
            await asyncio.sleep(0.005)
    by_writer = [each for each in raw.requests if b"accept-encoding" not in each.lower()]
    assert len(by_writer) == 3
    assert by_writer[0].startswith(b"POST /prefix/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAuthorization: Bearer t\r\n" in by_writer[0]


@pytest.mark.parametrize(
    "parts",
    [
        [None],
        [b"HTTP/1.1 201 Cre", None],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", None],
        [b"SSH-2.0-OpenSSH\r\n\r\n"],
        [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nxx"],
        [3600.0],
    ],
)
async def test_no_proper_answer_means_the_outcome_is_unknown(parts: list[bytes | float | None]) -> None:
    async with connected(lambda count: parts if count == 1 else [ok()]) as (_, _, writer):
        with pytest.raises(OutcomeUnknown, match=r"http://127.0.0.1:\d+"):
            await ask(writer, timeout=0.3)
        # The next request gets a connection of its own.
        assert (await ask(writer)).status == 201


async def test_connections_are_kept_and_limited() -> None:
    async with connected(lambda count: [0.005, ok()], requests=4) as (raw, _, writer):
        answers = await asyncio.gather(*(ask(writer, str(index).encode()) for index in range(100)))
        assert {each.status for each in answers} == {201}
        assert raw.connections == 4
        assert len(raw.requests) == 100


async def test_answers_belong_to_their_requests() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A connection that its client aborts ends with an error if the answer was still on its way.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(int(head.split(b"Content-Length: ")[1]))
                await asyncio.sleep(rng.choice([0, 0.001, 0.003]))
                writer.write(ok(body))

    rng = random.Random(0)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    access = Access(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with Client(access) as client:
        writer = client._fast_writer
        assert isinstance(writer, FastWriter)

        async def one(index: int) -> None:
            text = str(index).encode()
            # All 500 share 64 connections, so the last one waits for the others: seconds on a busy machine.
            task = asyncio.create_task(ask(writer, text))
            if rng.random() < 0.3:
                # A request given up on takes its connection with it, so its answer goes to nobody else.
                await asyncio.sleep(0.001)
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                assert (await task).body == text

        await asyncio.gather(*(one(index) for index in range(500)))
    server.close()
    await asyncio.sleep(0.01)


async def test_the_important_get_a_free_connection_first() -> None:
    done: list[Priority] = []

    async def one(writer: FastWriter, priority: Priority) -> None:
        await writer.request("POST", "/", body=b"{}", content_type="x", timeout=PATIENCE, priority=priority)
        done.append(priority)

    async with connected(lambda count: [0.002, ok()], requests=1) as (_, _, writer):
        first = asyncio.create_task(one(writer, Priority.EVENT))
        await asyncio.sleep(0)
        order = [Priority.EVENT, Priority.STATUS, Priority.BIND] * 3
        await asyncio.gather(first, *(one(writer, priority) for priority in order))
    assert done == [Priority.EVENT, *sorted(order)]


async def test_waiting_for_a_connection_has_a_limit() -> None:
    async with connected(lambda count: [3600.0, ok()], requests=1) as (raw, _, writer):
        busy = asyncio.create_task(ask(writer, timeout=3600))
        await until(lambda: raw.requests)
        with pytest.raises(ConnectionFailed, match=r"no connection was free within 0\.1 s"):
            await ask(writer, timeout=0.1)
        busy.cancel()


async def test_a_connection_the_server_closed_while_idle_is_not_used() -> None:
    async with connected(lambda count: [ok(), 0.01, None]) as (raw, _, writer):
        for _ in range(5):
            assert (await ask(writer)).status == 201
            await until(lambda: not writer._open)
        assert raw.connections == 5


async def test_closing_fails_what_is_under_way() -> None:
    async with connected(lambda count: [3600.0]) as (raw, _, writer):
        task = asyncio.create_task(ask(writer))
        await until(lambda: raw.requests)
        await writer.close()
        with pytest.raises(OutcomeUnknown, match="the client was closed"):
            await task


async def test_a_token_cannot_smuggle_headers_in() -> None:
    access = Access(server="http://127.0.0.1:1")
    identities, tls = FixedIdentity(Identity("Bearer a\nX-Evil: 1")), TlsContexts(access)
    http = AiohttpTransport(access, identities, tls, user_agent="t", timeouts=Timeouts())
    writer = FastWriter(access, identities, tls, http, user_agent="t", timeouts=Timeouts())
    for _ in range(2):
        with pytest.raises(KubeError, match="line break"):
            await ask(writer)


async def test_a_new_certificate_gets_new_connections(tls_api: Api) -> None:
    pair = Identity("", (CERTS / "client.pem").read_bytes(), (CERTS / "client.key").read_bytes())
    shown: list[bool] = []
    tls_api.fault = lambda request: shown.append(bool(request.get_extra_info("peercert")))  # type: ignore[func-returns-value]
    access = Access(server=tls_api.url, ca=(CERTS / "ca.pem").read_bytes())

    class Rotating(FixedIdentity):
        def fresh(self) -> Identity:
            return pair if shown else Identity()

    identities, tls = Rotating(Identity()), TlsContexts(access)
    http = AiohttpTransport(access, identities, tls, user_agent="t", timeouts=Timeouts())
    writer = FastWriter(access, identities, tls, http, user_agent="t", timeouts=Timeouts())
    for _ in range(3):
        await ask(writer, b'{"metadata": {"name": "x"}}')
    await writer.close()
    await http.close()
    assert shown == [False, True, True]


async def test_who_may_write_is_asked_when_there_is_a_connection(api: Api) -> None:
    """Getting a connection may take long enough for the lease to run out."""
    asked: list[int] = []

    def may_write() -> bool:
        asked.append(len(api.requests))
        return len(asked) < 2

    async with Client(Access(server=api.url), may_write=may_write) as kube:
        with pytest.raises(NotLeading):
            await kube.bind(Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u")), "n")
    assert asked == [0, 0]
    assert api.requests == []
