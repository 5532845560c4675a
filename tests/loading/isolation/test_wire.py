from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest

from mooring.framework import ActionType, ClusterEvent, PermitWait, PreFilterResult, Status, Verdicts
from mooring.loading.isolation.wire import Closed, Late, pack, receive, send, unpack


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
        receive(right, time.monotonic() + 0.01)
    left.close()
    with pytest.raises(Closed):
        receive(right, time.monotonic() + 10)


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
