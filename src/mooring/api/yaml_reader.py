"""YAML documents as plain values, read from the parser's events.

PyYAML's own loaders are not used, for three reasons: they overflow the C stack on deeply nested input, they turn
unquoted dates and `12:30` into things Kubernetes would not, and they do not say where a value stood. Here scalars
become what Kubernetes' reader makes of them, nesting is bounded, and `find_line` says where a field is.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

#: One step into a document: a key of a mapping or an index of a list.
Step: TypeAlias = str | int

_MAX_DEPTH: Final = 100
_CORE: Final = "tag:yaml.org,2002:"
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {
    form: value
    for word, value in {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.items()
    for form in (word, word.capitalize(), word.upper())
}
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_BASED: Final = re.compile(r"[-+]?0(x[0-9a-fA-F_]+|o[0-7_]+|b[01_]+|[0-7_]+)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TAGGED: Final[dict[str, tuple[type, ...]]] = {
    f"{_CORE}null": (type(None),),
    f"{_CORE}bool": (bool,),
    f"{_CORE}int": (int,),
    f"{_CORE}float": (int, float),
}
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(ValueError):
    """Text that is no YAML we can read; `line` counts from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Document(NamedTuple):
    """One document of a file: its value and the line it starts at."""

    value: Any
    line: int


def read_documents(text: str) -> Iterator[Document]:
    """Read all documents of a text, one after the other. Raises YamlError."""
    builder = _Builder()
    for event in _events(text):
        if (document := builder.feed(event)) is not None:
            yield document


def find_line(text: str, document: int, steps: Sequence[Step]) -> int | None:
    """The line on which a field stands, or the nearest line above it that is known. For messages only: reads again."""
    builder = _Builder(wanted=tuple(steps))
    seen = -1
    try:
        for event in _events(text):
            if isinstance(event, yaml.DocumentStartEvent):
                seen += 1
                builder = _Builder(wanted=tuple(steps))
            if builder.feed(event) is not None and seen == document:
                return builder.found
    except YamlError:
        return builder.found if seen == document else None
    return None


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(f"not valid YAML: {message}", mark.line + 1 if mark is not None else None) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(f"not valid YAML: {' '.join(str(error).split())}") from None


class _Frame:
    """A mapping or list that is being built."""

    __slots__ = ("anchor", "key", "line", "merges", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.key: str | None = None
        self.merges: list[dict[str, Any]] = []


class _Builder:
    """Makes values of events, with a stack of its own instead of recursion."""

    def __init__(self, wanted: tuple[Step, ...] = ()) -> None:
        self.wanted = wanted
        self.found: int | None = None
        self._matched = -1
        self._reset(0)

    def _reset(self, line: int) -> None:
        self._frames: list[_Frame] = []
        self._anchors: dict[str, Any] = {}
        self._root: Any = None
        self._line = line

    def feed(self, event: yaml.Event) -> Document | None:
        """Take one event; gives the document when that was its last."""
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        match event:
            case yaml.ScalarEvent():
                self._scalar(event, line)
            case yaml.MappingStartEvent():
                self._open(_Frame({}, event.anchor, line), event)
            case yaml.SequenceStartEvent():
                self._open(_Frame([], event.anchor, line), event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close()
            case yaml.AliasEvent():
                self._alias(str(event.anchor), line)
            case yaml.DocumentStartEvent():
                self._reset(line)
            case yaml.DocumentEndEvent():
                return Document(self._root, self._line)
        return None

    def _open(self, frame: _Frame, event: Any) -> None:
        if event.tag not in {None, "!", f"{_CORE}map", f"{_CORE}seq"}:
            raise YamlError(f"the tag {event.tag!r} is not supported: remove it", frame.line)
        if self._expects_key():
            raise YamlError("a key must be a single value, not a mapping or list", frame.line)
        if len(self._frames) >= _MAX_DEPTH:
            raise YamlError(f"nested more than {_MAX_DEPTH} levels deep", frame.line)
        if not self._frames:
            self._line = frame.line
        self._note(frame.line)
        self._frames.append(frame)

    def _close(self) -> None:
        frame = self._frames.pop()
        value = frame.value
        if frame.merges and isinstance(value, dict):
            value = {key: item for merged in reversed(frame.merges) for key, item in merged.items()} | value
        self._finish(value, frame.anchor, frame.line)

    def _scalar(self, event: Any, line: int) -> None:
        if self._expects_key():
            self._frames[-1].key = key = _key(event, line)
            if event.anchor is not None:
                self._anchors[event.anchor] = key
            return
        self._note(line)
        self._finish(_resolve(event, line), event.anchor, line)

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self._anchors:
            raise YamlError(f"the alias *{anchor} has no anchor before it, or contains itself", line)
        value = self._anchors[anchor]
        if not self._expects_key():
            self._note(line)
            self._finish(value, None, line)
        elif isinstance(value, str):
            self._frames[-1].key = value
        else:
            raise YamlError("a key must be text: write the key itself instead of an alias", line)

    def _expects_key(self) -> bool:
        return bool(self._frames) and isinstance(self._frames[-1].value, dict) and self._frames[-1].key is None

    def _note(self, line: int) -> None:
        """Remember the line if this value is further on the way to the wanted field than any before."""
        if not self.wanted and self.found is None:
            self.found = line
        depth = len(self._frames)
        if self._matched < depth <= len(self.wanted) and self._path() == self.wanted[:depth]:
            self._matched, self.found = depth, line

    def _path(self) -> tuple[Step, ...]:
        return tuple(len(frame.value) if isinstance(frame.value, list) else frame.key or "" for frame in self._frames)

    def _finish(self, value: Any, anchor: str | None, line: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = value
        if not self._frames:
            self._root = value
            return
        frame = self._frames[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
            return
        key, frame.key = frame.key, None
        if key == "<<":
            frame.merges = _merged(value, line) + frame.merges
        elif key is not None:
            frame.value[key] = value


def _merged(value: Any, line: int) -> list[dict[str, Any]]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in values):
        raise YamlError("what is merged with << must be a mapping", line)
    return values


def _key(event: Any, line: int) -> str:
    value = _resolve(event, line)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise YamlError("a key is missing before the colon", line)
    return str(value)


def _resolve(event: Any, line: int) -> str | int | float | bool | None:
    """What a scalar means, by its tag or, where it is plain, by its look."""
    tag, text = event.tag, event.value
    if (tag is None and not event.implicit[0]) or tag in {"!", f"{_CORE}str"}:
        return str(text)
    value = _plain(text)
    if tag is not None and not isinstance(value, _TAGGED.get(tag, ())):
        raise YamlError(f"{text!r} cannot be read with the tag {tag!r}: remove the tag", line)
    return value


def _plain(text: str) -> str | int | float | bool | None:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if len(text) > 400 or text[0] not in "+-.0123456789":
        return text
    if _DECIMAL.fullmatch(text):
        return int(text.replace("_", ""))
    if _BASED.fullmatch(text) and (digits := text.replace("_", "")).lstrip("+-") not in {"0", "0x", "0o", "0b"}:
        return int(digits, 0) if digits.lstrip("+-0")[:1] in {"x", "o", "b"} else int(digits, 8)
    if _FLOAT.fullmatch(text):
        number = float(text)
        # Kubernetes reads YAML by way of JSON, where a whole number is a whole number however it was written.
        return int(number) if number.is_integer() and abs(number) < 1e21 else number
    return text
