from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from mooring.framework import ActionType, ClusterEvent, PermitWait, PreFilterResult, Status, Verdicts
from mooring.loading.isolation.wire import (
    MAX_REPLY_BYTES,
    Closed,
    InvalidReply,
    Late,
    pack,
    receive,
    receive_reply,
    send,
    unpack,
)


@pytest.fixture
def channels() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    yield left, right
    left.close()
    right.close()


def test_messages_arrive_in_order(channels: tuple[socket.socket, socket.socket]) -> None:
    left, right = channels
    send(left, {"a": b"x" * 1000})
    send(left, [1, None])
    assert receive(right) == {"a": b"x" * 1000}
    assert receive(right) == [1, None]


def test_a_closed_channel_and_a_deadline(channels: tuple[socket.socket, socket.socket]) -> None:
    left, right = channels
    with pytest.raises(Late):
        receive_reply(right, 1, time.monotonic() + 0.01)
    left.close()
    with pytest.raises(Closed):
        receive_reply(right, 1, time.monotonic() + 10)
    with pytest.raises(Closed):
        receive(right)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        7,
        "too small",
        Status.unresolvable("never"),
        PreFilterResult.only(["b", "a"]),
        PermitWait(3.0),
        (ClusterEvent("Node", ActionType.ADD),),
    ],
)
def test_results_survive_the_round_trip(answer: object) -> None:
    assert unpack(pack(answer)) == answer


def test_arrays_and_verdicts_survive_the_round_trip() -> None:
    assert unpack(pack(np.array([1.5, -2.0]))).tolist() == [1.5, -2.0]
    verdicts = unpack(pack(Verdicts.of([None, Status.unschedulable("no"), None])))
    assert [int(code) != 0 for code in verdicts.codes] == [False, True, False]
    assert verdicts.status(int(verdicts.codes[1])) == Status.unschedulable("no")


@pytest.mark.parametrize("answer", [object(), np.array(["a"]), [1, 2]])
def test_results_of_other_types_are_rejected(answer: object) -> None:
    with pytest.raises(TypeError, match="return"):
        pack(answer)


# A plugin's process that sends what it likes


def _replied(channels: tuple[socket.socket, socket.socket], data: bytes, *, head: bytes | None = None) -> Any:
    left, right = channels
    left.sendall((struct.pack("<I", len(data)) if head is None else head) + data)
    return unpack(receive_reply(right, 7, time.monotonic() + 10).answer)


def test_a_reply_has_the_number_of_its_call(channels: tuple[socket.socket, socket.socket]) -> None:
    assert _replied(channels, msgspec.msgpack.encode({"number": 7, "answer": pack(5)})) == 5
    with pytest.raises(InvalidReply, match="does not belong to the last call"):
        _replied(channels, msgspec.msgpack.encode({"number": 6, "answer": 5}))


def test_a_reply_that_is_too_large_is_not_read(channels: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(InvalidReply, match="has 32 MiB; the limit is 32 MiB"):
        _replied(channels, b"", head=struct.pack("<I", MAX_REPLY_BYTES + 1))


@pytest.mark.parametrize(
    "answer",
    [
        ["status", 99, []],
        ["status", 1, [5]],
        ["array", "O", b"12345678"],
        ["array", "V9999999", b""],
        ["array", "nonsense", b""],
        ["array", "<i8", b"123"],
        ["array", "<i8", "text"],
        ["verdicts", b"\1\0\0\0", [], False],
        ["verdicts", b"\1", [], False],
        ["names", [1]],
        ["wait", "long", None],
        ["events", [["Node", "all"]]],
        ["other"],
        [],
        {"a": 1},
    ],
)
def test_answers_that_no_plugin_returns_are_invalid(
    channels: tuple[socket.socket, socket.socket], answer: object
) -> None:
    with pytest.raises(InvalidReply, match="its answer is invalid"):
        _replied(channels, msgspec.msgpack.encode({"number": 7, "answer": answer}))


_ANSWERS: list[object] = [
    None, True, 7, 1.5, "text", b"state", Status.unresolvable("never"), PreFilterResult.only(["b", "a"]),
    PermitWait(3.0), (ClusterEvent("Node", ActionType.ADD),), np.arange(4),
    Verdicts.of([None, Status.unschedulable("no"), Status.error("broken")]),
]  # fmt: skip


def _flip(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] = rng.randrange(256)


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _nest(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data)) :] = b"\x91" * 100_000


@pytest.mark.parametrize("damage", [_flip, _cut, _nest])
def test_damaged_replies_are_answers_or_invalid(
    channels: tuple[socket.socket, socket.socket], damage: Callable[[random.Random, bytearray], None]
) -> None:
    """Whatever arrives, nothing but InvalidReply is raised."""
    rng = random.Random(damage.__name__)
    invalid = 0
    for _ in range(20):
        for answer in _ANSWERS:
            data = bytearray(msgspec.msgpack.encode({"number": 7, "answer": pack(answer), "frames": []}))
            damage(rng, data)
            try:
                _replied(channels, bytes(data))
            except InvalidReply:
                invalid += 1
    assert invalid > 50
