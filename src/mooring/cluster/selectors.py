"""Label selectors and field selectors."""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from mooring.api.label_selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    requirement,
)
from mooring.apiserver.documents import Document, nested_field
from mooring.cluster.errors import bad_request

_TOKEN: Final = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_COMPARISONS: Final = {"=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT}


class _Tokens:
    """The tokens of a selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = [match[1] for match in _TOKEN.finditer(text)]
        self._at = 0

    @property
    def ended(self) -> bool:
        return self._at >= len(self._words)

    def peek(self) -> str:
        return "" if self.ended else self._words[self._at]

    def take(self) -> str:
        word = self.peek()
        self._at += 1
        return word

    def expect(self, word: str) -> None:
        found = self.take()
        if found != word:
            raise SelectorError(f"unable to parse requirement: found '{found}', expected: '{word}'")


@functools.lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> Selector:
    """Parse `app=web,tier in (a, b),!old`. Raises ApiError."""
    try:
        tokens = _Tokens(text)
        requirements: list[Requirement] = []
        while not tokens.ended:
            requirements.append(_requirement(tokens))
            if not tokens.ended:
                tokens.expect(",")
                if tokens.ended:
                    raise SelectorError("found '', expected: identifier after ','")
        return Selector(requirements) if requirements else EVERYTHING
    except SelectorError as error:
        raise bad_request(str(error)) from None


def _requirement(tokens: _Tokens) -> Requirement:
    if tokens.peek() == "!":
        tokens.take()
        return requirement(tokens.take(), DOES_NOT_EXIST)
    key = tokens.take()
    word = tokens.peek()
    if word in {"", ","}:
        return requirement(key, EXISTS)
    tokens.take()
    if word in {"in", "notin"}:
        return requirement(key, IN if word == "in" else NOT_IN, _values(tokens))
    if word not in _COMPARISONS:
        raise SelectorError(f"unable to parse requirement: found '{word}', expected: in, notin, =, ==, !=, gt, lt")
    value = "" if tokens.peek() in {"", ","} else tokens.take()
    return requirement(key, _COMPARISONS[word], (value,))


def _values(tokens: _Tokens) -> list[str]:
    tokens.expect("(")
    values: list[str] = []
    if tokens.ended:
        raise SelectorError("unable to parse requirement: found '', expected: ',', ')' or identifier")
    while tokens.peek() not in {")", ""}:
        word = tokens.take()
        values.append("" if word == "," else word)
        if word != "," and tokens.peek() == ",":
            tokens.take()
    if tokens.ended:
        raise SelectorError("unable to parse requirement: found '', expected: ',' or ')'")
    tokens.take()
    return values


def selector_of(document: Mapping[str, Any] | None) -> Selector:
    """Compile a label selector of an object. None matches no object; an empty selector matches all."""
    if document is None:
        return NOTHING
    requirements = [Requirement(key, IN, frozenset((value,))) for key, value in document.get("matchLabels", {}).items()]
    requirements += [
        Requirement(each["key"], each["operator"], frozenset(each.get("values", ())))
        for each in document.get("matchExpressions", ())
    ]
    return Selector(requirements)


Reader = Callable[[Document], str]


def text_of(value: Any) -> str:
    """Return a value as field selectors compare it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def field_reader(*path: str, default: str = "") -> Reader:
    """Return a function that reads the field at a path."""
    return lambda document: text_of(nested_field(document, *path)) or default


_COMMON: Final[dict[str, Reader]] = {
    "metadata.name": field_reader("metadata", "name"),
    "metadata.namespace": field_reader("metadata", "namespace"),
}


class FieldSelector:
    """A conjunction of conditions on fields."""

    __slots__ = ("conditions", "name")

    def __init__(self, conditions: tuple[tuple[Reader, str, bool], ...], name: str | None) -> None:
        self.conditions = conditions
        #: The required name of objects, if the selector has one.
        self.name = name

    def matches(self, document: Document) -> bool:
        """Return whether an object meets all conditions."""
        return all((read(document) == value) is equal for read, value, equal in self.conditions)


def parse_field_selector(text: str, fields: Mapping[str, Reader]) -> FieldSelector | None:
    """Parse `spec.nodeName=a,status.phase!=Failed`; `fields` are those of the kind. Raises ApiError."""
    conditions: list[tuple[Reader, str, bool]] = []
    name = None
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = re.fullmatch(r"([^=!]+)(==|!=|=)(.*)", part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        key, comparison, value = match[1].strip(), match[2], match[3]
        reader = _COMMON.get(key) or fields.get(key)
        if reader is None:
            raise bad_request(f"field label not supported: {key}")
        conditions.append((reader, value, comparison != "!="))
        if key == "metadata.name" and comparison != "!=":
            name = value
    return FieldSelector(tuple(conditions), name) if conditions else None


class SelectionPredicate(NamedTuple):
    """A filter for the objects of a resource."""

    namespace: str | None = None
    labels: Selector | None = None
    fields: FieldSelector | None = None

    def matches(self, document: Document) -> bool:
        """Return whether an object passes the filter."""
        metadata = document["metadata"]
        if self.namespace is not None and metadata.get("namespace", "") != self.namespace:
            return False
        if self.labels is not None and not self.labels.matches(metadata.get("labels") or {}):
            return False
        return self.fields is None or self.fields.matches(document)

    @property
    def is_open(self) -> bool:
        """Whether the filter matches every object."""
        return self.namespace is None and self.labels is None and self.fields is None

    @property
    def selects(self) -> bool:
        """Whether the filter has selectors."""
        return self.labels is not None or self.fields is not None
