"""What was read from a file: values that know their line, whether they came from YAML or from JSON."""

from __future__ import annotations

import json
import re
from typing import Any, Final, Literal, TypeAlias

import msgspec

#: Nothing a person writes is nested deeper; it keeps every walk over a file within Python's own limits.
MAX_DEPTH: Final = 200

Kind = Literal["null", "bool", "number", "string"]


class ReadError(ValueError):
    """Text that is neither YAML nor JSON as kube-scheduler reads it."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Scalar(msgspec.Struct):
    """A single value. A number is kept as JSON writes it, since 16 and 1e1 are not the same to an integer field."""

    kind: Kind
    text: str
    line: int

    def describe(self) -> str:
        """What it is, for messages."""
        if self.kind == "null":
            return "null"
        if self.kind == "bool":
            return f"the boolean {self.text}"
        shown = self.text if len(self.text) <= 40 else f"{self.text[:37]}..."
        return f"the number {shown}" if self.kind == "number" else f"the text {json.dumps(shown, ensure_ascii=False)}"


class Sequence(msgspec.Struct):
    """A list."""

    items: list[Node]
    line: int
    #: The text it was read from, where that is JSON.
    source: str | None = None

    def describe(self) -> str:
        """What it is, for messages."""
        return "a list"


class Entry(msgspec.Struct):
    """A field of a mapping, at the line of its key."""

    key: str
    value: Node
    line: int


class Mapping(msgspec.Struct):
    """Fields in order. From JSON a field may come twice; from YAML the last one counts and `repeated` tells of it."""

    entries: list[Entry]
    line: int
    repeated: list[Entry] = msgspec.field(default_factory=list)
    #: The text it was read from, where that is JSON.
    source: str | None = None

    def describe(self) -> str:
        """What it is, for messages."""
        return "a mapping"

    def get(self, key: str) -> Node | None:
        """The value of a field; of several, the last."""
        return next((entry.value for entry in reversed(self.entries) if entry.key == key), None)


Node: TypeAlias = Scalar | Sequence | Mapping


def is_null(node: Node) -> bool:
    """Whether it is null, which means the same as leaving the field out."""
    return isinstance(node, Scalar) and node.kind == "null"


def plain(node: Node) -> Any:
    """The value as Python has it."""
    if isinstance(node, Mapping):
        return {entry.key: plain(entry.value) for entry in node.entries}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    if node.kind == "number":
        return json.loads(node.text)
    return {"null": None, "bool": node.text == "true", "string": node.text}[node.kind]


def raw_json(node: Node) -> str:
    """The value as JSON: as it was written if it was JSON, otherwise compact and with sorted fields."""
    if isinstance(node, Mapping | Sequence) and node.source is not None:
        return node.source
    return json.dumps(plain(node), separators=(",", ":"), sort_keys=True)


_ESCAPED: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_BLANKS: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


def reflowed(text: str) -> str:
    """JSON text as Go writes it again: without blanks between its parts, and with some characters escaped."""
    return _BLANKS.sub(lambda match: match[1] or "", text).translate(_ESCAPED)


_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def line_of(root: Node, path: str) -> int | None:
    """The line of a field, or of the nearest field around it that the file has."""
    node, line = root, root.line
    for match in _STEP.finditer(path):
        key, index = match.groups()
        if key is not None:
            if not isinstance(node, Mapping):
                break
            entry = next((each for each in reversed(node.entries) if each.key == key), None)
            if entry is None:
                break
            node, line = entry.value, entry.line
        else:
            if not isinstance(node, Sequence) or int(index) >= len(node.items):
                break
            node = node.items[int(index)]
            line = node.line
    return line
