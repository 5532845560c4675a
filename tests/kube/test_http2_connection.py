"""The connection without a network: what it writes, its windows, and what arbitrary bytes can do to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.kube import OutcomeUnknown, http2_connection
from mooring.kube.http2_connection import MAX_STREAMS, Http2Connection
from mooring.kube.http2_frames import PREFACE
from mooring.kube.http_connection import Connection, NotProcessed
from mooring.kube.transport import Answer
from tests.kube import http2_server as h2
from tests.kube.test_http2_frames import MALFORMED, UNUSABLE

HEAD = Http2Connection.head("POST", "k", [("Authorization", "Bearer t")])
FOREVER = 1e9


class Transport(asyncio.WriteTransport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False
        self.aborted = False

    def write(self, data: Any) -> None:
        assert not self.is_closing(), "a write on a closed transport"
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def frames(self) -> list[h2.Frame]:
        """All frames since the last call."""
        found = h2.Frames().feed(b"".join(self.writes).removeprefix(PREFACE))
        self.writes.clear()
        return found


def connect(
    *settings: tuple[int, int], may_write: Callable[[], bool] | None = None
) -> tuple[Http2Connection, Transport]:
    """A connection on which the server has sent its settings."""
    transport = Transport()
    connection = Http2Connection(None, lambda _: None, may_write)
    connection.connection_made(transport)
    connection.data_received(h2.settings(*settings))
    return connection, transport


def send(connection: Connection, body: bytes = b"{}", deadline: float = FOREVER) -> asyncio.Future[Answer]:
    return connection.send(HEAD, "/", body, deadline)


async def settle() -> None:
    """Let the connection write what it has collected."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_the_requests_of_an_iteration_are_written_together() -> None:
    connection, transport = connect()
    await settle()
    transport.writes.clear()
    for _ in range(MAX_STREAMS):
        assert connection.capacity > 0
        send(connection)
    assert connection.capacity == 0
    assert transport.writes == []
    await settle()
    assert len(transport.writes) == 1
    found = transport.frames()
    assert [each.kind for each in found] == [h2.HEADERS, h2.DATA] * MAX_STREAMS
    assert [each.stream for each in found[::2]] == list(range(1, 2 * MAX_STREAMS, 2))
    connection.abort("end")


async def test_the_start_of_a_connection() -> None:
    connection, transport = connect()
    await settle()
    assert b"".join(transport.writes).startswith(PREFACE)
    first, second, third = transport.frames()
    values = {first.payload[each : each + 6] for each in range(0, len(first.payload), 6)}
    assert values == {b"\0\x01\0\0\0\0", b"\0\x02\0\0\0\0", b"\0\x04\x01\0\0\0"}
    assert second == h2.Frame(h2.WINDOW_UPDATE, 0, 0, (2**26 - 65535).to_bytes(4, "big"))
    assert third == h2.Frame(h2.SETTINGS, h2.ACK, 0, b"")
    assert connection.capacity == MAX_STREAMS


async def test_bodies_wait_for_both_windows() -> None:
    connection, transport = connect((h2.WINDOW, 10))
    await settle()
    transport.frames()

    async def sent(*frames: bytes) -> dict[int, bytes]:
        connection.data_received(b"".join(frames))
        await settle()
        found: dict[int, bytes] = {}
        for each in transport.frames():
            if each.kind == h2.DATA:
                found[each.stream] = found.get(each.stream, b"") + each.payload
                found[each.stream] += b"." if each.flags & h2.END_STREAM else b""
        return found

    for body in (b"a" * 12, b"b" * 5, b"c" * 11):
        send(connection, body)
    assert await sent() == {1: b"a" * 10, 3: b"bbbbb.", 5: b"c" * 10}
    assert await sent(h2.window(5, 1)) == {5: b"c."}
    # A change of the settings holds for requests that wait too: 1 of 2 bytes.
    assert await sent(h2.settings((h2.WINDOW, 11))) == {1: b"a"}
    assert await sent(h2.window(0, 1)) == {}
    assert await sent(h2.window(1, 1)) == {1: b"a."}
    # The window of the connection: 65536 - 28 bytes are left.
    assert await sent(h2.settings((h2.WINDOW, 1 << 20))) == {}
    answer = send(connection, b"d" * 70_000)
    assert await sent() == {7: b"d" * (65536 - 28)}
    assert await sent(h2.window(7, 1 << 20)) == {}
    assert await sent(h2.window(0, 10_000)) == {7: b"d" * (70_000 - 65536 + 28) + b"."}
    assert not answer.done()
    connection.abort("end")


async def test_a_body_that_waits_is_not_overtaken() -> None:
    connection, transport = connect((h2.WINDOW, 1 << 20))
    send(connection, b"x" * 70_000)
    await settle()
    transport.frames()
    connection.data_received(h2.window(0, 10))
    send(connection, b"small")
    await settle()
    assert [(each.stream, len(each.payload)) for each in transport.frames() if each.kind == h2.DATA] == [(1, 10)]
    connection.abort("end")


async def test_frames_are_as_large_as_the_server_allows() -> None:
    connection, transport = connect()
    await settle()
    transport.frames()
    head = Http2Connection.head("POST", "k", [("Authorization", "Bearer " + "t" * 40_000)])
    connection.send(head, "/", b"x" * 20_000, FOREVER)
    await settle()
    found = transport.frames()
    assert [each.kind for each in found] == [h2.HEADERS, h2.CONTINUATION, h2.CONTINUATION, h2.DATA, h2.DATA]
    assert [each.flags for each in found] == [0, 0, h2.END_HEADERS, 0, h2.END_STREAM]
    assert max(len(each.payload) for each in found) == 16384
    fields = dict(hpack.Decoder().decode(b"".join(each.payload for each in found[:3])))
    assert fields["authorization"] == "Bearer " + "t" * 40_000
    connection.data_received(h2.settings((h2.FRAME_SIZE, 1 << 20)))
    connection.send(head, "/", b"x" * 20_000, FOREVER)
    await settle()
    assert [each.kind for each in transport.frames()] == [h2.SETTINGS, h2.HEADERS, h2.DATA]
    connection.abort("end")


async def test_an_answer_before_the_whole_request() -> None:
    """The rest of the body is not sent."""
    connection, transport = connect((h2.WINDOW, 10))
    answer = send(connection, b"x" * 100)
    await settle()
    transport.frames()
    connection.data_received(h2.headers(1, 413, end=True) + h2.window(1, 1000))
    assert (await answer).status == 413
    await settle()
    assert transport.frames() == [h2.Frame(h2.RST_STREAM, 0, 1, bytes(4))]
    assert not connection.busy


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        (h2.reset(1, 2), NotProcessed),
        (h2.goaway(1) + h2.reset(1, 5), NotProcessed),
        (h2.headers(1, 200) + h2.reset(1, 2), OutcomeUnknown),
        (h2.headers(1, 200) + h2.goaway(0), OutcomeUnknown),
        (MALFORMED["text"], NotProcessed),
        (h2.headers(1, 200) + MALFORMED["text"], OutcomeUnknown),
    ],
)
async def test_a_request_without_its_whole_body_was_not_processed(frames: bytes, error: type[Exception]) -> None:
    """Unless the server has answered."""
    connection, _ = connect((h2.WINDOW, 10))
    answer = send(connection, b"x" * 100)
    await settle()
    connection.data_received(frames)
    with pytest.raises(error):
        await answer


async def test_an_overdue_request_without_its_whole_body_was_not_processed() -> None:
    connection, transport = connect((h2.WINDOW, 10))
    answer, other = send(connection, b"x" * 100, deadline=5.0), send(connection)
    await settle()
    connection.data_received(h2.ok(3))
    connection.check(5.0, 60.0)
    with pytest.raises(NotProcessed, match="timed out"):
        await answer
    assert (await other).status == 201
    await settle()
    assert transport.frames()[-1] == h2.Frame(h2.RST_STREAM, 0, 1, b"\0\0\0\x08")


async def test_a_connection_that_is_lost_before_the_request_is_written() -> None:
    connection, _ = connect()
    answer = send(connection)
    connection.connection_lost(None)
    with pytest.raises(NotProcessed):
        await answer


async def test_goaway_before_the_request_is_written() -> None:
    """It would be accepted, but it can as well be sent on another connection."""
    connection, transport = connect()
    await settle()
    transport.frames()
    answer = send(connection)
    connection.data_received(h2.goaway((1 << 31) - 1))
    with pytest.raises(NotProcessed, match="NO_ERROR"):
        await answer
    assert transport.closed
    assert transport.frames() == []


async def test_a_response_to_a_request_that_is_not_written() -> None:
    connection, transport = connect()
    answer = send(connection)
    connection.data_received(h2.ok(1))
    with pytest.raises(NotProcessed):
        await answer
    assert transport.aborted


async def test_what_is_cancelled_before_it_is_written_uses_no_window() -> None:
    connection, transport = connect()
    for _ in range(100):
        connection.cancel(send(connection, b"x" * 10_000))
    answer = send(connection, b"x" * 16_000)
    await settle()
    headers, data = transport.frames()[3:]
    assert (headers.kind, headers.stream) == (h2.HEADERS, 201)
    assert data == h2.Frame(h2.DATA, h2.END_STREAM, 201, b"x" * 16_000)
    connection.data_received(h2.ok(201))
    assert (await answer).status == 201


# Receiving


async def test_windows_are_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """More data than the first window allows arrives, also for streams that have ended."""
    monkeypatch.setattr(http2_connection, "_RECEIVE_WINDOW", 100_000)
    monkeypatch.setattr(http2_connection, "_WINDOW_STEP", 10_000)
    connection, transport = connect()
    await settle()
    transport.frames()
    window = 100_000
    for number in range(1, 101, 2):
        answer = send(connection)
        await settle()
        if number % 4 == 1:
            connection.cancel(answer)
        parts = [h2.data(number, b"x" * 9_000, end=False)] * 3
        connection.data_received(h2.headers(number, 200) + b"".join(parts) + h2.data(number, b"end"))
        await settle()
        window -= 27_003
        window += sum(
            int.from_bytes(each.payload, "big") for each in transport.frames() if each.kind == h2.WINDOW_UPDATE
        )
        assert 0 < window <= 100_000
        if number % 4 == 3:
            assert (await answer).body == b"x" * 27_000 + b"end"
    assert not transport.is_closing()


async def test_more_than_the_window_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_connection, "_RECEIVE_WINDOW", 100_000)
    connection, transport = connect()
    answer = send(connection)
    await settle()
    connection.data_received(h2.headers(1, 200) + h2.data(1, bytes(10_000), end=False) * 10)
    assert not transport.is_closing()
    connection.data_received(h2.data(1, b"x", end=False))
    assert transport.aborted
    with pytest.raises(OutcomeUnknown, match="more data than allowed"):
        await answer
    assert transport.frames()[-1].payload == b"\0\0\0\0\0\0\0\x03"


async def test_a_response_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding counts. Other requests are not affected."""
    monkeypatch.setattr(http2_connection, "_MAX_RESPONSE", 50_000)
    connection, transport = connect()
    first, second = send(connection), send(connection)
    await settle()
    connection.data_received(h2.headers(1, 200) + h2.frame(h2.DATA, h2.PADDED, 1, b"\x80" + bytes(9_999)) * 5)
    assert not first.done()
    connection.data_received(h2.data(1, b"x", end=False) + h2.ok(3))
    with pytest.raises(OutcomeUnknown, match="too large"):
        await first
    assert (await second).status == 201
    await settle()
    assert transport.frames()[-1] == h2.Frame(h2.RST_STREAM, 0, 1, b"\0\0\0\x03")


@pytest.mark.parametrize("status", [200, 201, 204, 299, 404])
@pytest.mark.parametrize("body", [b"", b"{}", b"x" * 16_000])
async def test_frames_of_a_usual_response_are_read_like_others(status: int, body: bytes) -> None:
    """A response in two frames has a path of its own. The answer and the windows are those of other frames."""
    usual = h2.headers(1, status, ("a", "b")) + h2.data(1, body)
    fields = h2.block(status, ("a", "b"))
    others = [
        h2.headers(1, status, ("a", "b")) + h2.data(1, body, end=False) + h2.data(1),
        h2.padded(h2.HEADERS, h2.END_HEADERS, 1, fields, priority=True) + h2.data(1, body),
        h2.split(fields, 1) + h2.data(1, body),
        h2.headers(1, 100) + usual,
        *[usual[:cut] for cut in (1, 8, 9, 10, len(usual) - 1)],
    ]
    for frames in (usual, *others):
        connection, transport = connect()
        answer, other = send(connection), send(connection)
        await settle()
        connection.data_received(frames)
        if usual.startswith(frames):
            connection.data_received(usual[len(frames) :])
        got = await answer
        assert (got.status, got.body, dict(got.headers)) == (status, body, {"a": "b"} if status >= 300 else {})
        assert list(connection._streams) == [3]
        assert connection._released == len(body)
        assert connection._receive_window == http2_connection._RECEIVE_WINDOW - len(body)
        assert not other.done()
        assert not transport.is_closing()
        connection.abort("end")
        await asyncio.gather(other, return_exceptions=True)


async def test_a_usual_response_is_not_kept_for_a_request_that_was_cancelled() -> None:
    connection, transport = connect()
    cancelled, other = send(connection), send(connection)
    await settle()
    cancelled.cancel()
    connection.data_received(h2.ok(1) + h2.ok(3))
    assert (await other).status == 201
    assert not connection._streams
    assert not transport.is_closing()


async def test_a_body_in_tiny_frames_is_kept_in_one_piece() -> None:
    connection, _ = connect()
    answer = send(connection)
    await settle()
    connection.data_received(h2.headers(1, 200))
    for _ in range(1000):
        connection.data_received(h2.data(1, b"xy", end=False) + h2.data(1, b"", end=False))
    assert len(connection._streams[1].body) == 2000
    assert isinstance(connection._streams[1].body, bytearray)
    connection.data_received(h2.data(1))
    assert (await answer).body == b"xy" * 1000


async def test_a_server_that_asks_and_does_not_read() -> None:
    """The replies do not fill the memory. A server that reads may ask as often as it likes."""
    connection, transport = connect()
    ping = h2.frame(h2.PING, 0, 0, b"12345678")
    for _ in range(5000):
        connection.data_received(ping)
    assert not transport.is_closing()
    answer = send(connection)
    await settle()
    assert [each for each in transport.frames() if each.kind == h2.PING] == [
        h2.Frame(h2.PING, h2.ACK, 0, b"12345678")
    ] * 5000
    connection.pause_writing()
    assert connection.capacity <= 0
    connection.resume_writing()
    assert connection.capacity == MAX_STREAMS - 1
    connection.pause_writing()
    for _ in range(5000):
        connection.data_received(ping)
    assert transport.aborted
    with pytest.raises(OutcomeUnknown, match="without reading"):
        await answer


async def test_the_settings_may_change() -> None:
    connection, _ = connect((h2.MAX_STREAMS, 3))
    assert connection.capacity == 3
    connection.data_received(h2.settings((h2.MAX_STREAMS, 0)))
    assert connection.capacity == 0
    connection.data_received(h2.settings((h2.MAX_STREAMS, 1 << 31)))
    assert connection.capacity == MAX_STREAMS
    connection.data_received(h2.settings((h2.WINDOW, 7)))
    assert connection.capacity == MAX_STREAMS


# Arbitrary input

BLOCKS = st.one_of(
    st.sampled_from([h2.block(200), h2.block(201), h2.block(429, ("retry-after", "3")), h2.block(103), b"\x88", b""]),
    st.binary(max_size=20),
)
STREAMS = st.integers(0, 9)
FRAMES = st.one_of(
    st.builds(h2.frame, st.just(h2.HEADERS), st.sampled_from([0x4, 0x5, 0x4, 0x5, 0x0, 0x2D]), STREAMS, BLOCKS),
    st.builds(h2.frame, st.just(h2.DATA), st.sampled_from([0, 1, 1, 8, 9]), STREAMS, st.binary(max_size=30)),
    st.builds(h2.frame, st.just(h2.CONTINUATION), st.sampled_from([0, 4]), STREAMS, BLOCKS),
    st.builds(h2.reset, STREAMS, st.integers(0, 20)),
    st.builds(h2.goaway, STREAMS, st.integers(0, 20)),
    st.builds(h2.window, STREAMS, st.integers(0, 2**32 - 1)),
    st.builds(h2.settings, st.tuples(st.integers(0, 7), st.integers(0, 2**32 - 1))),
    st.builds(h2.settings, st.tuples(st.sampled_from([h2.MAX_STREAMS, h2.WINDOW]), st.integers(0, 20))),
    st.builds(h2.frame, st.integers(0, 255), st.integers(0, 255), STREAMS, st.binary(max_size=12)),
    st.sampled_from([*MALFORMED.values(), *UNUSABLE.values(), h2.settings(), h2.frame(h2.SETTINGS, h2.ACK, 0)]),
    st.builds(h2.ok, st.sampled_from([1, 3, 5, 7])),
    st.binary(max_size=30),
)
#: What the client does between two chunks.
ACTIONS = st.sampled_from(["send", "send", "send large", "cancel", "check", "wait", "pause", "resume", "close", "none"])


@settings(max_examples=1000)
@given(
    st.lists(FRAMES, max_size=12).map(b"".join),
    st.lists(st.tuples(st.integers(1, 40), ACTIONS), min_size=1, max_size=30),
    st.booleans(),
    st.booleans(),
)
def test_arbitrary_frames(data: bytes, steps: list[tuple[int, str]], started: bool, leading: bool) -> None:
    """No exception escapes, every request ends, and the connection keeps only what it must."""
    asyncio.run(feed((h2.settings() if started else b"") + data, steps, leading))


@settings(max_examples=500)
@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(1, 40), ACTIONS), min_size=1, max_size=30))
def test_arbitrary_bytes(data: bytes, steps: list[tuple[int, str]]) -> None:
    asyncio.run(feed(data, steps, True))


async def feed(data: bytes, steps: list[tuple[int, str]], leading: bool) -> None:
    problems: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(context))
    may_write = True
    transport = Transport()
    connection = Http2Connection(None, lambda _: None, lambda: may_write)
    connection.connection_made(transport)
    answers: list[asyncio.Future[Answer]] = []
    now = loop.time()
    while data and not transport.is_closing():
        for size, action in steps:
            chunk, data = data[:size], data[size:]
            if chunk and not transport.is_closing():
                connection.data_received(chunk)
            if action.startswith("send") and connection.capacity > 0:
                answers.append(send(connection, b"x" * (100_000 if action == "send large" else 10), now + 10))
            elif action == "cancel" and answers:
                answers[-1].cancel()
                connection.cancel(answers[-1])
            elif action == "check":
                now += 3.0
                connection.check(now, 1.0)
            elif action == "wait":
                may_write = leading or not may_write
                await settle()
            elif action in {"pause", "resume"} and not connection.closing:
                (connection.pause_writing if action == "pause" else connection.resume_writing)()
            elif action == "close":
                connection.close()
        check_state(connection)
    await settle()
    check_state(connection)
    connection.connection_lost(None)
    await settle()
    assert all(each.done() for each in answers)
    for answer in answers:
        if not answer.cancelled():
            answer.exception()
    assert not connection.busy
    assert problems == []


def check_state(connection: Http2Connection) -> None:
    """What is kept belongs to requests under way, and is bounded."""
    streams = set(connection._streams.values())
    assert set(connection._unsent) <= streams
    assert set(connection._blocked) == {each for each in streams if each.rest}
    assert len(streams) <= MAX_STREAMS
    assert len(connection._partial) < 9 + 16384
    assert connection._block is None or len(connection._block.data) <= 16384 + 65536
    assert sum(len(each.body) for each in streams) <= 64 << 20
    assert all(not each.answer.done() or each.answer.cancelled() for each in streams)
