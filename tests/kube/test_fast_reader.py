"""The fast reader gives the same responses as aiohttp, whatever the server does on the wire."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from mooring.kube import Access, BadAnswer, Client, ConnectionFailed, KubeError, OutcomeUnknown, Timeouts
from mooring.kube import fast_reader as module
from mooring.kube.client_tls import TlsContexts
from mooring.kube.fast_reader import FastReader
from mooring.kube.identity import FixedIdentity, Identity
from mooring.kube.transport import HttpTransport
from tests.kube.raw_server import ANSWERS, RawServer, Reply, ok
from tests.kube.server import CERTS, PODS, Api
from tests.waiting import PATIENCE, until

STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MORE: dict[str, list[bytes | float | None]] = {
    "until the end": [b"HTTP/1.1 200 OK\r\n\r\nwhat", 0.01, b" ever", None],
    "cut": [STREAM + b"5\r\nhello\r\n", None],
    "cut in the head": [b"HTTP/1.1 200 O", None],
    "cut in a body of known length": [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", None],
    "nothing": [None],
    "not HTTP": [b"SSH-2.0-OpenSSH\r\n\r\n"],
    "a bad chunk": [STREAM + b"zz\r\nhello\r\n", None],
    "gone": [ok(b'{"kind":"Status","message":"too old"}').replace(b"201 Created", b"410 Gone")],
    "an error without a length": [b"HTTP/1.1 500 Internal Server Error\r\n\r\nsorry", None],
}  # fmt: skip


@contextlib.asynccontextmanager
async def connected(
    reply: Reply, token: str = "Bearer t"
) -> AsyncIterator[tuple[RawServer, HttpTransport, FastReader]]:
    raw = RawServer(reply)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    access = Access(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/prefix")
    identities, tls, timeouts = FixedIdentity(Identity(token)), TlsContexts(access), Timeouts(connect=PATIENCE)
    http = HttpTransport(access, identities, tls, user_agent="test", timeouts=timeouts)
    reader = FastReader(access, identities, tls, http, user_agent="test", timeouts=timeouts)
    try:
        yield raw, http, reader
    finally:
        await reader.close()
        await http.close()
        server.close()
        for task in raw.tasks:
            task.cancel()
        await asyncio.sleep(0.01)


async def read(transport: HttpTransport | FastReader, *, idle: float = PATIENCE) -> bytes:
    async with transport.stream("/x?watch=1", idle=idle) as chunks:
        return b"".join([chunk async for chunk in chunks.iter_any()])


async def outcome(transport: HttpTransport | FastReader) -> object:
    """Return the body, or the type of the error and what the server said."""
    try:
        return await read(transport)
    except OutcomeUnknown as error:
        return type(error)
    except KubeError as error:
        return type(error), getattr(error, "status", 0), getattr(error, "retry_after", None), str(error)


@pytest.mark.parametrize("name", [*ANSWERS, *MORE])
async def test_same_responses_as_aiohttp(name: str) -> None:
    async with connected(lambda count: (ANSWERS | MORE)[name]) as (raw, http, reader):
        for _ in range(3):
            assert await outcome(reader) == await outcome(http)
            await asyncio.sleep(0.005)
    mine = [each for each in raw.requests if b"accept-encoding" not in each.lower()]
    assert len(mine) >= 3
    assert mine[0].startswith(b"GET /prefix/x?watch=1 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAuthorization: Bearer t\r\n" in mine[0]
    assert b"\r\nAccept: application/json\r\n" in mine[0]


def test_same_responses_as_aiohttp_on_uvloop() -> None:
    """The transports of uvloop are other classes, for TLS too."""
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        for name in (*ANSWERS, *MORE):
            await test_same_responses_as_aiohttp(name)
        async with Api(tls=True) as api:
            await test_a_new_certificate_gets_a_new_connection(api)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def test_another_protocol_is_an_error() -> None:
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nxx"
    async with connected(lambda count: [head, 3600.0]) as (_, _, reader):
        with pytest.raises(BadAnswer, match="not HTTP"):
            await read(reader)


async def test_parts_arrive_before_the_response_ends() -> None:
    async with connected(lambda count: [STREAM + b"5\r\nhello\r\n", 3600.0]) as (_, _, reader):
        async with reader.stream("/", idle=PATIENCE) as chunks:
            async for chunk in chunks.iter_any():
                assert chunk == b"hello"
                break
        await until(lambda: not reader._open)  # the connection is closed, because the response has not ended


async def test_connections_are_used_again() -> None:
    async with connected(lambda count: [ok(b"[]").replace(b"201 Created", b"200 OK")]) as (raw, _, reader):
        for _ in range(3):
            assert await read(reader) == b"[]"
        assert raw.connections == 1
        await asyncio.gather(*(read(reader) for _ in range(3)))
        assert raw.connections == 3


async def test_a_request_on_a_connection_that_the_server_closes_is_sent_again() -> None:
    answers = {1: [ok(b"a").replace(b"201 Created", b"200 OK")], 2: [None]}
    async with connected(lambda count: answers.get(count, answers[1])) as (raw, _, reader):
        assert [await read(reader), await read(reader)] == [b"a", b"a"]
        assert len(raw.requests) == 3
        assert raw.connections == 2


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    async with connected(lambda count: [ok(b"a").replace(b"201 Created", b"200 OK")]) as (_, _, reader):
        await read(reader)
        await until(lambda: not reader._open)
        assert not reader._idle


@pytest.mark.parametrize("parts", [[3600.0], [STREAM + b"5\r\nhello\r\n", 3600.0]])
async def test_silence_is_an_error(parts: list[bytes | float | None]) -> None:
    async with connected(lambda count: parts) as (_, _, reader):
        with pytest.raises(OutcomeUnknown, match=r"^http://127.0.0.1:\d+/prefix: no response: timed out$"):
            await read(reader, idle=0.05)
        assert not reader._idle


async def test_data_puts_the_deadline_off() -> None:
    parts: list[bytes | float | None] = [STREAM, *[0.2, b"1\r\nx\r\n"] * 5, b"0\r\n\r\n"]
    async with connected(lambda count: parts) as (_, _, reader):
        assert await read(reader, idle=0.6) == b"xxxxx"


async def test_a_reader_that_is_slow_stops_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_UNREAD", 1 << 20)
    sent = 0

    def reply(count: int) -> list[bytes | float | None]:
        return [STREAM, *[b"10000\r\n" + bytes(65536) + b"\r\n"] * 800, b"0\r\n\r\n"]

    async with connected(reply) as (_, _, reader), reader.stream("/", idle=0.1) as chunks:
        await asyncio.sleep(0.5)  # more than the limit, which does not hold while nothing is read
        (connection,) = reader._open
        assert 1 << 20 <= connection._unread <= 3 << 20
        async for chunk in chunks.iter_any():
            sent += len(chunk)
    assert sent == 800 * 65536


async def test_a_large_head_is_an_error() -> None:
    head = b"HTTP/1.1 200 OK\r\n" + b"X-Large: " + b"x" * 100_000
    async with connected(lambda count: [head, 3600.0]) as (_, _, reader):
        with pytest.raises(OutcomeUnknown, match="the head of the response is too large"):
            await read(reader)


async def test_a_large_error_is_shortened() -> None:
    body = b"x" * (2 << 20)
    answer = b"HTTP/1.1 500 Oh\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with connected(lambda count: [answer]) as (_, _, reader):
        with pytest.raises(KubeError) as caught:
            await read(reader)
        assert len(str(caught.value)) < 10_000


async def test_the_token_is_hidden_in_errors() -> None:
    answer = b"HTTP/1.1 500 Oh\r\nContent-Length: 24\r\n\r\nBearer secret-secret-000"
    async with connected(lambda count: [answer], token="Bearer secret-secret-000") as (_, _, reader):
        with pytest.raises(KubeError) as caught:
            await read(reader)
        assert "secret-secret" not in str(caught.value)


async def test_closing_fails_what_is_under_way() -> None:
    async with connected(lambda count: [STREAM + b"5\r\nhello\r\n", 3600.0]) as (raw, _, reader):
        task = asyncio.create_task(read(reader))
        await until(lambda: raw.requests)
        await asyncio.sleep(0.02)
        await reader.close()
        with pytest.raises(OutcomeUnknown):
            await task
        assert not reader._open


async def test_a_cancelled_request_closes_its_connection() -> None:
    async with connected(lambda count: [3600.0]) as (raw, _, reader):
        task = asyncio.create_task(read(reader))
        await until(lambda: raw.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not reader._open)


async def test_a_server_that_is_not_there_is_an_error() -> None:
    access = Access(server="http://127.0.0.1:1")
    async with Client(access) as client:
        assert isinstance(client._reader, FastReader)
        with pytest.raises(ConnectionFailed, match="cannot be reached"):
            await read(client._reader)


async def test_a_token_cannot_smuggle_headers_in() -> None:
    async with connected(lambda count: [ok()], token="Bearer a\nX-Evil: 1") as (raw, _, reader):
        with pytest.raises(KubeError, match="line break"):
            await read(reader)
        assert not raw.requests


async def test_a_new_certificate_gets_a_new_connection(tls_api: Api) -> None:
    pair = Identity("", (CERTS / "client.pem").read_bytes(), (CERTS / "client.key").read_bytes())
    shown: list[bool] = []
    tls_api.fault = lambda request: shown.append(bool(request.get_extra_info("peercert")))  # type: ignore[func-returns-value]
    access = Access(server=tls_api.url, ca=(CERTS / "ca.pem").read_bytes())

    class Rotating(FixedIdentity):
        def fresh(self) -> Identity:
            return pair if shown else Identity()

    identities, tls = Rotating(Identity()), TlsContexts(access)
    http = HttpTransport(access, identities, tls, user_agent="t", timeouts=Timeouts())
    reader = FastReader(access, identities, tls, http, user_agent="t", timeouts=Timeouts())
    for _ in range(3):
        async with reader.stream(PODS, idle=PATIENCE) as chunks:
            assert b"".join([chunk async for chunk in chunks.iter_any()])
    await reader.close()
    await http.close()
    assert shown == [False, True, True]


async def test_an_untrusted_server_is_an_error(tls_api: Api) -> None:
    async with Client(Access(server=tls_api.url)) as client:
        with pytest.raises(ConnectionFailed, match="untrusted certificate"):
            await read(client._reader)
