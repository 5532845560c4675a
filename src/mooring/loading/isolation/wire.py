"""The protocol between the scheduler and a plugin's process: length-prefixed MessagePack messages.

The scheduler never unpickles data from a plugin's process, because that could run code.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.framework.events import ActionType, ClusterEvent
from mooring.framework.status import Code, PermitWait, PreFilterResult, Status
from mooring.framework.verdicts import Verdicts

_HEAD: Final = struct.Struct("<I")
_CHUNK: Final = 1 << 20
#: The maximum size of a reply. 100,000 nodes with a reason each need about 10 MB.
MAX_REPLY_BYTES: Final = 32 << 20
#: The limits of a reported exception: the length of its message, and the number of frames.
MAX_ERROR: Final = 4_000
MAX_FRAMES: Final = 50
#: The interval at which `receive` calls `check` while it waits.
_CHECK_SECONDS: Final = 0.1
#: The kinds of NumPy types that plugins may return, and the maximum size of an item (a long double).
_NUMBERS: Final = "iufb"
_MAX_ITEM_BYTES: Final = 16
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Closed(Exception):
    """An error: the other side closed the channel."""


class Late(Exception):
    """An error: the deadline passed."""


class InvalidReply(Exception):
    """An error: the plugin's process sent something that is not the reply to the last message."""


class _Answer(msgspec.Struct, array_like=True):
    """A result of a plugin as plain data: its kind, then its parts."""


class _Status(_Answer, tag="status"):
    code: int
    reasons: list[str]


class _Array(_Answer, tag="array"):
    dtype: str
    data: bytes


class _Verdicts(_Answer, tag="verdicts"):
    codes: bytes
    #: For each code: itself, the code of its status, and the reasons.
    statuses: list[tuple[int, int, list[str]]]
    may_fail: bool


class _Names(_Answer, tag="names"):
    names: list[str] | None


class _Wait(_Answer, tag="wait"):
    seconds: float
    allow_after: float | None


class _Events(_Answer, tag="events"):
    events: list[tuple[str, int]]


class _State(_Answer, tag="state"):
    data: bytes


Packed: TypeAlias = (
    _Status | _Array | _Verdicts | _Names | _Wait | _Events | _State | bool | int | float | str | None
)  # fmt: skip


class Reply(msgspec.Struct):
    """The reply to a message: the number of the message, and the answer or an exception of the plugin."""

    number: int
    answer: Packed = None
    error: str = ""
    text: str = ""
    frames: list[tuple[str, int, str, str]] = []


_decode_reply = msgspec.msgpack.Decoder(Reply).decode


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


def receive(channel: socket.socket) -> Any:
    """Return the next message of the scheduler, which a plugin's process trusts. Raises Closed."""
    (size,) = _HEAD.unpack(_read(channel, _HEAD.size, None, None))
    return _decode(_read(channel, size, None, None))


def receive_reply(
    channel: socket.socket, number: int, deadline: float, check: Callable[[], None] | None = None
) -> Reply:
    """Return the reply to the message with a number. Raises Closed, Late, InvalidReply, and what ``check`` raises.

    ``check`` is called now and then while the reply is awaited.
    """
    (size,) = _HEAD.unpack(_read(channel, _HEAD.size, deadline, check))
    if size > MAX_REPLY_BYTES:
        raise InvalidReply(f"its answer has {size >> 20} MiB; the limit is {MAX_REPLY_BYTES >> 20} MiB")
    try:
        reply = _decode_reply(_read(channel, size, deadline, check))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidReply("its answer is invalid") from None
    if reply.number != number:
        # For example a child process of the plugin, which has the same socket, has sent it.
        raise InvalidReply("its answer does not belong to the last call")
    return reply


def _read(channel: socket.socket, size: int, deadline: float | None, check: Callable[[], None] | None) -> bytes:
    parts: list[bytes] = []
    while size:
        _wait(channel, deadline, check, write=False)
        try:
            part = channel.recv(min(size, _CHUNK))
        except OSError:
            raise Closed from None
        if not part:
            raise Closed
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _wait(
    channel: socket.socket, deadline: float | None, check: Callable[[], None] | None = None, *, write: bool
) -> None:
    if deadline is None:
        return  # the plugin's process waits without a deadline
    poll = select.poll()
    poll.register(channel, select.POLLOUT if write else select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Late
        if poll.poll((left if check is None else min(left, _CHECK_SECONDS)) * 1000):
            return
        if check is not None:
            check()


# Results of plugins


def pack(answer: object) -> Packed:
    """Encode a result as plain data. Raises TypeError for a type that no extension point returns."""
    if answer is None or isinstance(answer, bool | int | float | str):
        return answer
    if isinstance(answer, bytes):
        return _State(answer)
    if isinstance(answer, np.generic):
        return answer.item()  # type: ignore[no-any-return]  # a number
    if isinstance(answer, Status):
        return _Status(int(answer.code), list(answer.reasons))
    if isinstance(answer, np.ndarray):
        if answer.dtype.kind not in _NUMBERS:
            raise TypeError(f"an array of {answer.dtype} was returned; return numbers")
        return _Array(answer.dtype.str, answer.tobytes())
    if isinstance(answer, Verdicts):
        codes = np.asarray(answer.codes, dtype=np.int32)
        numbers = [int(code) for code in np.unique(codes[codes != 0])]
        statuses = [(number, answer.status(number)) for number in numbers]
        listed = [(number, int(status.code), list(status.reasons)) for number, status in statuses]
        return _Verdicts(codes.tobytes(), listed, bool(answer.may_fail))
    if isinstance(answer, PreFilterResult):
        return _Names(None if answer.node_names is None else sorted(answer.node_names))
    if isinstance(answer, PermitWait):
        return _Wait(answer.seconds, answer.allow_after)
    if isinstance(answer, list | tuple) and all(isinstance(each, ClusterEvent) for each in answer):
        return _Events([(each.resource, int(each.actions)) for each in answer])
    raise TypeError(f"returned {type(answer).__name__}, which no extension point accepts")


def unpack(answer: Packed) -> Any:
    """Decode a result. Raises InvalidReply if it is not one that `pack` returns."""
    try:
        return _unpack(answer)
    except (TypeError, ValueError):
        raise InvalidReply("its answer is invalid") from None


def _unpack(answer: Packed) -> Any:
    if isinstance(answer, _Status):
        return Status(Code(answer.code), tuple(answer.reasons))
    if isinstance(answer, _Array):
        dtype = np.dtype(answer.dtype)
        if dtype.kind not in _NUMBERS or dtype.itemsize > _MAX_ITEM_BYTES:
            raise ValueError("not an array of numbers")
        return np.frombuffer(answer.data, dtype=dtype).copy()
    if isinstance(answer, _Verdicts):
        codes: npt.NDArray[np.int32] = np.frombuffer(answer.codes, dtype=np.int32)
        statuses = {number: Status(Code(code), tuple(reasons)) for number, code, reasons in answer.statuses}
        if not statuses.keys() >= set(np.unique(codes[codes != 0]).tolist()):
            raise ValueError("a verdict has no status")
        return Verdicts(codes, statuses.__getitem__, may_fail=answer.may_fail)
    if isinstance(answer, _Names):
        return PreFilterResult() if answer.names is None else PreFilterResult.only(answer.names)
    if isinstance(answer, _Wait):
        return PermitWait(answer.seconds, answer.allow_after)
    if isinstance(answer, _Events):
        return tuple(ClusterEvent(resource, ActionType(actions)) for resource, actions in answer.events)
    return answer.data if isinstance(answer, _State) else answer
