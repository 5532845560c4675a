"""The protocol between the scheduler and a plugin's process: length-prefixed MessagePack messages.

The scheduler never unpickles data from a plugin's process, because that could run code.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.framework.events import ActionType, ClusterEvent
from mooring.framework.status import Code, PermitWait, PreFilterResult, Status
from mooring.framework.verdicts import Verdicts

_HEAD: Final = struct.Struct("<I")
_CHUNK: Final = 1 << 20
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Closed(Exception):
    """An error: the other side closed the channel."""


class Late(Exception):
    """An error: the deadline passed."""


def send(channel: socket.socket, message: object, deadline: float | None = None) -> None:
    """Send a message. Raises Closed or Late."""
    data = _encode(message)
    view = memoryview(_HEAD.pack(len(data)) + data)
    try:
        while view:
            _wait(channel, deadline, write=True)
            view = view[channel.send(view) :]
    except OSError:
        raise Closed from None


def receive(channel: socket.socket, deadline: float | None = None) -> Any:
    """Return the next message. Raises Closed or Late."""
    (size,) = _HEAD.unpack(_read(channel, _HEAD.size, deadline))
    return _decode(_read(channel, size, deadline))


def _read(channel: socket.socket, size: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    while size:
        _wait(channel, deadline, write=False)
        try:
            part = channel.recv(min(size, _CHUNK))
        except OSError:
            raise Closed from None
        if not part:
            raise Closed
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _wait(channel: socket.socket, deadline: float | None, *, write: bool) -> None:
    if deadline is None:
        return  # the plugin's process waits without a deadline
    poll = select.poll()
    poll.register(channel, select.POLLOUT if write else select.POLLIN)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise Late


# Results of plugins


def pack(answer: object) -> object:
    """Encode a result as plain data. Raises TypeError for a type that no extension point returns."""
    if answer is None or isinstance(answer, bool | int | float | str):
        return answer
    if isinstance(answer, np.generic):
        return answer.item()
    if isinstance(answer, Status):
        return ["status", int(answer.code), list(answer.reasons)]
    if isinstance(answer, np.ndarray):
        if answer.dtype.kind not in "iufb":
            raise TypeError(f"an array of {answer.dtype} was returned; return numbers")
        return ["array", answer.dtype.str, answer.tobytes()]
    if isinstance(answer, Verdicts):
        codes = np.asarray(answer.codes, dtype=np.int32)
        statuses = [[int(code), *pack(answer.status(int(code)))[1:]] for code in np.unique(codes[codes != 0])]  # type: ignore[index]
        return ["verdicts", codes.tobytes(), statuses, bool(answer.may_fail)]
    if isinstance(answer, PreFilterResult):
        return ["names", None if answer.node_names is None else sorted(answer.node_names)]
    if isinstance(answer, PermitWait):
        return ["wait", answer.seconds, answer.allow_after]
    if isinstance(answer, list | tuple) and all(isinstance(each, ClusterEvent) for each in answer):
        return ["events", [[each.resource, int(each.actions)] for each in answer]]
    raise TypeError(f"returned {type(answer).__name__}, which no extension point accepts")


def unpack(data: Any) -> Any:
    """Decode a result from plain data."""
    if not isinstance(data, list):
        return data
    kind, *rest = data
    if kind == "status":
        return Status(Code(rest[0]), tuple(rest[1]))
    if kind == "array":
        return np.frombuffer(rest[1], dtype=np.dtype(rest[0])).copy()
    if kind == "verdicts":
        codes: npt.NDArray[np.int32] = np.frombuffer(rest[0], dtype=np.int32)
        statuses = {number: Status(Code(code), tuple(reasons)) for number, code, reasons in rest[1]}
        return Verdicts(codes, statuses.__getitem__, may_fail=rest[2])
    if kind == "names":
        return PreFilterResult() if rest[0] is None else PreFilterResult.only(rest[0])
    if kind == "wait":
        return PermitWait(rest[0], rest[1])
    if kind == "events":
        return tuple(ClusterEvent(resource, ActionType(actions)) for resource, actions in rest[0])
    raise ValueError(f"unknown answer {kind!r}")
