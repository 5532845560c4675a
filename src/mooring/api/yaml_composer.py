"""Builds nodes from YAML events by the rules of goyaml 2, which Kubernetes uses.

Hand-written because PyYAML's composer treats anchors, merge keys and repeated keys differently. In goyaml a merged
field is set where the ``<<`` is, so that setting it again repeats the key, and aliases must not expand too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from mooring.api.yaml_nodes import MAX_DEPTH, Entry, Kind, Mapping, Node, ReadError, Scalar, Sequence
from mooring.api.yaml_scalars import Resolved, is_finite, key_text, resolve_plain, resolve_tagged
from mooring.api.yaml_scanner import YamlParser

_MERGE: Final = "tag:yaml.org,2002:merge"
_KINDS: Final[dict[str, Kind]] = {"int": "number", "float": "number", "str": "string", "bool": "bool", "null": "null"}


class _Leaf(msgspec.Struct, eq=False):
    tag: str | None
    text: str
    plain: bool
    line: int


class _Branch(msgspec.Struct, eq=False):
    """A mapping (keys and values in turn) or a list."""

    is_mapping: bool
    line: int
    children: list[_Part] = msgspec.field(default_factory=list)


class _Alias(msgspec.Struct, eq=False):
    name: str
    target: _Leaf | _Branch
    line: int


_Part = _Leaf | _Branch | _Alias


def compose(next_event: Callable[[], Event]) -> Iterator[Node]:
    """Build the documents from events. Raises ReadError."""
    while (root := _compose(next_event)) is not None:
        yield _Resolver().value(root, 0)


def compose_with_goyaml_scanner(text: str) -> Iterator[Node]:
    """Read the documents of a text with the scanner that follows goyaml. Raises ReadError."""
    parser = YamlParser(text)
    while True:
        try:
            root = _compose(parser.next_event)
        except yaml.MarkedYAMLError as error:
            parser.check_characters()
            mark = error.problem_mark or error.context_mark
            problem = ", ".join(part for part in (error.problem, error.context) if part)
            raise ReadError(f"not valid YAML: {problem}", mark.line + 1 if mark is not None else None) from None
        parser.check_characters()
        if root is None:
            return
        yield _Resolver().value(root, 0)


def _compose(next_event: Callable[[], Event]) -> _Part | None:
    """Combine the events of one document, without recursion. Returns None at the end of the stream."""
    anchors: dict[str, _Leaf | _Branch] = {}
    open_branches: list[_Branch] = []
    root: _Part | None = None
    while True:
        event = next_event()
        if isinstance(event, DocumentEndEvent | StreamEndEvent):
            return root
        if isinstance(event, MappingEndEvent | SequenceEndEvent):
            open_branches.pop()
            continue
        part = _part(event, anchors)
        if part is None:
            continue
        if open_branches:
            open_branches[-1].children.append(part)
        else:
            root = part
        if isinstance(part, _Branch):
            open_branches.append(part)
            if len(open_branches) > MAX_DEPTH:
                raise ReadError(f"nested more than {MAX_DEPTH} levels deep", part.line)


def _part(event: Event, anchors: dict[str, _Leaf | _Branch]) -> _Part | None:
    line = event.start_mark.line + 1 if event.start_mark is not None else 1
    part: _Leaf | _Branch
    match event:
        case AliasEvent():
            if event.anchor not in anchors:
                raise ReadError(f"the alias *{event.anchor} has no anchor before it", line)
            return _Alias(event.anchor, anchors[event.anchor], line)
        case ScalarEvent():
            part = _Leaf(event.tag, event.value, bool(event.implicit[0]), line)
        case MappingStartEvent() | SequenceStartEvent():
            part = _Branch(isinstance(event, MappingStartEvent), line)
        case DocumentStartEvent() | _:
            return None
    if event.anchor is not None:
        anchors[event.anchor] = part
    return part


class _Fields(msgspec.Struct):
    """A mapping under construction. Keys of different types differ, even if their text is the same."""

    entries: dict[tuple[str, str], Entry] = msgspec.field(default_factory=dict)
    repeated: list[Entry] = msgspec.field(default_factory=list)

    def set(self, key: Resolved, entry: Entry) -> None:
        if key in self.entries and key[1] != ".nan":
            self.repeated.append(entry)
        self.entries[key] = entry


class _Resolver:
    """Converts composed parts to nodes: resolves scalars, follows aliases and applies merge keys."""

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._depth = 0
        self._count = 0
        self._aliased = 0

    def value(self, part: _Part, depth: int) -> Node:
        """Return the node for a part."""
        self._count_part(part.line, depth)
        if isinstance(part, _Alias):
            node = self.value(self._enter(part), depth + 1)
            self._leave(part)
            return node
        if isinstance(part, _Leaf):
            return _scalar(part)
        if not part.is_mapping:
            return Sequence([self.value(child, depth + 1) for child in part.children], part.line)
        fields = _Fields()
        self._fill(fields, part, depth)
        entries = {entry.key: entry for entry in fields.entries.values()}
        return Mapping(list(entries.values()), part.line, fields.repeated)

    def _fill(self, fields: _Fields, part: _Branch, depth: int) -> None:
        for key, value in zip(part.children[::2], part.children[1::2], strict=True):
            if isinstance(key, _Leaf) and key.text == "<<" and (key.plain or key.tag == _MERGE):
                self._merge(fields, value, depth)
                continue
            resolved = self._key(key, depth)
            fields.set(resolved, Entry(_key_text(resolved, key.line), self.value(value, depth + 1), key.line))

    def _key(self, part: _Part, depth: int) -> Resolved:
        self._count_part(part.line, depth)
        if isinstance(part, _Alias):
            target = self._enter(part)
            resolved = self._key(target, depth + 1)
            self._leave(part)
            return resolved
        if isinstance(part, _Branch):
            raise ReadError("a key must be a single value, not a mapping or a list", part.line)
        return _resolve(part)

    def _merge(self, fields: _Fields, part: _Part, depth: int) -> None:
        parts = part.children[::-1] if isinstance(part, _Branch) and not part.is_mapping else [part]
        for each in parts:
            target = each.target if isinstance(each, _Alias) else each
            if not isinstance(target, _Branch) or not target.is_mapping:
                raise ReadError("the value of << must be a mapping or a list of mappings", each.line)
            self._count_part(each.line, depth)
            if isinstance(each, _Alias):
                self._enter(each)
                self._count_part(target.line, depth)
                self._fill(fields, target, depth + 1)
                self._leave(each)
            else:
                self._fill(fields, target, depth + 1)

    def _enter(self, alias: _Alias) -> _Leaf | _Branch:
        if id(alias) in self._inside:
            raise ReadError(f"the value of the anchor &{alias.name} contains itself", alias.line)
        self._inside.add(id(alias))
        self._depth += 1
        return alias.target

    def _leave(self, alias: _Alias) -> None:
        self._inside.discard(id(alias))
        self._depth -= 1

    def _count_part(self, line: int, depth: int) -> None:
        """Limit how far aliases expand a document, as goyaml does."""
        if depth > MAX_DEPTH:
            raise ReadError(f"nested more than {MAX_DEPTH} levels deep", line)
        self._count += 1
        if self._depth:
            self._aliased += 1
        if self._aliased > 100 and self._count > 1000 and self._aliased / self._count > _allowed_share(self._count):
            raise ReadError("aliases expand the document too much", line)


def _allowed_share(count: int) -> float:
    """Return the share of a document that may come from aliases: 99% of a small document, 10% of a huge one."""
    low, high = 400_000, 4_000_000
    return 0.99 - 0.89 * min(max(count - low, 0), high - low) / (high - low)


def _resolve(leaf: _Leaf) -> Resolved:
    if leaf.tag is not None:
        try:
            return resolve_tagged(leaf.tag, leaf.text)
        except ReadError as error:
            raise ReadError(str(error), leaf.line) from None
    return resolve_plain(leaf.text) if leaf.plain else ("str", leaf.text)


def _scalar(leaf: _Leaf) -> Scalar:
    kind, text = resolved = _resolve(leaf)
    if not is_finite(resolved):
        raise ReadError(f"{leaf.text} is a number that JSON cannot represent", leaf.line)
    return Scalar(_KINDS[kind], text, leaf.line)


def _key_text(key: Resolved, line: int) -> str:
    try:
        return key_text(key)
    except ReadError as error:
        raise ReadError(str(error), line) from None
