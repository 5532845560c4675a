"""The HTTP transport gives the same answers as aiohttp, whatever the server does on the wire."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.kube import Access, Client, ConnectionFailed, KubeError, OutcomeUnknown, Timeouts, User
from mooring.kube.aiohttp_transport import AiohttpTransport
from mooring.kube.client_errors import BadAnswer
from mooring.kube.client_tls import TlsContexts
from mooring.kube.http1_transport import Http1Transport
from mooring.kube.identity import FixedIdentity, Identity, identity_source
from mooring.kube.transport import Answer, HttpTransport
from tests.kube.server import CERTS, PODS, Api
from tests.kube.test_fast_writer import ANSWERS, RawServer, Reply, ok
from tests.waiting import PATIENCE, until

TRANSPORTS = (AiohttpTransport, Http1Transport)
REPLIES: dict[str, list[bytes | float | None]] = {
    **ANSWERS,
    "no length": [b"HTTP/1.1 200 OK\r\n\r\nall", 0.01, b" of it", None],
    "two answers": [ok(b"one") + ok(b"two")],
}
BROKEN: dict[str, list[bytes | float | None]] = {
    "none": [None],
    "half a head": [b"HTTP/1.1 201 Cre", None],
    "half a body": [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", None],
    "half a chunk": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", None],
    "no end of chunks": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", None],
    "late": [3600.0],
}


@contextlib.asynccontextmanager
async def connected(reply: Reply, *, token: str = "Bearer t") -> AsyncIterator[tuple[RawServer, dict[type, Any]]]:
    raw = RawServer(reply)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    access = Access(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/prefix")
    identities, tls = FixedIdentity(Identity(token)), TlsContexts(access)
    made = {
        kind: kind(access, identities, tls, user_agent="test", timeouts=Timeouts(connect=PATIENCE))
        for kind in TRANSPORTS
    }
    try:
        yield raw, made
    finally:
        for each in made.values():
            await each.close()
        server.close()
        for task in raw.tasks:
            task.cancel()
        await asyncio.sleep(0.01)


async def ask(transport: HttpTransport, method: str = "POST", timeout: float = PATIENCE) -> Answer:
    return await transport.request(method, "/x?y=1", body=b"{}", timeout=timeout)


@pytest.mark.parametrize("name", REPLIES)
async def test_same_answers_as_aiohttp(name: str) -> None:
    async with connected(lambda count: REPLIES[name]) as (raw, transports):
        for _ in range(3):
            expected, got = [await ask(transports[kind]) for kind in TRANSPORTS]
            assert got == expected
            await asyncio.sleep(0.005)
    theirs, ours = (sorted(each.lower().split(b"\r\n")) for each in raw.requests[:2])
    assert [each for each in ours if not each.startswith(b"host:")] == [
        each for each in theirs if not each.startswith(b"host:")
    ]
    assert raw.requests[1].startswith(b"POST /prefix/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:")


def test_same_answers_as_aiohttp_on_uvloop() -> None:
    """The transports of uvloop are other classes, for TLS too."""
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        for name in REPLIES:
            await test_same_answers_as_aiohttp(name)
        async with Api(tls=True) as api:
            await test_a_list_and_a_watch_over_tls(api)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_without_a_complete_answer_the_outcome_is_unknown(kind: type[HttpTransport], name: str) -> None:
    async with connected(lambda count: BROKEN[name] if count == 1 else [ok()]) as (raw, transports):
        with pytest.raises(OutcomeUnknown, match=r"http://127.0.0.1:\d+/prefix: no response: "):
            await ask(transports[kind], timeout=0.3)
        assert len(raw.requests) == 1
        # The next request gets a connection of its own.
        assert (await ask(transports[kind])).status == 201


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nxx", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "more than 64 KiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx", "encoded as 'gzip'"),
    ],
)
async def test_what_is_not_http_is_an_error(reply: bytes, problem: str) -> None:
    async with connected(lambda count: [reply, 3600.0]) as (_, transports):
        with pytest.raises(BadAnswer, match=problem):
            await ask(transports[Http1Transport])


@pytest.mark.parametrize(("method", "is_sent_again"), [("PUT", True), ("GET", True), ("POST", False)])
@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_a_request_on_a_connection_that_was_closed_meanwhile(
    kind: type[HttpTransport], method: str, is_sent_again: bool
) -> None:
    # The connection is closed when its second request arrives.
    async with connected(lambda count: [None] if count == 2 else [ok()]) as (raw, transports):
        assert (await ask(transports[kind])).status == 201
        if is_sent_again:
            assert (await ask(transports[kind], method)).status == 201
            assert (raw.connections, len(raw.requests)) == (2, 3)
        else:
            with pytest.raises(OutcomeUnknown):
                await ask(transports[kind], method)
            assert len(raw.requests) == 2


@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_connections_are_used_again(kind: type[HttpTransport]) -> None:
    async with connected(lambda count: [0.005, ok()]) as (raw, transports):
        for _ in range(3):
            await ask(transports[kind])
        assert raw.connections == 1
        await asyncio.gather(*(ask(transports[kind]) for _ in range(4)))
        assert raw.connections == 4


async def test_a_connection_that_was_idle_for_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.kube.http1_transport.IDLE_SECONDS", 0.0)
    async with connected(lambda count: [ok()]) as (raw, transports):
        for _ in range(3):
            await ask(transports[Http1Transport])
        assert raw.connections == 3


async def test_a_token_cannot_smuggle_headers_in() -> None:
    async with connected(lambda count: [ok()], token="Bearer t\r\nX-Remote-User: admin") as (raw, transports):
        with pytest.raises(ConnectionFailed, match="line break"):
            await ask(transports[Http1Transport])
        assert raw.requests == []


@contextlib.asynccontextmanager
async def streaming(*parts: bytes | float) -> AsyncIterator[tuple[Http1Transport, list[int]]]:
    """A server that answers each request with a stream of parts; it tells how many it could write."""
    written: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                written.append(0)
                for part in parts:
                    if isinstance(part, bytes):
                        writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                        await writer.drain()
                        written[-1] += 1
                    else:
                        await asyncio.sleep(part)
                writer.write(b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    access = Access(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    made = Http1Transport(access, identity_source(access), TlsContexts(access), user_agent="t", timeouts=Timeouts())
    try:
        yield made, written
    finally:
        await made.close()
        server.close()


async def test_parts_are_passed_on_as_they_arrive() -> None:
    async with streaming(b"a", 0.05, b"b" * 70_000, 0.05, b"c") as (transport, _):
        async with transport.stream("/", idle=PATIENCE) as chunks:
            found = [chunk async for chunk in chunks.iter_any()]
        assert (found[0], found[-1], b"".join(found)) == (b"a", b"c", b"a" + b"b" * 70_000 + b"c")
        async with transport.stream("/", idle=PATIENCE) as chunks:
            assert await chunks.read() == b"".join(found)
        assert len(transport._streams) == 1


async def test_a_server_cannot_send_more_than_is_read() -> None:
    part = b"x" * (1 << 20)
    async with streaming(*[part] * 64) as (transport, written):
        async with transport.stream("/", idle=PATIENCE) as chunks:
            reading = chunks.iter_any()
            size = len(await anext(reading))
            await asyncio.sleep(0.1)
            assert written[0] < 32
            async for chunk in reading:
                size += len(chunk)
        assert (written[0], size) == (64, 64 << 20)


@pytest.mark.parametrize("whole", [True, False])
async def test_a_pause_between_two_parts_has_a_limit(whole: bool) -> None:
    async with streaming(b"a", 0.01, b"b", 3600.0) as (transport, _):

        async def read() -> None:
            async with transport.stream("/", idle=0.2) as chunks:
                if whole:
                    await chunks.read()
                async for _ in chunks.iter_any():
                    pass

        with pytest.raises(OutcomeUnknown, match="no response: timed out"):
            await read()
        await until(lambda: not transport._streams)


async def test_a_response_that_is_not_read_to_its_end_closes_its_connection() -> None:
    async with streaming(b"a", 0.05, b"b") as (transport, written):
        for _ in range(2):
            async with transport.stream("/", idle=PATIENCE) as chunks:
                assert await anext(chunks.iter_any()) == b"a"
            await until(lambda: not transport._streams)
        assert len(written) == 2


async def test_a_list_and_a_watch_over_tls(tls_api: Api) -> None:
    access = Access(server=tls_api.url, ca=(CERTS / "ca.pem").read_bytes(), user=User(token="t"))
    tls_api.put(f"{PODS}/p", {})
    async with Client(access) as client:
        assert isinstance(client._http, Http1Transport)
        async with client._http.stream(f"{PODS}?watch=1&timeoutSeconds=60&resourceVersion=100", idle=PATIENCE) as lines:
            assert b'"ADDED"' in await anext(lines.iter_any())
            assert b'"PodList"' in await client.call("GET", PODS)
    with pytest.raises(ConnectionFailed, match="untrusted certificate"):
        async with Client(Access(server=tls_api.url)) as client, client._http.stream(PODS, idle=PATIENCE):
            pass


async def test_all_connections_are_closed_with_the_client(tls_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    connect, sockets = loop.create_connection, []

    async def recorded(*arguments: Any, **options: Any) -> Any:
        made = await connect(*arguments, **options)
        sockets.append(made[0].get_extra_info("socket"))
        return made

    monkeypatch.setattr(loop, "create_connection", recorded)
    async with Client(Access(server=tls_api.url, ca=(CERTS / "ca.pem").read_bytes())) as kube:
        async with kube._http.stream(f"{PODS}?watch=1&timeoutSeconds=60", idle=10):
            pass  # the connection is closed, because the response is not read to its end
        await kube._http.close()
        assert [each.fileno() for each in sockets] == [-1]


async def test_a_server_that_does_not_listen_is_reported(unused_tcp_port: int) -> None:
    async with Client(Access(server=f"http://127.0.0.1:{unused_tcp_port}")) as kube:
        with pytest.raises(KubeError, match="cannot be reached: Connection refused"):
            await kube._http.request("GET", "/version", timeout=PATIENCE)
