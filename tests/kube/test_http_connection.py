"""Connections: how many there are, when they end, deadlines, cancellation and the lease."""

from __future__ import annotations

import asyncio

import pytest

from mooring.kube import (
    ConnectionFailed,
    NotLeading,
    OutcomeUnknown,
    http2_connection,
)
from mooring.kube import fast_writer as fast_writer_module
from mooring.kube.http2_connection import Http2Connection
from mooring.kube.identity import FixedIdentity, Identity
from tests.kube import http2_server as h2
from tests.kube.http2_server import Peer, ask, connected, http1, replying
from tests.kube.server import CERTS
from tests.waiting import PATIENCE, until


async def test_many_requests_share_two_connections() -> None:
    """Also if all of them wait for the first one."""

    async def script(peer: Peer, number: int) -> None:
        await peer.start((h2.MAX_STREAMS, 100))
        requests = [await peer.request() for _ in range(64)]
        peer.send(*(h2.ok(each.stream, each.body) for each in requests))
        await peer.ended()

    async with connected(script) as (server, _, writer):
        answers = await asyncio.gather(*(ask(writer, b"%d" % index) for index in range(128)))
        assert [each.body for each in answers] == [b"%d" % index for index in range(128)]
        assert server.selected == ["h2", "h2"]


async def test_no_more_streams_than_the_server_allows() -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.start((h2.MAX_STREAMS, 2))
        while True:
            first, second = await peer.request(), await peer.request()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await peer.frame()
            peer.send(h2.ok(first.stream), h2.ok(second.stream))

    async with connected(script, requests=6) as (server, _, writer):
        await asyncio.gather(*(ask(writer) for _ in range(12)))
        assert len(server.peers) == 3


async def test_a_server_that_allows_no_streams() -> None:
    async with connected(replying(lambda n: [], (h2.MAX_STREAMS, 0))) as (_, _, writer):
        with pytest.raises(ConnectionFailed, match="the server allows no requests"):
            await ask(writer)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "timed out"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "violates HTTP/2"),
        (h2.frame(h2.PING, 0, 0, bytes(8)), "a first frame that has no settings"),
        (h2.settings() + h2.goaway(0, 11), "ENHANCE_YOUR_CALM"),
    ],
)
async def test_a_server_that_selects_http2_without_speaking_it(sent: bytes, said: str) -> None:
    """Nothing was sent, so it can be tried again."""

    async def script(peer: Peer, number: int) -> None:
        peer.send(sent)
        await peer.ended()

    async with connected(script, connect=1.0 if not sent else PATIENCE) as (server, _, writer):
        with pytest.raises(ConnectionFailed, match=said):
            await ask(writer)
        await until(lambda: not writer._open)
        assert all(each.kind != h2.HEADERS for each in server.peers[0].frames)


async def test_a_server_that_closes_the_connection_first() -> None:
    async def script(peer: Peer, number: int) -> None:
        pass

    async with connected(script) as (_, _, writer):
        results = await asyncio.gather(*(ask(writer) for _ in range(5)), return_exceptions=True)
        assert all(isinstance(each, ConnectionFailed) for each in results)


async def test_a_server_without_http2() -> None:
    """All wait for the first connection; then each opens its own."""
    script = replying(lambda n: [])
    async with connected(script, protocols=("http/1.1",), http1=http1("201 C", b"{}")) as (server, _, writer):
        answers = await asyncio.gather(*(ask(writer) for _ in range(20)))
        assert {each.status for each in answers} == {201}
        assert set(server.selected) == {"http/1.1"}
        assert 1 < len(server.selected) <= 20


async def test_who_gives_up_while_others_wait_for_the_connection() -> None:
    async def script(peer: Peer, number: int) -> None:
        await gate.wait()
        await replying(lambda n: [h2.ok(n)])(peer, number)

    gate = asyncio.Event()
    async with connected(script) as (server, _, writer):
        first, second = asyncio.create_task(ask(writer)), asyncio.create_task(ask(writer))
        await until(lambda: server.peers)
        first.cancel()
        gate.set()
        assert (await second).status == 201
        assert len(server.peers) == 1
        assert first.cancelled()


async def test_stream_numbers_come_to_an_end() -> None:
    async with connected(replying(lambda n: [h2.ok(n)])) as (server, _, writer):
        await ask(writer)
        (connection,) = writer._open
        assert isinstance(connection, Http2Connection)
        connection._next = (1 << 31) - 3
        for _ in range(5):
            assert (await ask(writer)).status == 201
    assert len(server.peers) == 2
    sent = [each.stream for each in server.peers[0].frames if each.kind == h2.HEADERS]
    assert sent == [1, (1 << 31) - 3, (1 << 31) - 1]


async def test_a_new_certificate_gets_a_new_connection() -> None:
    """The old connection ends when its last request has ended."""
    pair = Identity("", (CERTS / "client.pem").read_bytes(), (CERTS / "client.key").read_bytes())
    shown: list[bool] = []

    async def script(peer: Peer, number: int) -> None:
        shown.append(bool(peer.writer.get_extra_info("peercert")))
        await peer.start()
        request = await peer.request()
        if number == 1:
            await gate.wait()
        peer.send(h2.ok(request.stream))
        await peer.ended()

    gate = asyncio.Event()
    async with connected(script) as (server, _, writer):
        old = asyncio.create_task(ask(writer))
        await until(lambda: server.peers and any(each.kind == h2.DATA for each in server.peers[0].frames))
        writer._identities = FixedIdentity(pair)
        assert (await ask(writer)).status == 201
        gate.set()
        assert (await old).status == 201
        await until(server.peers[0].reader.at_eof)
    assert shown == [False, True]


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_writer_module, "IDLE_SECONDS", 0.0)
    async with connected(replying(lambda n: [h2.ok(n)])) as (server, _, writer):
        await ask(writer)
        await until(lambda: not writer._open)
        assert not writer._available
        assert (await ask(writer)).status == 201
        assert len(server.peers) == 2


async def test_closing_fails_what_is_under_way() -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        await peer.ended()

    async with connected(script) as (server, _, writer):
        task = asyncio.create_task(ask(writer))
        await until(lambda: server.peers and any(each.kind == h2.DATA for each in server.peers[0].frames))
        await writer.close()
        with pytest.raises(OutcomeUnknown, match="the client was closed"):
            await task


async def test_closing_while_a_connection_is_opened() -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.ended()

    async with connected(script) as (server, _, writer):
        task = asyncio.create_task(ask(writer))
        await until(lambda: server.peers)
        await writer.close()
        with pytest.raises(ConnectionFailed, match="the client was closed"):
            await task


# Deadlines and cancellation


async def test_an_overdue_request_is_reset() -> None:
    """The server has sent something since, so the connection stays."""

    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        first = await peer.request()
        second = await peer.request()
        peer.send(h2.ok(second.stream))
        assert await peer.until(h2.RST_STREAM) == h2.Frame(h2.RST_STREAM, 0, first.stream, b"\0\0\0\x08")
        # A late response is ignored.
        peer.send(h2.ok(first.stream))
        peer.send(h2.ok((await peer.request()).stream))
        await peer.ended()

    async with connected(script) as (server, _, writer):
        late = asyncio.create_task(ask(writer, timeout=0.2))
        await asyncio.sleep(0)
        assert (await ask(writer)).status == 201
        with pytest.raises(OutcomeUnknown, match="timed out waiting for a response"):
            await late
        assert (await ask(writer)).status == 201
        assert len(server.peers) == 1


async def test_a_silent_connection_is_dead() -> None:
    """The requests of others on it do not wait for their deadlines."""

    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        while True:
            request = await peer.request()
            if number > 1:
                peer.send(h2.ok(request.stream))

    async with connected(script) as (server, _, writer):
        other = asyncio.create_task(ask(writer, timeout=3600))
        with pytest.raises(OutcomeUnknown, match="timed out waiting for a response"):
            await ask(writer, timeout=0.1)
        with pytest.raises(OutcomeUnknown, match="timed out"):
            await other
        assert (await ask(writer)).status == 201
        assert len(server.peers) == 2


@pytest.mark.parametrize("alive", [True, False])
async def test_a_quiet_connection_is_asked_for_a_sign_of_life(alive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_connection, "_PING_SECONDS", 0.1)
    monkeypatch.setattr(http2_connection, "_DEAD_SECONDS", 1.2)

    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        request = await peer.request()
        for _ in range(2):
            ping = await peer.until(h2.PING)
            if alive:
                peer.send(h2.frame(h2.PING, h2.ACK, 0, ping.payload))
            else:
                await peer.ended()
        peer.send(h2.ok(request.stream))
        await peer.ended()

    async with connected(script) as (_, _, writer):
        if alive:
            assert (await ask(writer)).status == 201
        else:
            with pytest.raises(OutcomeUnknown, match=r"nothing was received for 1\.2 s"):
                await ask(writer)


async def test_a_cancelled_request_is_reset() -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        first = await peer.request()
        assert await peer.until(h2.RST_STREAM) == h2.Frame(h2.RST_STREAM, 0, first.stream, b"\0\0\0\x08")
        peer.send(h2.ok((await peer.request()).stream))
        await peer.ended()

    async with connected(script) as (server, _, writer):
        task = asyncio.create_task(ask(writer))
        await until(lambda: server.peers and any(each.kind == h2.DATA for each in server.peers[0].frames))
        task.cancel()
        assert (await ask(writer)).status == 201
        assert len(server.peers) == 1


async def test_a_request_cancelled_at_once_is_never_sent() -> None:
    async with connected(replying(lambda n: [h2.ok(n)])) as (server, _, writer):
        await ask(writer)
        (connection,) = writer._open
        head = Http2Connection.head("POST", "k", [])
        connection.cancel(connection.send(head, "/", b"{}", 1e9))
        assert (await ask(writer)).status == 201
        assert [each.stream for each in server.peers[0].frames if each.kind == h2.HEADERS] == [1, 5]


async def test_a_blocked_event_loop_is_not_taken_for_a_dead_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrived meanwhile is read before deadlines are checked."""
    async with connected(replying(lambda n: [0.05, h2.ok(n)])) as (_, _, writer):
        await ask(writer)
        loop = asyncio.get_running_loop()
        checks: list[float] = []
        monkeypatch.setattr(Http2Connection, "check", lambda self, now, idle: checks.append(now))
        writer._swept_at = loop.time() - 60
        assert writer._timer is not None
        writer._timer.cancel()
        writer._sweep()
        assert checks == []
        await until(lambda: checks)


# The lease


async def test_who_may_write_is_asked_again_before_the_requests_are_written() -> None:
    allowed = True
    async with connected(replying(lambda n: [h2.ok(n)]), may_write=lambda: allowed) as (server, _, writer):
        await ask(writer)
        tasks = [asyncio.create_task(ask(writer)) for _ in range(3)]

        def lose() -> None:
            nonlocal allowed
            allowed = False

        # It runs after the requests have been passed to the connection, and before they are written.
        asyncio.get_running_loop().call_soon(lose)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in results] == [NotLeading] * 3
        allowed = True
        assert (await ask(writer)).status == 201
    assert [each.stream for each in server.peers[0].frames if each.kind == h2.HEADERS] == [1, 9]


async def test_who_may_write_is_asked_before_the_rest_of_a_body_is_written() -> None:
    allowed = True

    async def script(peer: Peer, number: int) -> None:
        nonlocal allowed
        await peer.start((h2.WINDOW, 5))
        await peer.until(h2.DATA)
        allowed = False
        peer.send(h2.window(1, 1000))
        await peer.until(h2.RST_STREAM)
        allowed = True
        peer.send(h2.ok((await peer.request()).stream))
        await peer.ended()

    async with connected(script, may_write=lambda: allowed) as (server, _, writer):
        with pytest.raises(NotLeading):
            await ask(writer, b"0123456789")
        await until(lambda: allowed)
        assert (await ask(writer, b"1234")).status == 201
    sent = [each.payload for each in server.peers[0].frames if each.kind == h2.DATA]
    assert sent == [b"01234", b"1234"]


async def test_who_may_not_write_does_not_lose_the_connection() -> None:
    allowed = False
    async with connected(replying(lambda n: [h2.ok(n)]), may_write=lambda: allowed) as (server, _, writer):
        with pytest.raises(NotLeading):
            await ask(writer)
        allowed = True
        assert (await ask(writer)).status == 201
        assert len(server.peers) == 1
