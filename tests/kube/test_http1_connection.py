"""HTTP/1.1: the headers and bodies of responses on one connection."""

import asyncio

import pytest

from tests.kube.test_fast_writer import ask, connected
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    "rest", [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\n\x00", b"HTTP/1.1 101 Up\r\nUpgrade: x\r\n\r\n"]
)
async def test_data_after_a_refusal_does_not_lose_its_answer(rest: bytes) -> None:
    refusal = b"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}"
    async with connected(lambda number: [refusal + rest]) as (_, _, writer):
        async with asyncio.timeout(PATIENCE):
            answer = await ask(writer)
        assert (answer.status, answer.headers["retry-after"], answer.body) == (429, "3", b"{}")


async def test_each_response_of_a_connection_has_its_own_headers_and_body() -> None:
    def reply(number: int) -> list[bytes | float | None]:
        if number % 2:
            return [b"HTTP/1.1 201 Created\r\nX-Odd: 1\r\nContent-Length: 5\r\n\r\n{odd}"]
        body = b"{%d}" % number
        head = b"HTTP/1.1 409 Conflict\r\nX-Even: %d\r\nContent-Length: %d\r\n\r\n" % (number, len(body))
        return [head[:20], 0.0, head[20:] + body[:1], 0.0, body[1:]]

    async with connected(reply) as (raw, _, writer):
        for number in range(1, 7):
            answer = await ask(writer)
            if number % 2:
                assert (answer.status, answer.body) == (201, b"{odd}")
            else:
                assert (answer.status, answer.body) == (409, b"{%d}" % number)
                assert {name: answer.headers[name] for name in answer.headers} == {
                    "x-even": str(number),
                    "content-length": str(len(answer.body)),
                }
        assert raw.connections == 1
