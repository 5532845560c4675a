"""Decodes Kubernetes' protobuf to JSON documents.

An envelope has the kind. `messages.json` maps the numbers of fields to names. Zero values that Go omits in JSON are
omitted here too.
"""

import base64
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.meta import format_time
from mooring.api.protobuf.messages import messages

MAGIC: Final = b"k8s\x00"
#: The package of Go types behind each API group that is served.
#: The packages of groups, and of group versions other than v1.
_PACKAGES: Final = {"": "core", "rbac.authorization.k8s.io": "rbac", "autoscaling/v2": "autoscaling/v2"}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Wire = int | bytes
Document: TypeAlias = dict[str, Any]


class ProtobufError(ValueError):
    """Invalid protobuf."""


def decode_object(body: bytes) -> Document:
    """Decode an envelope to an object with apiVersion and kind."""
    if not body.startswith(MAGIC):
        raise ProtobufError("the body does not start with the mark of Kubernetes' protobuf")
    try:
        envelope = dict(_fields(body[len(MAGIC) :]))
        names = dict(_fields(_as_bytes(envelope.get(1, b""))))
        version = _as_bytes(names.get(1, b"")).decode()
        kind = _as_bytes(names.get(2, b"")).decode()
        message = _message_name(version, kind)
        return {"apiVersion": version, "kind": kind, **_message(_as_bytes(envelope.get(2, b"")), message)}
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise ProtobufError(f"the body is cut off or damaged: {error}") from None


def decode_message(body: bytes, name: str) -> Document:
    """Decode a message without an envelope, by its name in `messages.json`, such as `core.Pod`."""
    try:
        return _message(body, name)
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise ProtobufError(f"the message is cut off or damaged: {error}") from None


def _message_name(group_version: str, kind: str) -> str:
    group, _, _version = group_version.rpartition("/")
    package = _PACKAGES.get(group_version) or _PACKAGES.get(group) or group.partition(".")[0]
    if kind in {"DeleteOptions", "Status"}:
        package = "meta"
    name = f"{package}.{kind}"
    if name not in messages():
        raise ProtobufError(f"{kind} of {group_version} is not known in protobuf here; send JSON")
    return name


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ProtobufError("a number is longer than 64 bits")


def _fields(data: bytes) -> Iterator[tuple[int, Wire]]:
    """Yield the fields of a message."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire == _BYTES:
            size, at = _varint(data, at)
            if at + size > end:
                raise ProtobufError("a field is longer than the message that it is in")
            yield number, data[at : at + size]
            at += size
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
            yield number, data[at : at + size]
            at += size
        else:
            raise ProtobufError(f"a field has the unknown wire type {wire}")


def _as_bytes(value: Wire) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("a number stands where text or a message should")
    return value


def _as_int(value: Wire) -> int:
    if not isinstance(value, int):
        raise ProtobufError("text or a message stands where a number should")
    return value - 2**64 if value >= 2**63 else value


def _message(data: bytes, name: str) -> Document:
    layout = messages()[name]
    document: Document = {}
    for number, value in _fields(data):
        if number not in layout:
            continue
        field, kind = layout[number]
        if not field:
            document.update(_message(_as_bytes(value), kind))
        elif kind.startswith("list:"):
            document.setdefault(field, []).extend(_elements(value, kind[5:]))
        elif kind.startswith("map:"):
            key, each = _entry(_as_bytes(value), kind[4:])
            document.setdefault(field, {})[key] = each
        else:
            decoded = _value(value, kind.lstrip("*"))
            if kind.startswith("*") or not _is_zero(decoded):
                document[field] = decoded
    return document


def _is_zero(value: Any) -> bool:
    return value is None or value in (0, "", [], {}) or value is False


def _elements(value: Wire, kind: str) -> list[Any]:
    if kind == "int" and isinstance(value, bytes):
        numbers, at = [], 0
        while at < len(value):
            number, at = _varint(value, at)
            numbers.append(_as_int(number))
        return numbers
    return [_value(value, kind)]


def _entry(data: bytes, kind: str) -> tuple[str, Any]:
    fields = dict(_fields(data))
    key = _as_bytes(fields.get(1, b"")).decode()
    empty: Wire = 0 if kind in {"int", "bool"} else b""
    return key, _value(fields.get(2, empty), kind)


def _value(value: Wire, kind: str) -> Any:
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(value)
    return _message(_as_bytes(value), kind)


def _quantity(value: Wire) -> str:
    return _as_bytes(dict(_fields(_as_bytes(value))).get(1, b"")).decode()


def _int_or_string(value: Wire) -> Any:
    fields = dict(_fields(_as_bytes(value)))
    if fields.get(1):
        return _as_bytes(fields.get(3, b"")).decode()
    number = _as_int(fields.get(2, 0))
    return number - 2**32 if number >= 2**31 else number


def _time(value: Wire, *, micro: bool = False) -> str | None:
    fields = dict(_fields(_as_bytes(value)))
    if not fields:
        return None
    seconds, nanos = _as_int(fields.get(1, 0)), _as_int(fields.get(2, 0))
    return format_time(seconds + nanos / 1e9 if micro else seconds, micros=micro)


def _raw(value: Wire) -> Any:
    inner = _as_bytes(dict(_fields(_as_bytes(value))).get(1, b""))
    try:
        return msgspec.json.decode(inner) if inner else {}
    except msgspec.DecodeError as error:
        raise ProtobufError(f"a part that should be JSON is not: {error}") from None


def _items(value: Wire) -> list[str]:
    return [_as_bytes(each).decode() for number, each in _fields(_as_bytes(value)) if number == 1]


def _double(value: Wire) -> float:
    return float(struct.unpack("<d", _as_bytes(value))[0])


_SPECIAL: Final[dict[str, Callable[[Wire], Any]]] = {
    "string": lambda value: _as_bytes(value).decode(),
    "bytes": lambda value: base64.b64encode(_as_bytes(value)).decode(),
    "int": _as_int,
    "bool": lambda value: bool(_as_int(value)),
    "double": _double,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "time": _time,
    "micro": lambda value: _time(value, micro=True),
    "raw": _raw,
    "items": _items,
}
