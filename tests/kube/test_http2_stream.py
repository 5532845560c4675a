"""How a request ends, with and without a response."""

from __future__ import annotations

import asyncio

import pytest

from mooring.kube import OutcomeUnknown
from mooring.kube.http2_stream import Stream
from mooring.kube.http_connection import NotProcessed
from mooring.kube.transport import Answer


@pytest.mark.parametrize(
    ("changes", "refused", "error"),
    [
        ({}, False, OutcomeUnknown),
        ({}, True, NotProcessed),
        # Not written, or not completely: the server cannot have carried it out.
        ({"frames": b"f"}, False, NotProcessed),
        ({"rest": b"r"}, False, NotProcessed),
        # It has begun to answer.
        ({"status": 200}, False, OutcomeUnknown),
        ({"status": 200}, True, OutcomeUnknown),
        ({"status": 413, "rest": b"r"}, False, OutcomeUnknown),
    ],
)
async def test_the_end_without_a_response(changes: dict[str, object], refused: bool, error: type[Exception]) -> None:
    stream = Stream(1, asyncio.get_running_loop().create_future(), 1.0, 0)
    for name, value in changes.items():
        setattr(stream, name, value)
    stream.end("lost", refused=refused)
    stream.end("lost again")
    with pytest.raises(error, match=r"^lost$"):
        await stream.answer


async def test_a_response_is_not_replaced() -> None:
    stream = Stream(1, asyncio.get_running_loop().create_future(), 1.0, 0)
    stream.answer.set_result(Answer(200, {}, b"{}"))
    stream.end("lost")
    assert (await stream.answer).body == b"{}"


@pytest.mark.parametrize(("status", "headers"), [(200, {}), (299, {}), (404, {"a": "b"})])
async def test_headers_of_failures_are_kept(status: int, headers: dict[str, str]) -> None:
    stream = Stream(1, asyncio.get_running_loop().create_future(), 1.0, 0)
    stream.status, stream.headers, stream.body = status, {"a": "b"}, bytearray(b"{}")
    stream.finish()
    stream.finish()
    stream.succeed(b"another")
    assert await stream.answer == Answer(status, headers, b"{}")
