"""Frames that HTTP/2 does not allow end a request or the connection."""

from __future__ import annotations

import asyncio

import pytest

from mooring.kube import (
    OutcomeUnknown,
)
from mooring.kube.transport import Answer
from tests.kube import http2_server as h2
from tests.kube.http2_server import Peer, ask, connected
from tests.waiting import until

MALFORMED: dict[str, bytes] = {
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "too large": h2.frame(h2.DATA, 0, 1, bytes(16385)),
    "settings with 5 bytes": h2.frame(h2.SETTINGS, 0, 0, bytes(5)),
    "settings of a stream": h2.frame(h2.SETTINGS, 0, 1),
    "settings in an ack": h2.frame(h2.SETTINGS, h2.ACK, 0, bytes(6)),
    "a window too large": h2.settings((h2.WINDOW, 1 << 31)),
    "frames too small": h2.settings((h2.FRAME_SIZE, 16383)),
    "frames too large": h2.settings((h2.FRAME_SIZE, 1 << 24)),
    "push enabled": h2.settings((h2.ENABLE_PUSH, 1)),
    "ping with 7 bytes": h2.frame(h2.PING, 0, 0, bytes(7)),
    "ping of a stream": h2.frame(h2.PING, 0, 1, bytes(8)),
    "goaway with 7 bytes": h2.frame(h2.GOAWAY, 0, 0, bytes(7)),
    "goaway of a stream": h2.frame(h2.GOAWAY, 0, 1, bytes(8)),
    "reset with 3 bytes": h2.frame(h2.RST_STREAM, 0, 1, bytes(3)),
    "reset of the connection": h2.reset(0, 1),
    "reset of a stream that is not there": h2.reset(99, 1),
    "reset of a stream of the server": h2.reset(2, 1),
    "window with 3 bytes": h2.frame(h2.WINDOW_UPDATE, 0, 0, bytes(3)),
    "window of 0": h2.window(0, 0),
    "window overflow": h2.window(0, (1 << 31) - 1),
    "window of a stream that is not there": h2.window(99, 1),
    "window overflow by settings": h2.window(1, (1 << 31) - 70000) + h2.settings((h2.WINDOW, (1 << 31) - 1)),
    "data of the connection": h2.frame(h2.DATA, 0, 0),
    "data of a stream that is not there": h2.data(99),
    "headers of the connection": h2.headers(0, 200),
    "headers of a stream that is not there": h2.headers(99, 200),
    "continuation alone": h2.frame(h2.CONTINUATION, h2.END_HEADERS, 1),
    "interrupted headers": h2.frame(h2.HEADERS, 0, 1, b"\x88") + h2.data(1),
    "continuation of another stream": h2.frame(h2.HEADERS, 0, 1, b"\x88") + h2.frame(h2.CONTINUATION, 4, 3),
    "endless headers": h2.frame(h2.HEADERS, 0, 1, b"\x88") + h2.frame(h2.CONTINUATION, 0, 1, bytes(16000)) * 5,
    "headers with too much padding": h2.frame(h2.HEADERS, h2.PADDED | h2.END_HEADERS, 1, b"\x02\x88"),
    "headers without their padding": h2.frame(h2.HEADERS, h2.PADDED | h2.END_HEADERS, 1),
    "data with too much padding": h2.headers(1, 200) + h2.frame(h2.DATA, h2.PADDED, 1, b"\x09{}"),
    "headers that cannot be decoded": h2.frame(h2.HEADERS, h2.END_HEADERS, 1, b"\xff\xff\xff"),
    "a table that was not allowed": h2.frame(h2.HEADERS, h2.END_HEADERS, 1, b"\x3f\x45\x8d"),
    "a name of the table": h2.frame(h2.HEADERS, h2.END_HEADERS, 1, b"\x8d\xbe"),
    "push": h2.frame(h2.PUSH_PROMISE, 4, 1, bytes(4) + b"\x88"),
}
#: What concerns only one request: the connection stays.
UNUSABLE: dict[str, bytes] = {
    "reset": h2.reset(1, 2),
    "reset without an error": h2.reset(1, 0),
    "reset with an unknown error": h2.reset(1, 77),
    "refused after an answer": h2.headers(1, 200) + h2.reset(1, 7),
    "reset in the middle": h2.headers(1, 200) + h2.data(1, b"{", end=False) + h2.reset(1, 8),
    "no status": h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 1, b"\x10\x01a\x01b"),
    "a status that is no number": h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 1, b"\x08\x032x0"),
    "other protocols": h2.headers(1, 101),
    "an interim response that is the last": h2.headers(1, 103, end=True),
    "data without headers": h2.data(1, b"{}"),
    "two responses": h2.headers(1, 200) + h2.headers(1, 200),
    "window of the stream of 0": h2.window(1, 0),
    "window overflow of the stream": h2.window(1, (1 << 31) - 1),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_frame_ends_the_connection(name: str) -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        request = await peer.request()
        peer.send(MALFORMED[name] if number == 1 else h2.ok(request.stream))
        await peer.ended()

    async with connected(script) as (server, _, writer):
        with pytest.raises(OutcomeUnknown, match=r"https://127.0.0.1:\d+/prefix: the server violates HTTP/2"):
            await ask(writer)
        assert (await ask(writer)).status == 201
        await until(server.peers[0].reader.at_eof)
    assert [each.kind for each in server.peers[0].frames if each.kind in {h2.HEADERS, h2.GOAWAY}] == [
        h2.HEADERS,
        h2.GOAWAY,
    ]


@pytest.mark.parametrize("name", UNUSABLE)
async def test_an_unusable_response_concerns_one_request(name: str) -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.start()
        await peer.request()
        second = await peer.request()
        peer.send(UNUSABLE[name], h2.ok(second.stream))
        peer.send(h2.ok((await peer.request()).stream))
        await peer.ended()

    async with connected(script) as (server, _, writer):
        first, second = await asyncio.gather(ask(writer), ask(writer), return_exceptions=True)
        assert isinstance(first, OutcomeUnknown)
        assert isinstance(second, Answer)
        assert (await ask(writer)).status == 201
        assert len(server.peers) == 1
