"""Encodes objects as Kubernetes' protobuf, as the API server does.

The API server writes every field that is not a pointer, even if it is empty, and WebAssembly plugins rely on that. So
zero values are written here too. Their encoding is computed once for each message.
"""

import base64
import functools
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from mooring.api.meta import KubeObject, parse_time
from mooring.api.protobuf.messages import messages

Encoder = Callable[[Any], bytes]
_VARINT, _FIXED64, _BYTES = 0, 1, 2


def encode_object(value: KubeObject) -> bytes:
    """Encode an object of the core group without an envelope."""
    return encode_message(f"core.{value.kind}", msgspec.to_builtins(value))


def encode_list(items: Iterable[bytes]) -> bytes:
    """Encode a list of encoded objects, such as a `NodeList`."""
    return b"".join([tagged(1, encode_message("meta.ListMeta", {})), *(tagged(2, item) for item in items)])


def encode_message(name: str, document: dict[str, Any]) -> bytes:
    """Encode a JSON document as a message, by its name in `messages.json`."""
    return _message(name).encode(document)


def varint(value: int) -> bytes:
    """Encode a 64-bit integer; negative ones take ten bytes."""
    if 0 <= value < 0x80:
        return _SMALL[value]
    value &= 0xFFFFFFFFFFFFFFFF
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


_SMALL: Final = tuple(bytes((value,)) for value in range(0x80))


def tagged(number: int, content: bytes) -> bytes:
    """Encode a field that has a length: a string, bytes or a message."""
    return varint(number << 3 | _BYTES) + varint(len(content)) + content


class _Message:
    """The encoder of a message."""

    def __init__(self, message: str) -> None:
        #: For each field: its name ("" if its fields are inlined), its encoding if it is absent, and its encoder.
        self._fields: list[tuple[str, bytes, Encoder]] = []
        for number, (name, kind) in sorted(messages()[message].items()):
            encode = _field(number, kind)
            zero = {} if kind in messages() else _ZERO.get(kind)
            self._fields.append((name, b"" if zero is None or not name else encode(zero), encode))

    def encode(self, document: dict[str, Any]) -> bytes:
        """Encode a message."""
        parts = []
        for name, absent, encode in self._fields:
            if name:
                value = document.get(name)
                parts.append(absent if value is None else encode(value))
            else:
                parts.append(encode(document))
        return b"".join(parts)


@functools.cache
def _message(name: str) -> _Message:
    return _Message(name)


def _field(number: int, kind: str) -> Encoder:
    """Return the encoder of a field, including its tag."""
    if kind.startswith("list:"):
        each = _field(number, kind[5:])
        return lambda values: b"".join([each(value) for value in values])
    if kind.startswith("map:"):
        return _map_field(number, kind[4:])
    kind = kind.lstrip("*")
    wire = _WIRES.get(kind, _BYTES)
    tag, content = varint(number << 3 | wire), _content(kind)
    if wire != _BYTES:
        return lambda value: tag + content(value)

    def encode(value: Any) -> bytes:
        written = content(value)
        return b"".join((tag, varint(len(written)), written))

    return encode


def _map_field(number: int, kind: str) -> Encoder:
    tag, key_of, value_of = varint(number << 3 | _BYTES), _field(1, "string"), _field(2, kind)

    def encode(values: dict[str, Any]) -> bytes:
        entries: list[bytes] = []
        for key in sorted(values):
            entry = key_of(key) + value_of(values[key])
            entries += (tag, varint(len(entry)), entry)
        return b"".join(entries)

    return encode


def _content(kind: str) -> Encoder:
    special = _SPECIAL.get(kind)
    if special is not None:
        return special
    return lambda document: _message(kind).encode(document)


def _quantity(value: Any) -> bytes:
    return tagged(1, str(value).encode())


def _int_or_string(value: Any) -> bytes:
    is_text = isinstance(value, str)
    number, text = (0, value) if is_text else (value, "")
    return b"".join((b"\x08", varint(int(is_text)), b"\x10", varint(number), tagged(3, text.encode())))


def _time(value: str) -> bytes:
    if not value:
        return b""
    moment = parse_time(value)
    seconds = math.floor(moment)
    return b"\x08" + varint(seconds) + b"\x10" + varint(round((moment - seconds) * 1e6) * 1000)


def _raw(value: Any) -> bytes:
    return tagged(1, msgspec.json.encode(value))


_WIRES: Final = {"int": _VARINT, "bool": _VARINT, "double": _FIXED64}
_SPECIAL: Final[dict[str, Encoder]] = {
    "string": str.encode,
    "bytes": base64.b64decode,
    "int": varint,
    "bool": lambda value: varint(int(value)),
    "double": lambda value: struct.pack("<d", value),
    "quantity": _quantity,
    "intstr": _int_or_string,
    "time": _time,
    "micro": _time,
    "raw": _raw,
    "items": lambda values: b"".join([tagged(1, value.encode()) for value in values]),
}
#: The zero values of types that are not pointers, lists or maps. Times are empty.
_ZERO: Final[dict[str, Any]] = {
    "string": "", "int": 0, "bool": False, "double": 0.0, "quantity": "0", "intstr": 0, "time": "", "micro": "",
}  # fmt: skip
