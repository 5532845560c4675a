"""Extenders' replies, decoded as in Go: case-insensitive names, null for absent, the first JSON value only.

Anything invalid raises ExtenderError with the message that kube-scheduler would write to the pod's condition.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from mooring.scheduler.extenders.request import Reply

_INT64: Final = 1 << 63
_KINDS: Final = {bool: "bool", str: "string", list: "array", dict: "object"}
_LITERALS: Final = {"n": "null", "t": "true", "f": "false"}


class ExtenderError(Exception):
    """A call that failed, or an invalid reply."""


class Filtered(msgspec.Struct, frozen=True):
    """The names of the nodes that pass an extender; None if the reply contains none."""

    names: tuple[str, ...] | None
    #: Reasons, by node.
    failed: dict[str, str]
    unresolvable: dict[str, str]


class MetaVictims(msgspec.Struct, frozen=True):
    """The uids of victims, and how many of them violate a budget."""

    uids: tuple[str, ...]
    violations: int


def read_filtered(reply: Reply, *, names_only: bool) -> Filtered:
    """Decode the reply to filter. Raises ExtenderError."""
    fields = _Fields(_value(reply), "ExtenderFilterResult")
    names = fields.strings("NodeNames")
    nodes = fields.objects("Nodes", "v1.NodeList")
    failed, unresolvable = fields.texts("FailedNodes"), fields.texts("FailedAndUnresolvableNodes")
    if error := fields.text("Error"):
        raise ExtenderError(error)
    if names_only and names is not None:
        return Filtered(tuple(names), failed, unresolvable)
    if nodes is None:
        return Filtered(None, failed, unresolvable)
    items = _Fields(nodes, "NodeList").items()
    return Filtered(tuple(_name_of(item) for item in items), failed, unresolvable)


def read_priorities(reply: Reply) -> list[tuple[str, int]]:
    """Decode the reply to prioritize: nodes and their scores. Raises ExtenderError."""
    value = _value(reply)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _mismatch(value, "Go value of type v1.HostPriorityList")
    fields = [_Fields(each, "HostPriority", "v1.HostPriority") for each in value]
    return [(each.text("Host"), each.number("Score")) for each in fields]


def read_victims(reply: Reply) -> dict[str, MetaVictims]:
    """Decode the reply to preempt: the victims on each remaining node. Raises ExtenderError."""
    fields = _Fields(_value(reply), "ExtenderPreemptionResult")
    by_node = fields.objects("NodeNameToMetaVictims", "map[string]*v1.MetaVictims") or {}
    found = {}
    for node, victims in by_node.items():
        if victims is None:
            raise ExtenderError(f'expected at least one victim pod on node "{node}"')
        each = _Fields(victims, "MetaVictims", "v1.MetaVictims")
        pods = each.get("Pods") or []
        if not isinstance(pods, list):
            raise _mismatch(pods, "Go struct field MetaVictims.Pods of type []*v1.MetaPod")
        uids = tuple(_Fields(pod, "MetaPod", "v1.MetaPod").text("UID") for pod in pods)
        found[node] = MetaVictims(uids, each.number("NumPDBViolations"))
    return found


def check_bound(reply: Reply) -> None:
    """Check the reply to bind. Raises ExtenderError."""
    if error := _Fields(_value(reply), "ExtenderBindingResult").text("Error"):
        raise ExtenderError(error)


def _name_of(item: Any) -> str:
    metadata = _Fields(item, "Node", "v1.Node").get("metadata")
    return _Fields(metadata, "ObjectMeta", "v1.ObjectMeta").text("name")


class _Fields:
    """The fields of a JSON object by case-insensitive name; of several, the last one counts."""

    def __init__(self, value: Any, struct: str, kind: str = "") -> None:
        if value is not None and not isinstance(value, dict):
            raise _mismatch(value, f"Go value of type {kind or f'v1.{struct}'}")
        self._struct = struct
        self._values = {key.lower(): each for key, each in (value or {}).items()}

    def get(self, name: str) -> Any:
        return self._values.get(name.lower())

    def _typed(self, name: str, types: type | tuple[type, ...], kind: str) -> Any:
        value = self.get(name)
        if value is not None and (not isinstance(value, types) or (isinstance(value, bool) and bool is not types)):
            raise _mismatch(value, f"Go struct field {self._struct}.{name} of type {kind}")
        return value

    def text(self, name: str) -> str:
        return self._typed(name, str, "string") or ""

    def number(self, name: str) -> int:
        value: int = self._typed(name, int, "int64") or 0
        if not -_INT64 <= value < _INT64:
            raise _mismatch(value, f"Go struct field {self._struct}.{name} of type int64")
        return value

    def strings(self, name: str) -> list[str] | None:
        values: list[Any] | None = self._typed(name, list, "[]string")
        for each in values or ():
            if each is not None and not isinstance(each, str):
                raise _mismatch(each, f"Go struct field {self._struct}.{name} of type string")
        return None if values is None else [each or "" for each in values]

    def texts(self, name: str) -> dict[str, str]:
        values: dict[str, Any] = self._typed(name, dict, "v1.FailedNodesMap") or {}
        for each in values.values():
            if each is not None and not isinstance(each, str):
                raise _mismatch(each, f"Go struct field {self._struct}.{name} of type string")
        return {key: each or "" for key, each in values.items()}

    def objects(self, name: str, kind: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._typed(name, dict, kind)
        return found

    def items(self) -> list[Any]:
        return self._typed("items", list, "[]v1.Node") or []


def _mismatch(value: Any, where: str) -> ExtenderError:
    kind = _KINDS.get(type(value)) or "number"
    if kind == "number" and where.endswith("int64"):
        kind = f"number {value}"
    return ExtenderError(f"json: cannot unmarshal {kind} into {where}")


def _value(reply: Reply) -> Any:
    """Decode the first JSON value of a reply; the rest is ignored."""
    if reply.error:
        raise ExtenderError(reply.error)
    text = reply.body.decode("utf-8", "replace").lstrip(" \t\r\n")
    if not text:
        raise ExtenderError("EOF")
    try:
        return _DECODER.raw_decode(text)[0]
    except json.JSONDecodeError as error:
        raise ExtenderError(_syntax(text, error.pos)) from None
    except RecursionError:
        raise ExtenderError("exceeded max depth") from None


def _syntax(text: str, position: int) -> str:
    """Return Go's message for invalid JSON. It is exact for text that is not JSON from its beginning, such as HTML."""
    rest = text[position:]
    literal = _LITERALS.get(rest[:1])
    if literal is not None:
        for number, wanted in enumerate(literal):
            if number >= len(rest):
                return "unexpected EOF"
            if rest[number] != wanted:
                return f"invalid character '{rest[number]}' in literal {literal} (expecting '{wanted}')"
    if not rest.strip():
        return "unexpected EOF"
    return f"invalid character '{rest[0]}' looking for beginning of value"


def _no_constant(name: str) -> Any:
    raise json.JSONDecodeError("no JSON", name, 0)


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
