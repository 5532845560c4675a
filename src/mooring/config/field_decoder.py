"""Decodes nodes to values of declared types, strictly: reports every unknown field and every wrong type."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any, Final, assert_never

import msgspec

from mooring.api.yaml_nodes import Entry, Mapping, Node, Scalar, Sequence, is_null, plain
from mooring.api.yaml_scalars import single
from mooring.config.config_errors import FieldError, nearest
from mooring.config.durations import DurationError, parse_duration
from mooring.config.schema import ListOf, MapOf, Struct, Type, Value

_INTEGER: Final = re.compile(r"-?[0-9]+")
_BITS: Final = {"int32": 31, "int64": 63}
_EXPECTED: Final = {
    "string": "text",
    "bool": "true or false",
    "int32": "a 32-bit integer",
    "int64": "a 64-bit integer",
    "float32": "a number",
    "bytes": "base64 text",
    "duration": "a duration such as 15s",
    "raw": "anything",
}
#: The maximum number of unknown fields that are reported, as in kube-scheduler.
_MOST: Final = 100


class Faults(msgspec.Struct):
    """Errors found while decoding."""

    #: Values of the wrong type. kube-scheduler stops at the first one.
    types: list[FieldError] = msgspec.field(default_factory=list)
    #: Unknown fields and, in JSON, repeated fields.
    strict: list[FieldError] = msgspec.field(default_factory=list)
    _seen: set[tuple[bool, str]] = msgspec.field(default_factory=set)

    def wrong_type(self, path: str, message: str, line: int, remedy: str | None = None) -> None:
        """Add a value of the wrong type."""
        self.types.append(FieldError(path, message, line, remedy))

    def unknown(self, path: str, entry: Entry, known: Struct) -> None:
        """Add an unknown field."""
        close = nearest(entry.key, known.fields)
        remedy = f'Did you mean "{close}"?' if close else f"Known here: {', '.join(sorted(known.fields))}."
        self._note(FieldError(path, f'unknown field "{entry.key}"', entry.line, remedy), repeated=False)

    def twice(self, path: str, entry: Entry) -> None:
        """Add a repeated field."""
        error = FieldError(path, f'the field "{entry.key}" is given twice', entry.line, "Remove one of them.")
        self._note(error, repeated=True)

    def _note(self, error: FieldError, *, repeated: bool) -> None:
        if (repeated, error.path) not in self._seen and len(self.strict) < _MOST:
            self._seen.add((repeated, error.path))
            self.strict.append(error)


def decode_struct(node: Node, struct: Struct, path: str, faults: Faults) -> dict[str, Any]:
    """Return the fields of a mapping that are set, by name. A null field counts as unset."""
    if is_null(node):
        return {}
    if not isinstance(node, Mapping):
        faults.wrong_type(path, f"expected a mapping, found {node.describe()}", node.line)
        return {}
    values: dict[str, Any] = {}
    seen: set[str] = set()
    for entry in _in_order(node):
        place = f"{path}.{entry.key}" if path else entry.key
        kind = struct.fields.get(entry.key)
        if kind is None:
            faults.unknown(place, entry, struct)
            continue
        if entry.key in seen:
            faults.twice(place, entry)
        seen.add(entry.key)
        if not is_null(entry.value) or (isinstance(kind, Value) and not kind.nullable):
            values[entry.key] = decode(entry.value, kind, place, faults)
    return values


def decode(node: Node, kind: Type, path: str, faults: Faults) -> Any:
    """Return the value of a node as the declared type, or a zero value and an error."""
    match kind:
        case Struct():
            return decode_struct(node, kind, path, faults)
        case ListOf():
            if not isinstance(node, Sequence):
                faults.wrong_type(path, f"expected a list, found {node.describe()}", node.line)
                return []
            items = enumerate(node.items)
            return [_item(item, kind.item, f"{path}[{index}]", faults) for index, item in items]
        case MapOf():
            return _decode_map(node, kind, path, faults)
        case Value():
            return _decode_value(node, kind, path, faults)
        case _:
            assert_never(kind)


def _in_order(node: Mapping) -> list[Entry]:
    # Kubernetes converts YAML to JSON with sorted fields, which determines the order of errors.
    return node.entries if node.source is not None else sorted(node.entries, key=lambda entry: entry.key)


def _item(node: Node, kind: Type, path: str, faults: Faults) -> Any:
    if is_null(node) and not (isinstance(kind, Value) and not kind.nullable):
        return zero(kind)
    return decode(node, kind, path, faults)


def zero(kind: Type) -> Any:
    """Return the zero value of a type."""
    match kind:
        case Struct() | MapOf():
            return {}
        case ListOf():
            return []
        case Value(kind="string"):
            return ""
        case Value(kind="bool"):
            return False
        case Value(kind="bytes"):
            return b""
        case Value(kind="raw"):
            return None
        case _:
            return 0


def _decode_map(node: Node, kind: MapOf, path: str, faults: Faults) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        faults.wrong_type(path, f"expected a mapping, found {node.describe()}", node.line)
        return {}
    values: dict[str, Any] = {}
    for entry in _in_order(node):
        place = f"{path}.{entry.key}"
        if entry.key in values:
            faults.twice(place, entry)
        values[entry.key] = _item(entry.value, kind.item, place, faults)
    return values


def _decode_value(node: Node, kind: Value, path: str, faults: Faults) -> Any:
    if kind.kind == "raw":
        return node
    if kind.kind == "bytes" and isinstance(node, Sequence):
        items = [decode(item, Value("int32"), f"{path}[{i}]", faults) for i, item in enumerate(node.items)]
        if all(0 <= item < 256 for item in items):
            return bytes(items)
    if isinstance(node, Scalar):
        try:
            value = _convert(node, kind)
        except ValueError as error:
            faults.wrong_type(path, str(error), node.line)
            return zero(kind)
        if value is not None:
            return value
    faults.wrong_type(path, f"expected {_EXPECTED[kind.kind]}, found {node.describe()}", node.line, _hint(node, kind))
    return zero(kind)


def _convert(node: Scalar, kind: Value) -> Any:
    """Return the value, or None if it has another type."""
    if kind.kind in ("string", "bytes", "duration"):
        if kind.kind == "duration" and node.kind == "null":
            raise DurationError("a duration cannot be null: write one, such as 15s, or remove the field")
        if node.kind != "string":
            return None
        if kind.kind == "duration":
            return parse_duration(node.text)
        return node.text if kind.kind == "string" else _from_base64(node.text)
    if kind.kind == "bool":
        return node.text == "true" if node.kind == "bool" else None
    if node.kind != "number":
        return None
    if kind.kind == "float32":
        number = float(node.text)
        text = single(number) if abs(number) != float("inf") else None
        return float(text) if text is not None else None
    if _INTEGER.fullmatch(node.text) is None or len(node.text) > 20:
        return None
    value, limit = int(node.text), 1 << _BITS[kind.kind]
    return value if -limit <= value < limit else None


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except ValueError as error:
        raise ValueError(f"the text is not base64: {error}") from None


def _hint(node: Node, kind: Value) -> str | None:
    if not isinstance(node, Scalar):
        return None
    if kind.kind == "string" and node.kind in ("number", "bool"):
        return f'Put it in quotes: "{node.text}".'
    if kind.kind in ("int32", "int64", "float32", "bool") and node.kind == "string":
        return "Write it without quotes."
    if kind.kind == "duration" and node.kind == "number":
        return f"Add the unit: {node.text}s."
    return None


def repeated_keys(root: Node) -> Iterator[FieldError]:
    """Yield the repeated keys of a YAML document."""
    todo: list[tuple[str, Node]] = [("", root)]
    while todo:
        path, node = todo.pop()
        if isinstance(node, Mapping):
            prefix = f"{path}." if path else ""
            for entry in node.repeated:
                message = f'the key "{entry.key}" is set twice'
                yield FieldError(prefix + entry.key, message, entry.line, "Remove one of them.")
            todo += [(prefix + entry.key, entry.value) for entry in node.entries]
        elif isinstance(node, Sequence):
            todo += [(f"{path}[{index}]", item) for index, item in enumerate(node.items)]


def raw_value(node: Node | None) -> Any:
    """Return undeclared arguments as plain data."""
    return None if node is None or is_null(node) else plain(node)
