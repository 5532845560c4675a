"""Nodes: values read from YAML or JSON that record their line and, for numbers, their text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec

#: The deepest nesting that is read. It keeps every recursive walk over a document within Python's stack.
MAX_DEPTH: Final = 200

Kind = Literal["null", "bool", "number", "string"]

#: One step into a document: a key of a mapping or an index of a list.
Step: TypeAlias = str | int


class ReadError(ValueError):
    """Text that is neither YAML nor JSON as Kubernetes reads it. `line` counts from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Scalar(msgspec.Struct):
    """A single value. A number is stored as JSON text, because an integer field accepts 16 but not 1e1."""

    kind: Kind
    text: str
    line: int

    def describe(self) -> str:
        """Return a description for error messages."""
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
    #: The JSON text it was read from, if any.
    source: str | None = None

    def describe(self) -> str:
        """Return a description for error messages."""
        return "a list"


class Entry(msgspec.Struct):
    """A field of a mapping, at the line of its key."""

    key: str
    value: Node
    line: int


class Mapping(msgspec.Struct):
    """Fields in order. In JSON, `entries` may repeat a key; in YAML the last wins and `repeated` lists the others."""

    entries: list[Entry]
    line: int
    repeated: list[Entry] = msgspec.field(default_factory=list)
    #: The JSON text it was read from, if any.
    source: str | None = None

    def describe(self) -> str:
        """Return a description for error messages."""
        return "a mapping"

    def get(self, key: str) -> Node | None:
        """Return the value of a field; the last one if the key is repeated."""
        return next((entry.value for entry in reversed(self.entries) if entry.key == key), None)


Node: TypeAlias = Scalar | Sequence | Mapping


def is_null(node: Node) -> bool:
    """Return whether the node is null, which means the same as an absent field."""
    return isinstance(node, Scalar) and node.kind == "null"


def plain(node: Node) -> Any:
    """Return the value as Python dictionaries, lists and scalars."""
    if isinstance(node, Mapping):
        return {entry.key: plain(entry.value) for entry in node.entries}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    if node.kind == "string":
        return node.text
    return json.loads(node.text)


def raw_json(node: Node) -> str:
    """Return the value as JSON: the original text if it was JSON, otherwise compact and with sorted fields."""
    if isinstance(node, Mapping | Sequence) and node.source is not None:
        return node.source
    return json.dumps(plain(node), separators=(",", ":"), sort_keys=True)


_ESCAPED: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_BLANKS: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


def compact_json(text: str) -> str:
    """Return JSON text as Go's encoder writes it: without insignificant blanks, and with some characters escaped."""
    return _BLANKS.sub(lambda match: match[1] or "", text).translate(_ESCAPED)


_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def line_of(root: Node, path: str) -> int:
    """Return the line of a field such as `a.b[0]`, or of the nearest field around it that exists."""
    return line_at(root, (match[1] if match[1] is not None else int(match[2]) for match in _STEP.finditer(path)))


def line_at(root: Node, steps: Iterable[Step]) -> int:
    """Return the line of the field that some steps lead to, or of the nearest field around it that exists."""
    node, line = root, root.line
    for step in steps:
        if isinstance(step, str):
            if not isinstance(node, Mapping):
                break
            entry = next((each for each in reversed(node.entries) if each.key == step), None)
            if entry is None:
                break
            node, line = entry.value, entry.line
        else:
            if not isinstance(node, Sequence) or step >= len(node.items):
                break
            node = node.items[step]
            line = node.line
    return line
