"""The fast writer with HTTP/2: the same answers as aiohttp, and what it does about lost and refused requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random

import pytest

from mooring.kube import (
    ConnectionFailed,
    KubeError,
    OutcomeUnknown,
    Priority,
)
from tests.kube import http2_server as h2
from tests.kube.http2_server import Peer, Reply, ask, connected, http1, padded, replying, split
from tests.waiting import PATIENCE, until

REFUSAL = (("retry-after", " 3 "), ("x-odd", "\xfc"), ("content-type", "application/json"))
#: Name -> the frames of a response, and the same response with HTTP/1.1.
ANSWERS: dict[str, tuple[Reply, bytes]] = {
    "plain": (lambda n: [h2.headers(n, 201, ("x-odd", "space")) + h2.data(n, b'{"a":1}')], http1("201 C", b'{"a":1}')),
    "empty": (lambda n: [h2.headers(n, 201), h2.data(n)], http1("201 C")),
    "no body": (lambda n: [h2.headers(n, 200, end=True)], http1("200 OK")),
    "no content": (lambda n: [h2.headers(n, 204, end=True)], b"HTTP/1.1 204 No Content\r\n\r\n"),
    "byte by byte": (lambda n: [bytes([each]) for each in h2.ok(n, b'{"a": "b"}')], http1("201 C", b'{"a": "b"}')),
    "many frames": (
        lambda n: [h2.headers(n, 200), *(h2.data(n, each, end=False) for each in (b"{", b"", b"1", b"}")), h2.data(n)],
        http1("200 OK", b"{1}"),
    ),
    "big": (
        lambda n: [h2.headers(n, 200), *(h2.data(n, b"x" * 16384, end=False) for _ in range(20)), h2.data(n, b"end")],
        http1("200 OK", b"x" * 16384 * 20 + b"end"),
    ),
    "padded": (
        lambda n: [padded(h2.HEADERS, h2.END_HEADERS, n, h2.block(201)), padded(h2.DATA, h2.END_STREAM, n, b"{}")],
        http1("201 C", b"{}"),
    ),
    "padded with a priority": (
        lambda n: [
            padded(h2.HEADERS, h2.END_HEADERS, n, h2.block(201), priority=True)
            + h2.frame(h2.PRIORITY, 0, n, bytes(5))
            + h2.data(n, b"{}")
        ],
        http1("201 C", b"{}"),
    ),
    "continued": (lambda n: [split(h2.block(201, ("a", "b")), n) + h2.data(n, b"{}")], http1("201 C", b"{}")),
    "continued failure": (
        lambda n: [split(h2.block(429, *REFUSAL), n, end=True)],
        http1("429 Slow", head="Retry-After:  3 \r\n"),
    ),
    "interim": (lambda n: [h2.headers(n, 103, ("link", "x")), 0.01, h2.ok(n, b"after")], http1("201 C", b"after")),
    "interim twice": (lambda n: [h2.headers(n, 100) + h2.headers(n, 103) + h2.ok(n)], http1("201 C", b"{}")),
    "trailers": (
        lambda n: [
            h2.headers(n, 200)
            + h2.data(n, b"{}", end=False)
            + h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, n, h2.block(200)[1:])
        ],
        http1("200 OK", b"{}"),
    ),
    "error": (lambda n: [h2.headers(n, 409) + h2.data(n, b'{"code":409}')], http1("409 Conflict", b'{"code":409}')),
    "throttled": (
        lambda n: [h2.headers(n, 429, *REFUSAL) + h2.data(n, b"{}")],
        http1("429 Slow", b"{}", "RETRY-AFTER:  3 \r\n"),
    ),
    "throttled without Huffman codes": (
        lambda n: [h2.frame(h2.HEADERS, h2.END_HEADERS, n, h2.block(429, *REFUSAL, huffman=False)) + h2.data(n, b"{}")],
        http1("429 Slow", b"{}", "Retry-After: 3\r\n"),
    ),
    "status as text": (
        lambda n: [h2.frame(h2.HEADERS, h2.END_HEADERS, n, b"\x48\x03201") + h2.data(n, b"{}")],
        http1("201 C", b"{}"),
    ),
    "unusual status": (
        lambda n: [h2.frame(h2.HEADERS, h2.END_HEADERS, n, h2.block(299)) + h2.data(n, b"{}")],
        http1("299 C", b"{}"),
    ),
    "a table of size 0 first": (
        lambda n: [h2.frame(h2.HEADERS, h2.END_HEADERS, n, b"\x20\x20" + h2.block(201)) + h2.data(n, b"{}")],
        http1("201 C", b"{}"),
    ),
    "other frames in between": (
        lambda n: [
            h2.frame(0xFA, 7, n, b"?") + h2.headers(n, 201) + h2.frame(0xFB, 0, 0),
            h2.window(0, 9) + h2.window(n, 9) + h2.frame(h2.PING, 0, 0, b"12345678") + h2.settings((99, 1)),
            h2.data(n, b"{}") + h2.window(n, 9) + h2.reset(n, 0) + h2.frame(h2.PRIORITY, 0, n, bytes(5)),
        ],
        http1("201 C", b"{}"),
    ),
    "redirect": (
        lambda n: [h2.headers(n, 307, ("location", "/elsewhere"), end=True)],
        http1("307 Temporary Redirect", head="Location: /elsewhere\r\n"),
    ),
    "rejected": (lambda n: [h2.headers(n, 401, end=True)], http1("401 Unauthorized")),
    "the token in a page": (
        lambda n: [h2.headers(n, 502) + h2.data(n, b"<p>sesame</p>")],
        http1("502 Bad Gateway", b"<p>sesame</p>"),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_same_answers_as_aiohttp(name: str) -> None:
    reply, same = ANSWERS[name]
    async with connected(replying(reply), http1=same) as (server, http, writer):
        for _ in range(3):
            expected, got = await ask(http), await ask(writer)
            assert (got.status, got.body) == (expected.status, expected.body)
            assert got.headers.get("retry-after") == expected.headers.get("retry-after")
        assert server.selected.count("h2") == 1
        # aiohttp never offers what it does not speak.
        assert set(server.selected) == {"h2", "http/1.1"}
        assert b"sesame" not in got.body


def test_same_answers_as_aiohttp_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        for name in ANSWERS:
            await test_same_answers_as_aiohttp(name)
        await test_a_strict_peer_accepts_what_is_sent(0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def test_what_a_request_looks_like() -> None:
    async with connected(replying(lambda n: [h2.ok(n)])) as (server, _, writer):
        await ask(writer, b'{"a": 1}')
        await writer.request(
            "PATCH", "/" + "y" * 300, body=b"", content_type="z", timeout=PATIENCE, priority=Priority.BIND
        )
    (peer,) = server.peers
    first, second = (each for each in peer.frames if each.kind == h2.HEADERS)
    # The token is a literal that no proxy may put into a table (0x10), with the name 23 of the static table.
    assert b"\x1f\x08" + bytes([len("Bearer sesame")]) + b"Bearer sesame" in first.payload
    fields = dict(peer.decoder.decode(first.payload))
    authority = server.url.removeprefix("https://")
    assert list(fields.items())[:4] == [
        (":method", "POST"), (":scheme", "https"), (":authority", authority), (":path", "/prefix/x?y=1"),
    ]  # fmt: skip
    assert {name: fields[name] for name in ("user-agent", "accept", "content-type", "authorization")} == {
        "user-agent": "test",
        "accept": "application/json",
        "content-type": "application/json",
        "authorization": "Bearer sesame",
    }
    assert fields["content-length"] == "8"
    fields = dict(peer.decoder.decode(second.payload))
    assert (fields[":method"], fields[":path"], fields["content-length"]) == ("PATCH", "/prefix/" + "y" * 300, "0")
    assert second.flags & h2.END_STREAM


@pytest.mark.parametrize("seed", range(3))
async def test_a_strict_peer_accepts_what_is_sent(seed: int) -> None:
    """The library h2 checks every frame: states, windows, sizes. Its windows are small, and it answers in any order."""
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
    from h2.settings import SettingCodes, Settings

    rng = random.Random(seed)
    open_streams: set[int] = set()
    most = 0
    limit = rng.choice([1, 5, 50])

    async def script(peer: Peer, number: int) -> None:
        nonlocal most
        strict = H2Connection(config=H2Configuration(client_side=False, header_encoding="utf-8"))
        values = {
            SettingCodes.INITIAL_WINDOW_SIZE: rng.choice([0, 10, 1000]),
            SettingCodes.MAX_CONCURRENT_STREAMS: limit,
            SettingCodes.HEADER_TABLE_SIZE: 0,
        }
        strict.local_settings = Settings(client=False, initial_values=values)
        strict.initiate_connection()
        peer.send(strict.data_to_send())
        bodies: dict[int, bytes] = {}
        ready: list[int] = []
        while data := await peer.reader.read(rng.choice([10, 1000, 65536])):
            for event in strict.receive_data(data):
                if isinstance(event, RequestReceived):
                    open_streams.add(event.stream_id)
                    most = max(most, len(open_streams))
                    bodies[event.stream_id] = b""
                    strict.increment_flow_control_window(100, event.stream_id)
                elif isinstance(event, DataReceived):
                    bodies[event.stream_id] += event.data
                    if event.flow_controlled_length:
                        strict.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        if event.stream_ended is None:
                            strict.increment_flow_control_window(rng.choice([1, 100]), event.stream_id)
                elif isinstance(event, StreamEnded):
                    ready.append(event.stream_id)
                elif isinstance(event, StreamReset):
                    open_streams.discard(event.stream_id)
                    if event.stream_id in ready:
                        ready.remove(event.stream_id)
            rng.shuffle(ready)
            while ready and rng.random() < 0.9:
                stream = ready.pop()
                open_streams.discard(stream)
                strict.send_headers(stream, [(":status", "201"), ("x", "y")])
                strict.send_data(stream, bodies[stream], end_stream=True)
            if rng.random() < 0.1:
                strict.ping(b"12345678")
            peer.send(strict.data_to_send())
            # What is left is answered with the reply to this.
            strict.ping(b"87654321")
            peer.send(strict.data_to_send())

    async with connected(script) as (server, _, writer):

        async def one(index: int) -> None:
            text = str(index).encode() * rng.choice([1, 10, 200])
            task = asyncio.create_task(ask(writer, text))
            if index % 5 == 0:
                await asyncio.sleep(rng.choice([0, 0.001, 0.01]))
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                assert (await task).body == text

        await asyncio.gather(*(one(index) for index in range(100)))
    assert set(server.selected) == {"h2"}
    assert 0 < most <= limit * len(server.peers)


@pytest.mark.parametrize("parts", [[None], ["headers", None], ["headers", "half", None]])
async def test_a_lost_connection_means_the_outcome_is_unknown(parts: list[str | None]) -> None:
    known = {"headers": h2.headers(1, 200), "half": h2.data(1, b"half", end=False)}

    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        request = await peer.request()
        if number == 1:
            peer.send(*(known[each] for each in parts if each is not None))
            return
        peer.send(h2.ok(request.stream))
        await peer.ended()

    async with connected(script) as (server, _, writer):
        with pytest.raises(OutcomeUnknown, match="the connection was closed before a response"):
            await ask(writer)
        assert (await ask(writer)).status == 201
        assert len(server.peers) == 2


# Requests that were not processed


async def test_requests_after_the_last_one_of_goaway_are_sent_again() -> None:
    """The last one that the server accepts is answered on the old connection, the others on a new one, each once."""
    bodies: list[tuple[int, bytes]] = []

    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        requests = [await peer.request() for _ in range(6 if number == 1 else 4)]
        if number == 1:
            peer.send(h2.goaway((1 << 31) - 1), h2.goaway(3))
            requests = requests[:2]
            # It takes time, and meanwhile nothing new may come.
            await until(lambda: len(server.peers) == 2)
        for request in requests:
            bodies.append((number, request.body))
            peer.send(h2.ok(request.stream, request.body))
        await peer.ended()

    async with connected(script) as (server, _, writer):
        answers = await asyncio.gather(*(ask(writer, b"%d" % index) for index in range(6)))
        assert [each.body for each in answers] == [b"%d" % index for index in range(6)]
        await until(server.peers[0].reader.at_eof)
    assert sorted(bodies) == [(1, b"0"), (1, b"1"), (2, b"2"), (2, b"3"), (2, b"4"), (2, b"5")]


async def test_goaway_in_a_row() -> None:
    """Each connection is told to go away after a few requests, as with --goaway-chance: nothing fails."""
    bodies: list[bytes] = []

    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        for index in range(7):
            request = await peer.request()
            bodies.append(request.body)
            peer.send(h2.ok(request.stream, request.body))
            if index == 5:
                peer.send(h2.goaway(request.stream + 2))
        await peer.ended()

    async with connected(script, requests=1) as (server, _, writer):
        for index in range(50):
            assert (await ask(writer, b"%d" % index)).body == b"%d" % index
        assert len(server.peers) > 5
    assert sorted(bodies) == sorted(b"%d" % index for index in range(50))


async def test_a_refused_request_is_sent_again_once() -> None:
    refusals = 1

    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        while True:
            request = await peer.request()
            server.requests.append(request)
            refused = len(server.requests) <= refusals
            peer.send(h2.reset(request.stream, 7) if refused else h2.ok(request.stream))

    async with connected(script) as (server, _, writer):
        assert (await ask(writer)).status == 201
        assert len(server.requests) == 2
        refusals = 4
        with pytest.raises(ConnectionFailed, match="REFUSED_STREAM"):
            await ask(writer)
        assert len(server.requests) == 4


async def test_no_secret_in_logs_and_errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    # The decoder of the server in this process.
    caplog.set_level(logging.INFO, "hpack")
    reply = replying(lambda n: [h2.headers(n, 500, ("x", "y")) + h2.data(n, b"oh sesame")])
    async with connected(reply) as (_, _, writer):
        assert b"sesame" not in (await ask(writer)).body
    async with connected(replying(lambda n: [h2.goaway(0, 1)])) as (_, _, writer):
        with pytest.raises(KubeError) as caught:
            await ask(writer)
        assert "sesame" not in str(caught.value)
    assert "sesame" not in caplog.text
