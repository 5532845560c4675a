"""The frames of HTTP/2 (RFC 9113): their layout, and the checks that need no state of a connection."""

import enum
import struct
from collections.abc import Iterator
from typing import Final

#: What a client sends first.
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_SIZE: Final = 9
#: The length in 24 bits with the type in 8 bits, the flags, and the stream.
HEAD: Final = struct.Struct(">IBI")
#: The largest frame that a peer may send which has not been told otherwise.
MAX_FRAME: Final = 1 << 14
MAX_WINDOW: Final = (1 << 31) - 1
DEFAULT_WINDOW: Final = (1 << 16) - 1
MAX_STREAM: Final = (1 << 31) - 1
_RESERVED: Final = 1 << 31

# Plain integers: a comparison with a member of an enumeration takes longer.
DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

#: The sizes of the frames with a fixed one.
SIZES: Final = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
#: Frames about the connection, and frames about a stream. WINDOW_UPDATE is both.
OF_CONNECTION: Final = frozenset({SETTINGS, PING, GOAWAY})
OF_STREAM: Final = frozenset({DATA, HEADERS, PRIORITY, RST_STREAM, PUSH_PROMISE, CONTINUATION})


class Setting(enum.IntEnum):
    """The settings that this client sends or reads."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5


class ErrorCode(enum.IntEnum):
    """The reason why a peer ends a stream or a connection."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class ProtocolViolation(Exception):
    """The peer has sent what HTTP/2 does not allow. The connection cannot be used any more."""

    def __init__(self, problem: str, code: ErrorCode = ErrorCode.PROTOCOL_ERROR) -> None:
        super().__init__(f"the server violates HTTP/2: {problem}")
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Encode a frame."""
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def header_frames(stream: int, block: bytes, flags: int, max_frame: int) -> bytes:
    """Encode a header block as a HEADERS frame, and CONTINUATION frames if it is too large for one."""
    if len(block) <= max_frame:
        return frame(HEADERS, flags | END_HEADERS, stream, block)
    parts = [block[start : start + max_frame] for start in range(0, len(block), max_frame)]
    frames = [frame(HEADERS, flags, stream, parts[0])]
    frames += [frame(CONTINUATION, 0, stream, part) for part in parts[1:-1]]
    frames.append(frame(CONTINUATION, END_HEADERS, stream, parts[-1]))
    return b"".join(frames)


def settings_frame(values: dict[Setting, int]) -> bytes:
    """Encode a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", key, value) for key, value in values.items()))


def number_frame(kind: int, stream: int, number: int) -> bytes:
    """Encode a frame with one number: a RST_STREAM or WINDOW_UPDATE."""
    return frame(kind, 0, stream, number.to_bytes(4, "big"))


def goaway_frame(code: ErrorCode) -> bytes:
    """Encode a GOAWAY frame of a client, which has accepted no stream of the server."""
    return frame(GOAWAY, 0, 0, struct.pack(">II", 0, code))


def check_layout(kind: int, stream: int, size: int) -> None:
    """Check the size and the stream of a frame. Raises ProtocolViolation."""
    if SIZES.get(kind, size) != size or (kind == SETTINGS and size % 6) or (kind == GOAWAY and size < 8):
        raise ProtocolViolation(f"a frame of type {kind} with {size} bytes", ErrorCode.FRAME_SIZE_ERROR)
    if (kind in OF_CONNECTION and stream) or (kind in OF_STREAM and not stream):
        raise ProtocolViolation(f"a frame of type {kind} on stream {stream}")


def read_settings(payload: bytes) -> Iterator[tuple[int, int]]:
    """Yield the settings in a SETTINGS frame. Raises ProtocolViolation for an invalid value."""
    key: int
    value: int
    for key, value in struct.iter_unpack(">HI", payload):
        if key == Setting.INITIAL_WINDOW_SIZE and value > MAX_WINDOW:
            raise ProtocolViolation(f"an initial window of {value} bytes", ErrorCode.FLOW_CONTROL_ERROR)
        if key == Setting.MAX_FRAME_SIZE and not MAX_FRAME <= value < 1 << 24:
            raise ProtocolViolation(f"a maximum frame size of {value} bytes")
        if key == Setting.ENABLE_PUSH and value:
            raise ProtocolViolation("a server that enables push")
        yield key, value


def read_number(payload: bytes, start: int = 0) -> int:
    """Return a number of 31 bits."""
    return int.from_bytes(payload[start : start + 4], "big") & ~_RESERVED


def read_code(payload: bytes, start: int = 0) -> str:
    """Return the name of an error code."""
    code = int.from_bytes(payload[start : start + 4], "big")
    return ErrorCode(code).name if code < len(ErrorCode) else f"error {code}"


def without_padding(payload: bytes, flags: int) -> bytes:
    """Return the content of a DATA or HEADERS frame. Raises ProtocolViolation."""
    padding, start = 0, 0
    if flags & PADDED:
        padding, start = (payload[0] if payload else 0), 1
    if flags & HAS_PRIORITY:
        start += 5
    if start + padding > len(payload):
        raise ProtocolViolation("a frame with more padding than content")
    return payload[start : len(payload) - padding]
