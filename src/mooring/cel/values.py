"""Values at run time, and the operations that every value has: type, equality, order, size, text.

A value is a Python bool, int, float, str, bytes, None or list, or an instance of one of the classes below. Errors are
values too, because `&&` and `||` can absorb them.
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Final, TypeAlias

from mooring.cel import types

Value: TypeAlias = Any

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1

#: Larger texts and lists are refused: they only arise from expressions that are made to be expensive.
MAX_TEXT: Final = 20_000_000
MAX_LIST: Final = 2_000_000


class InternalError(Exception):
    """What cel-go answers where its implementation panics."""


class CostLimitExceeded(Exception):
    """An evaluation whose cost exceeds the limit."""


class WorkLimitExceeded(Exception):
    """An evaluation that does more work than any useful expression."""


class CelError:
    """An error as a value."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message

    def __repr__(self) -> str:
        return f"CelError({self.message!r})"


def no_such_overload() -> CelError:
    """Return the error of an operation on a value of a wrong type."""
    return CelError("no such overload")


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


class Optional:
    """A value that may be missing."""

    __slots__ = ("present", "value")

    def __init__(self, value: Value = None, *, present: bool = True) -> None:
        self.value = value
        self.present = present


NONE: Final = Optional(present=False)


class Duration:
    """A length of time in nanoseconds."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds


class Timestamp:
    """A point in time: nanoseconds since 1970, and the offset from UTC in seconds with which it is printed."""

    __slots__ = ("nanoseconds", "offset")

    def __init__(self, nanoseconds: int, offset: int = 0) -> None:
        self.nanoseconds = nanoseconds
        self.offset = offset


class Opaque:
    """A value of a type that a library declares."""

    __slots__ = ()
    type: ClassVar[types.Type]
    #: Go's types of the value and of what it contains, for messages.
    go_type: ClassVar[str]
    native_type: ClassVar[str]

    def equal(self, other: Value) -> bool | CelError:
        """Compare with another value."""
        raise NotImplementedError

    def size(self) -> int | None:
        """Return the size, if values of the type have one."""
        return None

    def hashable(self) -> bool:
        """Return whether cel-go can look the value up in a map."""
        return True


class _Missing:
    __slots__ = ()


MISSING: Final = _Missing()

_Key: TypeAlias = str | tuple[type, Any]


def _key(key: Value) -> _Key:
    """Return a Python key that is equal only for the same value of the same type."""
    return key if key.__class__ is str else (key.__class__, key)


class Map:
    """A map with string, int, uint or bool keys."""

    __slots__ = ("_entries",)

    def __init__(self, entries: dict[_Key, Value] | None = None) -> None:
        #: By string, or by type and value for other keys.
        self._entries = {} if entries is None else entries

    def __len__(self) -> int:
        return len(self._entries)

    def __setitem__(self, key: Value, value: Value) -> None:
        self._entries[_hashable_key(key)] = value

    def remove(self, key: Value) -> None:
        """Remove an entry, if it exists."""
        self._entries.pop(_hashable_key(key), None)

    def get(self, key: Value) -> Value:
        """Return the value of a key, or MISSING. Integers of either type and whole doubles find each other."""
        entries = self._entries
        if not entries:
            return MISSING
        cls = key.__class__
        if cls is str:
            return entries.get(key, MISSING)
        found = entries.get(_hashable_key(key), MISSING)
        if found is not MISSING:
            return found
        if cls is float:
            if not math.isfinite(key) or key != int(key):
                return MISSING
            whole = int(key)
            if MIN_INT < whole < MAX_INT and (found := entries.get((int, whole), MISSING)) is not MISSING:
                return found
            return entries.get((Uint, Uint(whole)), MISSING) if 0 <= whole <= MAX_UINT else MISSING
        if cls is int:
            return entries.get((Uint, Uint(key)), MISSING) if key >= 0 else MISSING
        if cls is Uint:
            return entries.get((int, int(key)), MISSING)
        return MISSING

    def find(self, key: Value) -> Value:
        """Return the value of a key, or MISSING. A subclass can have a default."""
        return self.get(key)

    def keys(self) -> Iterator[Value]:
        """Return the keys."""
        return map(_written, self._entries)

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Return the keys and values."""
        return ((_written(key), value) for key, value in self._entries.items())

    def plain(self) -> "Map":
        """Return the map without a default."""
        return self


class DefaultMap(Map):
    """A map in which a lookup of a missing key yields a default."""

    __slots__ = ("_default",)

    def __init__(self, entries: dict[_Key, Value], default: Value) -> None:
        super().__init__(entries)
        self._default = default

    def find(self, key: Value) -> Value:
        """Return the value of a key, or the default."""
        found = self.get(key)
        return self._default if found is MISSING else found

    def plain(self) -> Map:
        """Return the map without the default."""
        return Map(self._entries)


class MutableMap(Map):
    """The map that a loop builds."""

    __slots__ = ()

    def frozen(self) -> Map:
        """Return the finished map."""
        return Map(self._entries)


class MutableList(list[Value]):
    """The list that a loop builds: adding to it changes it."""

    __slots__ = ()


class _Same:
    """A list as a key: upstream compares lists as keys by identity."""

    __slots__ = ("value",)

    def __init__(self, value: list[Value]) -> None:
        self.value = value


def _written(key: _Key) -> Value:
    """Return the key of an entry."""
    if isinstance(key, str):
        return key
    return key[1].value if isinstance(key[1], _Same) else key[1]


def _hashable_key(key: Value) -> _Key:
    if not hashable(key):
        raise InternalError(f"internal error: runtime error: hash of unhashable type {go_type(key)}")
    return (list, _Same(key)) if isinstance(key, list) else _key(key)


def hashable(value: Value) -> bool:
    """Return whether cel-go can look the value up in a map."""
    return value.hashable() if isinstance(value, Opaque) else value.__class__ is not bytes


def go_type(value: Value) -> str:
    """Return the name of cel-go's type of a value, which a few messages contain."""
    return value.go_type if isinstance(value, Opaque) else _GO_TYPES[value.__class__]


def lookup_keys(values: list[Value]) -> frozenset[_Key] | None:
    """Return keys for `in` on a constant list, or None if an element is no number, bool or string."""
    keys: set[_Key] = set()
    for value in values:
        cls = value.__class__
        if cls is str or cls is bool:
            keys.add(_key(value))
        elif cls is int or cls is Uint:
            keys.add((float, float(value)))
            if value <= MAX_INT:
                keys.add((int, int(value)))
            if value >= 0:
                keys.add((Uint, Uint(value)))
        elif cls is float:
            if not math.isnan(value):
                keys.add((float, value))
            if math.isfinite(value) and value == int(value):
                whole = int(value)
                if float(MIN_INT) < value < float(MAX_INT):
                    keys.add((int, whole))
                if 0 <= whole <= MAX_UINT:
                    keys.add((Uint, Uint(whole)))
        else:
            return None
    return frozenset(keys)


def is_member(keys: frozenset[_Key], value: Value) -> bool:
    """Return whether a value is among the keys of a constant list."""
    if value.__class__ is str:
        return value in keys
    if isinstance(value, list | Map | Optional):
        return False
    return _hashable_key(value) in keys


_TYPES: Final[dict[type, types.Type]] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: types.LIST,
    MutableList: types.LIST,
    Map: types.MAP,
    DefaultMap: types.MAP,
    MutableMap: types.MAP,
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Optional: types.OPTIONAL,
    types.Type: types.TYPE,
    CelError: types.ERROR,
}

_GO_TYPES: Final[dict[type, str]] = {
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    list: "*types.baseList",
    MutableList: "*types.mutableList",
    Map: "*types.baseMap",
    DefaultMap: "cel.mapper",
    MutableMap: "*types.mutableMap",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    Optional: "*types.Optional",
    types.Type: "*types.Type",
    CelError: "*types.Err",
}


def type_of(value: Value) -> types.Type:
    """Return the type of a value, without parameters."""
    found = _TYPES.get(value.__class__)
    return value.type if found is None else found


def matches_type(expected: types.Type, value: Value) -> bool:
    """Return whether a value can be an argument of the type. Of lists and maps the first entry is examined."""
    kind = expected.kind
    if kind in {"dyn", "any", "param"}:
        return True
    actual = type_of(value)
    if expected.name != actual.name:
        return False
    if kind == "list":
        return not value or matches_type(expected.parameters[0], value[0])
    if kind == "map":
        for key, item in value.items():
            return matches_type(expected.parameters[0], key) and matches_type(expected.parameters[1], item)
    return True


def compare_numbers(one: int | float, other: int | float) -> int:
    """Return the order of two numbers of any type. A double is compared in double precision."""
    if one.__class__ is float or other.__class__ is float:
        if one.__class__ is not float:
            return -compare_numbers(other, one)
        if other.__class__ is not float:
            unsigned = other.__class__ is Uint
            if one < (0 if unsigned else float(MIN_INT)):
                return -1
            if one > float(MAX_UINT if unsigned else MAX_INT):
                return 1
            other = float(other)
    return (one > other) - (one < other)


_NUMBERS: Final = frozenset({int, Uint, float})


class Work:
    """Counts the steps of comparisons of large values, whose cost the cost limit does not see."""

    limit: ClassVar[int] = 20_000_000
    done: ClassVar[int] = 0

    @classmethod
    def add(cls, steps: int) -> None:
        """Count steps. Raises WorkLimitExceeded."""
        cls.done += steps
        if cls.done > cls.limit:
            raise WorkLimitExceeded


def equal(one: Value, other: Value) -> bool | CelError:
    """Return whether two values are equal; some types cannot be compared with others."""
    cls = one.__class__
    other_cls = other.__class__
    if cls is str:
        return bool(other_cls is str and one == other)
    if one is None or other is None:
        return one is other
    if cls in _NUMBERS:
        if other_cls not in _NUMBERS:
            return False
        if cls is other_cls:
            return bool(one == other)
        if one != one or other != other:  # noqa: PLR0124 - not a number
            return False
        return compare_numbers(one, other) == 0
    if cls is bool or cls is bytes:
        return bool(cls is other_cls and one == other)
    if isinstance(one, list):
        if not isinstance(other, list) or len(one) != len(other):
            return False
        Work.add(len(one))
        return all(equal(left, right) is not False for left, right in zip(one, other, strict=True))
    if isinstance(one, Map):
        if not isinstance(other, Map) or len(one) != len(other):
            return False
        Work.add(len(one))
        for key, value in one.items():
            found = other.find(key)
            if found is MISSING or equal(value, found) is False:
                return False
        return True
    if cls is Duration:
        return other_cls is Duration and one.nanoseconds == other.nanoseconds
    if cls is Timestamp:
        return other_cls is Timestamp and one.nanoseconds == other.nanoseconds
    if cls is Optional:
        if other_cls is not Optional:
            return False
        if not (one.present and other.present):
            return one.present is other.present
        return equal(one.value, other.value)
    if cls is types.Type:
        return isinstance(other, types.Type) and one.name == other.name
    if isinstance(one, Opaque):
        return one.equal(other)
    return False


def contains(values: list[Value], value: Value) -> bool:
    """Return whether a list has an element that equals the value."""
    Work.add(len(values))
    return any(equal(value, element) is True for element in values)


def comparable(value: Value) -> bool:
    """Return whether values of the type have an order."""
    return value.__class__ in _ORDERED


def compare(one: Value, other: Value) -> int | CelError:
    """Return -1, 0 or 1, or an error if the values have no order."""
    cls = one.__class__
    other_cls = other.__class__
    if cls in _NUMBERS:
        if cls is float and math.isnan(one):
            return CelError("NaN values cannot be ordered")
        if other_cls not in _NUMBERS:
            return other if other_cls is CelError else no_such_overload()
        if other_cls is float and math.isnan(other):
            return CelError("NaN values cannot be ordered")
        return compare_numbers(one, other)
    if cls is not other_cls:
        return other if other_cls is CelError else no_such_overload()
    if cls is str:
        if one == other:
            return 0
        # Go compares bytes. The order of code points is the same.
        return 1 if one > other else -1
    if cls is Duration or cls is Timestamp:
        one, other = one.nanoseconds, other.nanoseconds
    return int(one > other) - int(one < other)


_ORDERED: Final = frozenset({int, Uint, float, str, bytes, bool, Duration, Timestamp})


def size(value: Value) -> int | None:
    """Return the number of characters, bytes or elements, or None if values of the type have no size."""
    if isinstance(value, str | bytes | list | Map):
        return len(value)
    return value.size() if isinstance(value, Opaque) else None


def is_zero(value: Value) -> bool:
    """Return whether a value is the zero or empty value of its type."""
    if value is None:
        return True
    if isinstance(value, bool | int | float | str | bytes | list | Map):
        return not value
    if isinstance(value, Duration):
        return value.nanoseconds == 0
    return isinstance(value, Timestamp) and value.nanoseconds == -62135596800 * 10**9


def shortest_digits(number: float) -> tuple[str, int]:
    """Return the fewest digits that identify a finite double, and the position of the decimal point among them."""
    text = repr(abs(number))
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    point = len(whole) + (int(exponent) if exponent else 0)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0")
    return (stripped, point) if stripped else ("0", 1)


def format_double(number: float, *, threshold: int = 6) -> str:
    """Format a double as Go's %g does, or %v with a threshold of 21."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    sign = "-" if math.copysign(1, number) < 0 else ""
    digits, point = shortest_digits(number)
    exponent = point - 1
    if number == 0:
        return sign + "0"
    if exponent < -4 or exponent >= threshold:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + _plain_digits(digits, point)


def _plain_digits(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


def format_plain_double(number: float) -> str:
    """Format a double without an exponent and with the fewest digits that identify it."""
    if not math.isfinite(number):
        return format_double(number)
    sign = "-" if math.copysign(1, number) < 0 else ""
    digits, point = shortest_digits(number)
    return sign + ("0" if number == 0 else _plain_digits(digits, point))


def text_of(value: Value) -> str:
    """Return a value as Go prints it in messages."""
    match value:
        case None:
            return "NULL_VALUE"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return format_double(value, threshold=21)
        case str():
            return value
        case bytes():
            return "[" + " ".join(map(str, value)) + "]"
        case list():
            return "[" + ", ".join(text_of(element) for element in value) + "]"
        case Map():
            return "{" + ", ".join(f"{text_of(key)}: {text_of(item)}" for key, item in value.items()) + "}"
        case Optional():
            return f"optional({text_of(value.value)})" if value.present else "optional.none()"
        case types.Type():
            return str(value)
        case CelError():
            return value.message
        case _:
            return str(value)
