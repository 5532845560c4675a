"""Compiled label selectors.

Pods of one template have equal selectors, so compiled selectors are cached by content. They can be dictionary keys: two
selectors are equal if they have the same requirements in any order.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, ParamSpec, TypeVar

import msgspec

from mooring.api.label_validation import label_key_errors, label_value_errors
from mooring.api.meta import LabelSelector
from mooring.checkpoints import checkpoint

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GT: Final = "Gt"
LT: Final = "Lt"
OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT)
#: The maximum number of labels and values of a selector that is cached.
_MOST_CACHED: Final = 64


class SelectorError(ValueError):
    """An invalid selector; the message is that of Kubernetes."""


class Requirement(NamedTuple):
    """One condition on a label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    @property
    def number(self) -> int | None:
        """The number that `Gt` and `Lt` compare with."""
        return parse_int(next(iter(self.values), "")) if self.operator in {GT, LT} else None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        number, bound = parse_int(value or ""), self.number
        if number is None or bound is None:
            return False
        return number > bound if self.operator == GT else number < bound

    @property
    def order(self) -> tuple[str, str, list[str]]:
        """The sort key, so that equal sets of requirements are equal."""
        return self.key, self.operator, sorted(self.values)

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        values = ",".join(sorted(self.values))
        if self.operator in {GT, LT}:
            return f"{self.key}{'>' if self.operator == GT else '<'}{values}"
        return f"{self.key} {'in' if self.operator == IN else 'notin'} ({values})"


class Selector:
    """A compiled label selector: all requirements must match. Immutable and hashable."""

    __slots__ = ("_equals", "_hash", "_others", "matches_nothing", "requirements")

    requirements: tuple[Requirement, ...]
    matches_nothing: bool

    def __init__(self, requirements: Iterable[Requirement] = (), *, nothing: bool = False) -> None:
        unique = () if nothing else set(requirements)
        ordered = tuple(unique) if len(unique) < 2 else tuple(sorted(unique, key=lambda each: each.order))
        self.requirements = ordered
        self.matches_nothing = nothing
        # Most requirements compare one label with one value, which needs no call.
        equals: list[tuple[str, str]] = []
        others: list[Requirement] = []
        for each in ordered:
            if each.operator == IN and len(each.values) == 1:
                equals.append((each.key, next(iter(each.values))))
            else:
                others.append(each)
        self._equals = tuple(equals)
        self._others = tuple(others)
        self._hash = hash((ordered, nothing))

    @property
    def equalities(self) -> tuple[tuple[str, str], ...]:
        """The labels, with their values, that all matches have."""
        return self._equals

    @property
    def is_empty(self) -> bool:
        """Whether the selector matches everything."""
        return not self.requirements and not self.matches_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels match."""
        if self.matches_nothing:
            return False
        get = labels.get
        for key, value in self._equals:
            if get(key) != value:
                return False
        return all(requirement.matches(labels) for requirement in self._others)

    def with_requirements(self, *requirements: Requirement) -> "Selector":
        """Return this selector with further requirements."""
        return self if self.matches_nothing else Selector((*self.requirements, *requirements))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Selector):
            return NotImplemented
        return self.matches_nothing == other.matches_nothing and self.requirements == other.requirements

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return "<nothing>" if self.matches_nothing else ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"Selector({self})"


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def compile_selector(selector: LabelSelector | None) -> Selector:
    """Compile a label selector. None matches nothing, an empty one everything. Raises SelectorError."""
    if selector is None:
        return NOTHING
    labels, expressions = selector.match_labels, selector.match_expressions
    if not expressions:
        if not labels:
            return EVERYTHING
        if len(labels) == 1:
            ((key, value),) = labels.items()
            return _compile_label(key, value)
    pairs = tuple(labels.items()) if len(labels) < 2 else tuple(sorted(labels.items()))
    return _compile(pairs, tuple((each.key, each.operator, each.values) for each in expressions))


def selector_from_labels(labels: Mapping[str, str] | None) -> Selector:
    """Return a selector of objects with all these labels, without validation. Without labels it matches everything."""
    if not labels:
        return EVERYTHING
    return _from_pairs(tuple(sorted(labels.items())))


def requirement(key: str, operator: str, values: Collection[str] = (), *, path: str = "") -> Requirement:
    """Return a validated requirement; `path` is for error messages. Raises SelectorError."""
    if operator not in OPERATORS:
        raise SelectorError(f"{quote(operator)} is not a valid label selector operator")
    if errors := requirement_errors(key, operator, values, path=path):
        raise SelectorError(aggregate(errors))
    return Requirement(key, operator, frozenset(values))


def requirement_errors(key: str, operator: str, values: Collection[str] = (), *, path: str = "") -> list[str]:
    """Return the errors in a requirement, with the messages of Kubernetes."""
    prefix = f"{path}." if path else ""
    errors: list[str] = []
    if faults := label_key_errors(key):
        errors.append(f"{prefix}key: Invalid value: {quote(key)}: {'; '.join(faults)}")
    errors += [f"{prefix}{fault}" for fault in _values_errors(operator, values)]
    for index, value in enumerate(values):
        if faults := label_value_errors(value):
            errors.append(f"{prefix}values[{index}][{key}]: Invalid value: {quote(value)}: {'; '.join(faults)}")
    return list(dict.fromkeys(errors)) if errors else errors


def aggregate(errors: Iterable[str]) -> str:
    """Join messages as Kubernetes does: several are in brackets."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def parse_int(text: str) -> int | None:
    """Parse a decimal 64-bit integer as Go does: an optional sign and ASCII digits, nothing else."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not digits.isascii() or not digits.isdigit() or len(digits.lstrip("0")) > 19:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def quote(text: str) -> str:
    """Quote a text as Go's %q does."""
    return '"' + "".join(_escape(char) for char in text) + '"'


def to_json(value: object) -> str:
    """Encode a value as Go's JSON encoder does, with HTML escaping."""
    text = msgspec.json.encode(value).decode()
    return "".join(f"\\u{ord(char):04x}" if char in "<>&\u2028\u2029" else char for char in text)


_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _invalid_values(values: Collection[str], text: str) -> str:
    return f"values: Invalid value: {to_json(list(values) or None)}: {text}"


def _values_errors(operator: str, values: Collection[str]) -> list[str]:
    match operator:
        case "In" | "NotIn":
            return [] if values else [_invalid_values(values, "for 'in', 'notin' operators, values set can't be empty")]
        case "Exists" | "DoesNotExist":
            text = "values set must be empty for exists and does not exist"
            return [_invalid_values(values, text)] if values else []
    errors = []
    if len(values) != 1:
        errors.append(_invalid_values(values, "for 'Gt', 'Lt' operators, exactly one value is required"))
    errors += [
        f"values[{index}]: Invalid value: {quote(value)}: for 'Gt', 'Lt' operators, the value must be an integer"
        for index, value in enumerate(values)
        if parse_int(value) is None
    ]
    return errors


P = ParamSpec("P")
R = TypeVar("R")


def cache_small(is_small: Callable[P, bool], maxsize: int = 16384) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the results of a function, except for large arguments: a tenant could fill the memory with those."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        cached: Callable[P, R] = functools.lru_cache(maxsize)(function)  # type: ignore[assignment]  # loses parameters

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return cached(*args, **kwargs) if is_small(*args, **kwargs) else function(*args, **kwargs)

        return call

    return decorate


@cache_small(lambda pairs: len(pairs) <= _MOST_CACHED)
def _from_pairs(pairs: tuple[tuple[str, str], ...]) -> Selector:
    return Selector(Requirement(key, IN, frozenset((value,))) for key, value in pairs)


@functools.lru_cache(maxsize=16384)
def _compile_label(key: str, value: str) -> Selector:
    """Compile the most frequent selector, one label."""
    checkpoint()
    return Selector((requirement(key, IN, (value,)),))


@cache_small(
    lambda pairs, expressions: len(pairs) + sum(1 + len(values) for _, _, values in expressions) <= _MOST_CACHED
)
def _compile(pairs: tuple[tuple[str, str], ...], expressions: tuple[tuple[str, str, tuple[str, ...]], ...]) -> Selector:
    checkpoint()
    requirements = [requirement(key, IN, (value,)) for key, value in pairs]
    for key, operator, values in expressions:
        checkpoint()
        if operator in {GT, LT}:
            raise SelectorError(f"{quote(operator)} is not a valid label selector operator")
        requirements.append(requirement(key, operator, values))
    return Selector(requirements)
