"""One connection with streamed responses: what is read when, and which connections are used again."""

import asyncio
from typing import Any

import pytest

from mooring.kube.http1_stream import Disconnected, Http1Stream, InvalidResponse

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


class Transport:
    """A transport that keeps what is written, and whether data is read."""

    def __init__(self) -> None:
        self.written = b""
        self.is_open = self.reads = True

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.is_open = False


def made() -> tuple[Http1Stream, Any]:
    stream, transport = Http1Stream(None, lambda each: None), Transport()
    stream.connection_made(transport)  # type: ignore[arg-type]
    return stream, transport


async def test_each_response_has_its_own_head_and_body() -> None:
    stream, transport = made()
    for number in range(3):
        response = stream.send(b"request", None)
        stream.data_received(b"HTTP/1.1 103 Early Hints\r\nX-Hint: 1\r\n\r\n")
        assert response.status == 0
        stream.data_received(b"HTTP/1.1 20%d OK\r\nX-Number: %d\r\nContent-Length: 1\r\n\r\n" % (number, number))
        await response.head()
        assert response.headers == {"x-number": str(number), "content-length": "1"}
        stream.data_received(b"%d" % number)
        assert (response.status, response.ended, await response.read()) == (200 + number, True, b"%d" % number)
    assert (transport.written, transport.is_open, stream.closing) == (b"request" * 3, True, False)


async def test_nothing_is_read_while_the_reader_is_slow() -> None:
    stream, transport = made()
    response = stream.send(b"request", None)
    stream.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + bytes(1_000_000))
    assert transport.reads
    stream.data_received(bytes(1_000_000))
    assert not transport.reads
    reading = response.iter_any()
    assert len(await anext(reading)) == 2_000_000
    assert transport.reads
    whole = asyncio.ensure_future(response.read())
    await asyncio.sleep(0)
    stream.data_received(bytes(1_000_000))
    assert (len(await whole), transport.reads) == (1_000_000, True)


@pytest.mark.parametrize("extra", [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"x"])
async def test_a_server_that_sends_more_than_one_response_gets_no_more_requests(extra: bytes) -> None:
    stream, _ = made()
    response = stream.send(b"request", None)
    stream.data_received(HEAD + b"hello" + extra)
    assert stream.closing
    assert (response.headers, await response.read()) == ({"content-length": "5"}, b"hello")


async def test_data_without_a_request_closes_the_connection() -> None:
    stream, transport = made()
    stream.data_received(HEAD)
    assert (stream.closing, transport.is_open) == (True, False)


async def test_what_has_arrived_is_read_before_the_error() -> None:
    stream, _ = made()
    response = stream.send(b"request", None)
    stream.data_received(HEAD + b"hel")
    stream.connection_lost(None)
    assert stream.closed.done()
    reading = response.iter_any()
    assert await anext(reading) == b"hel"
    with pytest.raises(Disconnected, match="in the middle of the response"):
        await anext(reading)


async def test_headers_are_limited() -> None:
    stream, transport = made()
    response = stream.send(b"request", None)
    stream.data_received(b"HTTP/1.1 200 OK\r\n")
    for number in range(100):
        stream.data_received(b"X-%d: %b\r\n" % (number, b"x" * 1000))
        if not transport.is_open:
            break
    assert not transport.is_open
    with pytest.raises(InvalidResponse, match="64 KiB"):
        await response.head()
