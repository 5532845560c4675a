"""Strict decoding, as in Kubernetes: wrong types are errors, and unknown fields are removed and returned.

Documents are cleaned in place. Absent, null and empty lists and maps are equivalent, and Kubernetes omits all of them.
"""

import base64
import binascii
import datetime
from typing import Any, Final, TypeAlias

from mooring.apiserver.documents import Document
from mooring.apiserver.quantities import QuantityTextError, canonical_quantity
from mooring.cluster.schema.shape import (
    ANY,
    BOOLEAN,
    BYTES,
    INT_OR_STRING,
    INTEGER,
    LIST,
    MAP,
    MICRO_TIME,
    NUMBER,
    OBJECT,
    QUANTITY,
    STRING,
    TIME,
    Shape,
    metadata_shape,
)

#: The current position in the document: the parent position and the last step (a field, an index, or the key of a map
#: as a tuple). It is converted to text only for a message.
_Path: TypeAlias = "tuple[_Path, _Step] | None"
_Step: TypeAlias = str | int | tuple[str]

_ZEROS: Final[dict[str, Any]] = {QUANTITY: "0", INTEGER: 0, NUMBER: 0, BOOLEAN: False, INT_OR_STRING: 0}
_LIMITS: Final = {32: 2**31, 64: 2**63}


class DecodeError(ValueError):
    """An error for a document that cannot be decoded. The message is that of Kubernetes."""


class _Findings:
    """The unknown fields found so far, and whether to add absent objects."""

    __slots__ = ("fill", "unknown")

    def __init__(self, *, fill: bool) -> None:
        self.fill = fill
        self.unknown: list[str] = []


def check(document: Document, shape: Shape, *, fill: bool = True) -> list[str]:
    """Clean a document in place, and return the paths of unknown fields.

    `fill` adds the empty objects that Kubernetes always writes. They are not added to an applied document, because its
    manager would own them.
    """
    found = _Findings(fill=fill)
    _object(document, shape, None, found)
    return found.unknown


def _object(value: Document, shape: Shape, path: _Path, found: _Findings) -> None:
    fields = shape.fields
    for key in list(value):
        each = value[key]
        child = fields.get(key)
        if child is None:
            if not shape.open:
                found.unknown.append(_dotted((path, key)))
                del value[key]
        elif each is None:
            del value[key]
        elif child.kind is STRING and type(each) is str:
            pass
        else:
            cleaned = _value(each, child, (path, key), found, shape)
            if (cleaned == [] or (cleaned == {} and child.kind is MAP)) and key not in shape.required:
                del value[key]
            else:
                value[key] = cleaned
    if found.fill:
        for key in shape.always:
            if key not in value:
                value[key] = {}
                _object(value[key], fields[key], (path, key), found)
        for key, blank in shape.blanks:
            if key not in value:
                value[key] = blank


def _value(value: Any, shape: Shape, path: _Path, found: _Findings, owner: Shape) -> Any:
    kind = shape.kind
    if kind is OBJECT:
        if type(value) is not dict:
            raise _mismatch(value, shape, path, owner)
        _object(value, shape, path, found)
        return value
    if kind is LIST:
        return _list(value, shape, path, found, owner)
    if kind is MAP:
        return _map(value, shape, path, found, owner)
    if kind is ANY:
        return value
    return _scalar(value, shape, path, owner)


def _list(value: Any, shape: Shape, path: _Path, found: _Findings, owner: Shape) -> Any:
    if type(value) is not list:
        raise _mismatch(value, shape, path, owner)
    item = shape.item
    if item is None:
        return value
    for index, each in enumerate(value):
        if not (item.kind is STRING and type(each) is str):
            value[index] = _value(_zero(item) if each is None else each, item, (path, index), found, owner)
    return value


def _map(value: Any, shape: Shape, path: _Path, found: _Findings, owner: Shape) -> Any:
    if type(value) is not dict:
        raise _mismatch(value, shape, path, owner)
    item = shape.item
    if item is None:
        return value
    for key, each in value.items():
        if each is None:
            value[key] = _zero(item)
        elif not (item.kind is STRING and type(each) is str):
            value[key] = _value(each, item, (path, (key,)), found, owner)
    return value


def _zero(shape: Shape) -> Any:
    """Return the zero value that Go uses for null in a list or map."""
    if shape.kind in {OBJECT, MAP}:
        return {}
    if shape.kind is LIST:
        return []
    return _ZEROS.get(shape.kind, "")


def _scalar(value: Any, shape: Shape, path: _Path, owner: Shape) -> Any:
    kind = shape.kind
    given = type(value)
    if kind is QUANTITY and given in {str, int, float}:
        try:
            return canonical_quantity(value)
        except QuantityTextError as error:
            raise DecodeError(str(error)) from None
    if kind is INTEGER and given is int:
        if not -_LIMITS[shape.width] <= value < _LIMITS[shape.width]:
            raise _mismatch(value, shape, path, owner, shown=f"number {value}")
        return value
    if kind is INTEGER and given is float:
        if value.is_integer():
            return int(value)
        raise _mismatch(value, shape, path, owner, shown=f"number {value}")
    if (
        (kind is BOOLEAN and given is bool)
        or (kind is STRING and given is str)
        or (kind is NUMBER and given in {int, float})
        or (kind is INT_OR_STRING and given in {int, str})
    ):
        return value
    if kind in {TIME, MICRO_TIME} and given is str:
        return _time(value, micro=kind is MICRO_TIME)
    if kind is BYTES and given is str:
        return _bytes(value)
    raise _mismatch(value, shape, path, owner)


def _time(text: str, *, micro: bool) -> str:
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is None or "T" not in text:
            raise ValueError(text)
    except ValueError:
        layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
        raise DecodeError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"') from None
    utc = moment.astimezone(datetime.UTC)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _bytes(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        good = 0
        while good < len(text) and (text[good].isalnum() or text[good] in "+/"):
            good += 1
        raise DecodeError(f"illegal base64 data at input byte {good}") from None
    return text


def _mismatch(value: Any, shape: Shape, path: _Path, owner: Shape, shown: str | None = None) -> DecodeError:
    if shown is None:
        shown = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}[
            type(value)
        ]
    field = ".".join(step for step in _steps(path) if isinstance(step, str))
    if shape.kind in {TIME, MICRO_TIME, INT_OR_STRING}:
        return DecodeError(f"json: cannot unmarshal {shown} into Go value of type string")
    if owner.name:
        return DecodeError(
            f"json: cannot unmarshal {shown} into Go struct field {owner.name}.{field} of type {shape.go_type}"
        )
    return DecodeError(f"json: cannot unmarshal {shown} into Go value of type {shape.go_type}")


def _steps(path: _Path) -> list[_Step]:
    steps: list[_Step] = []
    while path is not None:
        path, step = path
        steps.append(step)
    steps.reverse()
    return steps


def _dotted(path: _Path) -> str:
    text = ""
    for step in _steps(path):
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if isinstance(step, str) else step[0]
            text += f".{name}" if text else name
    return text


def prune_custom(document: Document, shape: Shape) -> list[str]:
    """Clean a document in place, and return the paths of fields that the schema does not have."""
    unknown: list[str] = []
    metadata = document.get("metadata")
    if metadata is not None:
        if not isinstance(metadata, dict):
            raise DecodeError("json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta")
        unknown += [f"metadata.{each}" for each in check(metadata, metadata_shape())]
    for key in list(document):
        if key in {"apiVersion", "kind", "metadata"}:
            continue
        if key in shape.fields:
            _prune(document[key], shape.fields[key], key, unknown)
        elif not shape.open:
            unknown.append(key)
            del document[key]
    return unknown


def _prune(value: Any, shape: Shape, path: str, unknown: list[str]) -> None:
    if shape.kind == OBJECT and isinstance(value, dict):
        for key in list(value):
            child = shape.fields.get(key)
            if child is not None:
                _prune(value[key], child, f"{path}.{key}", unknown)
            elif shape.embedded and key in {"apiVersion", "kind", "metadata"}:
                continue
            elif not shape.open:
                unknown.append(f"{path}.{key}")
                del value[key]
    elif shape.kind == MAP and isinstance(value, dict) and shape.item is not None:
        for key, each in value.items():
            _prune(each, shape.item, f"{path}.{key}", unknown)
    elif shape.kind == LIST and isinstance(value, list) and shape.item is not None:
        for index, each in enumerate(value):
            _prune(each, shape.item, f"{path}[{index}]", unknown)
