"""The YAML reader for manifests, configuration files, kubeconfigs and requests.

It reads YAML as Kubernetes does (sigs.k8s.io/yaml, which uses goyaml 2). PyYAML's loaders differ from it in scalars
(`y`, `0o10`, `12:30`, dates, `1e400`), escapes, tags, merge keys and repeated keys, and they overflow the C stack on
deeply nested input. `yaml_composer` implements the rules of goyaml on a scanner written in Python.

That scanner is slow, and manifests can be large. Most text is so ordinary that libyaml's parser, which is written in C,
produces the same events. `_CEvents` uses it and raises `_NotOrdinary` wherever the two could differ. The text is then
read by the Python scanner, which also reports all errors, so that results never depend on which parser was used.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from mooring.api.json_reader import read_json
from mooring.api.yaml_composer import compose, compose_with_goyaml_scanner
from mooring.api.yaml_nodes import MAX_DEPTH, Node, ReadError, Scalar, Step, line_at, plain
from mooring.api.yaml_scalars import LINE_BREAK, key_text, python_value, resolve_plain

#: None if PyYAML was built without libyaml.
_CParser: Final[Any] = getattr(yaml, "CParser", None) or getattr(getattr(yaml, "cyaml", None), "CParser", None)
#: A line that starts a document. Inside a document such a line is always an error.
_SEPARATOR: Final = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
#: Characters on which libyaml and goyaml may differ: tabs, control characters and unusual line breaks. The second
#: expression takes milliseconds to compile, and most texts are ASCII.
_UNUSUAL_ASCII: Final = re.compile(r"[^\n\r\x20-\x7e]")
_UNUSUAL: Final = r"[^\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"


def _has_unusual(text: str) -> bool:
    return (_UNUSUAL_ASCII.search(text) if text.isascii() else re.search(_UNUSUAL, text)) is not None


def read_documents(text: str) -> Iterator[Any]:
    """Read a JSON text, or all documents of a YAML text, as plain values. Raises ReadError."""
    if text.lstrip()[:1] == "{":
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass  # YAML can begin with a brace as well, and its reader reports the line of an error.
        else:
            yield value
            return
    for start, end in _document_spans(text):
        chunk = text[start:end]
        try:
            values = _quick_values(chunk)
        except _NotOrdinary:
            try:
                values = [plain(node) for node in _nodes(chunk)]
            except ReadError:
                # The chunk may be incomplete, as one with directives is: read on without splitting the text.
                yield from _remaining_values(text, start)
                return
        yield from values


def read_yaml(text: str) -> Node:
    """Read the first document of a YAML text. Raises ReadError."""
    return next(_nodes(text), None) or Scalar("null", "null", 1)


def read_node(text: str) -> Node:
    """Read a JSON text, or the first document of a YAML text. Raises ReadError."""
    if text.lstrip()[:1] == "{":
        try:
            return read_json(text)
        except ReadError:
            pass
    return read_yaml(text)


def find_line(text: str, document: int, steps: Sequence[Step]) -> int | None:
    """Return the line of a field, or of the nearest field around it. For error messages: reads the text again."""
    try:
        if document == 0 and text.lstrip()[:1] == "{":
            return line_at(read_node(text), steps)
        node = next(islice(_nodes(text), document, None), None)
    except ReadError:
        return None
    return line_at(node, steps) if node is not None else None


def _document_spans(text: str) -> Iterator[tuple[int, int]]:
    """Split a text before each line that starts a document."""
    start = 0
    for match in _SEPARATOR.finditer(text):
        if match.start() > start:
            yield start, match.start()
            start = match.start()
    yield start, len(text)


def _remaining_values(text: str, start: int) -> Iterator[Any]:
    try:
        yield from map(plain, _nodes(text[start:]))
    except ReadError as error:
        if error.line is not None:
            error.line += len(LINE_BREAK.findall(text, 0, start))
        raise


def _nodes(text: str) -> Iterator[Node]:
    """Read all documents of a YAML text as nodes, with libyaml as far as that is safe."""
    count = 0
    try:
        for node in compose(_CEvents(text).next_event):
            yield node
            count += 1
    except _NotOrdinary:
        yield from islice(compose_with_goyaml_scanner(text), count, None)


class _NotOrdinary(Exception):
    """A construct on which libyaml and goyaml may differ."""


class _CEvents:
    """The events of an ordinary text, from libyaml. Raises _NotOrdinary."""

    def __init__(self, text: str) -> None:
        if _CParser is None or "\\/" in text or "\n%" in text or text[:1] == "%" or _has_unusual(text):
            raise _NotOrdinary
        self.get_event = _CParser(text).get_event
        #: goyaml ends a plain scalar in a flow collection at a question mark.
        self.allow_flow = "?" not in text

    def next_event(self) -> Event:
        """Return the next event."""
        try:
            event: Event = self.get_event()
        except (yaml.YAMLError, UnicodeError):
            raise _NotOrdinary from None
        if isinstance(event, ScalarEvent | MappingStartEvent | SequenceStartEvent):
            if event.tag is not None or (getattr(event, "flow_style", False) and not self.allow_flow):
                raise _NotOrdinary
        elif isinstance(event, DocumentStartEvent) and (event.version or event.tags):
            raise _NotOrdinary
        return event


def _quick_values(text: str) -> list[Any]:
    """Read the documents of a text without tags, anchors, merge keys and repeated keys; otherwise raise _NotOrdinary.

    It builds values without nodes, and inlines what `_CEvents.next_event` does: large manifests are read by this loop.
    """
    events = _CEvents(text)
    get_event, allow_flow = events.get_event, events.allow_flow
    documents: list[Any] = []
    #: The collections around the current one, each with the key that the inner collection has in it.
    around: list[tuple[Any, str | None]] = []
    inside: Any = documents
    is_mapping = False
    key: str | None = None
    while True:
        try:
            event = get_event()
        except (yaml.YAMLError, UnicodeError):
            raise _NotOrdinary from None
        kind = type(event)
        if kind is ScalarEvent:
            if event.tag is not None or event.anchor is not None:
                raise _NotOrdinary
            value: Any = event.value
            if is_mapping and key is None:
                key = _quick_key(value) if event.implicit[0] else value
                if key in inside:
                    raise _NotOrdinary
                continue
            if event.implicit[0] and (not value or value[0] in _MAY_RESOLVE):
                value = _quick_scalar(value)
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            is_key = is_mapping and key is None
            if event.anchor is not None or event.tag is not None or (event.flow_style and not allow_flow) or is_key:
                raise _NotOrdinary
            if len(around) >= MAX_DEPTH:
                raise _NotOrdinary
            value = {} if kind is MappingStartEvent else []
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            inside, outer_key = around.pop()
            is_mapping, key = outer_key is not None, None
            continue
        elif kind is AliasEvent or (kind is DocumentStartEvent and (event.version or event.tags)):
            raise _NotOrdinary
        elif kind is StreamEndEvent:
            return documents
        else:
            continue
        if key is not None:
            inside[key] = value
        else:
            inside.append(value)
        if kind is ScalarEvent:
            key = None
        else:
            around.append((inside, key))
            inside, is_mapping, key = value, kind is MappingStartEvent, None


#: The first characters of numbers and of the words for booleans and null.
_MAY_RESOLVE: Final = frozenset("+-.0123456789yYnNtTfFoO~")


@lru_cache(maxsize=8192)
def _quick_scalar(text: str) -> Any:
    try:
        return python_value(resolve_plain(text))
    except ReadError:
        raise _NotOrdinary from None


@lru_cache(maxsize=8192)
def _quick_key(text: str) -> str:
    if text == "<<":
        raise _NotOrdinary
    try:
        return key_text(resolve_plain(text))
    except ReadError:
        raise _NotOrdinary from None
