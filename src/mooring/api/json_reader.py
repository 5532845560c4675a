"""Reads JSON as nodes with lines, repeated fields and the text of numbers.

Hand-written because the json module and msgspec report neither lines nor repeated fields of a valid document.
"""

from __future__ import annotations

import re
from typing import Final

from mooring.api.yaml_nodes import MAX_DEPTH, Entry, Mapping, Node, ReadError, Scalar, Sequence

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORD: Final = re.compile(r"null|true|false")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LONE: Final = re.compile("[\ud800-\udfff]")


def read_json(text: str) -> Node:
    """Read the value of a JSON text. Raises ReadError."""
    return _Reader(text).read()


class _Reader:
    """A reader with a stack of open collections instead of recursion."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._open: list[tuple[Mapping | Sequence, int]] = []
        self._keys: list[tuple[str, int]] = []

    def read(self) -> Node:
        while True:
            node = self._value()
            while node is not None and self._open:
                node = self._place(node)
            if node is not None:
                break
        if self._peek():
            raise self._error("more text follows the value")
        return node

    def _value(self) -> Node | None:
        """Read a scalar or an empty collection. Return None after opening a collection."""
        char = self._peek()
        if char in "{[" and char:
            branch: Mapping | Sequence = Mapping([], self._line) if char == "{" else Sequence([], self._line)
            self._open.append((branch, self._at))
            if len(self._open) > MAX_DEPTH:
                raise self._error(f"nested more than {MAX_DEPTH} levels deep")
            self._at += 1
            if self._peek() == ("}" if char == "{" else "]"):
                return self._close()
            if char == "{":
                self._key()
            return None
        return self._scalar()

    def _scalar(self) -> Scalar:
        line = self._line
        if (match := self._match(_STRING)) is not None:
            return Scalar("string", _unescape(match[1]), line)
        if (match := self._match(_NUMBER)) is not None:
            return Scalar("number", match[0], line)
        if (match := self._match(_WORD)) is not None:
            return Scalar("null" if match[0] == "null" else "bool", match[0], line)
        raise self._error("expected a value")

    def _place(self, node: Node) -> Node | None:
        """Add a value to the collection around it. Return that collection if the value completes it."""
        branch, _ = self._open[-1]
        char = self._peek()
        if isinstance(branch, Sequence):
            branch.items.append(node)
            if char not in (",", "]"):
                raise self._error("expected ',' or ']' after a value of a list")
        else:
            branch.entries.append(Entry(self._keys[-1][0], node, self._keys[-1][1]))
            self._keys.pop()
            if char not in (",", "}"):
                raise self._error("expected ',' or '}' after a field")
        if char != ",":
            return self._close()
        self._at += 1
        if isinstance(branch, Mapping):
            self._key()
        return None

    def _close(self) -> Node:
        branch, start = self._open.pop()
        self._at += 1
        branch.source = self._text[start : self._at]
        return branch

    def _key(self) -> None:
        self._peek()
        line = self._line
        match = self._match(_STRING)
        if match is None:
            raise self._error("expected a field name in double quotes")
        if self._peek() != ":":
            raise self._error("expected ':' after a field name")
        self._at += 1
        self._keys.append((_unescape(match[1]), line))

    def _peek(self) -> str:
        match = self._match(_SPACE)
        if match is not None:
            self._line += match[0].count("\n")
        return self._text[self._at : self._at + 1]

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _error(self, problem: str) -> ReadError:
        found = self._text[self._at : self._at + 1]
        seen = f"found {found!r}" if found else "found the end of the text"
        return ReadError(f"not valid JSON: {problem}, {seen}", self._line)


def _unescape(text: str) -> str:
    """Return the value of a JSON string. A lone surrogate becomes the replacement character, as in Go."""
    if "\\" in text:
        text = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _LETTERS.get(m[2], m[2]), text)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _LONE.sub("\ufffd", text)
