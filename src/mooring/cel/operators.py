"""The operators: arithmetic, order, membership and tests of strings."""

import math
from collections.abc import Callable

from mooring.api.patterns import PatternIssue, found
from mooring.cel.conversions import duration_or_error, int_or_error, timestamp_or_error, uint_or_error
from mooring.cel.values import (
    MAX_LIST,
    MIN_INT,
    MISSING,
    CelError,
    Duration,
    Map,
    MutableList,
    Timestamp,
    Uint,
    Value,
    Work,
    WorkLimitExceeded,
    compare,
    contains,
    no_such_overload,
)


def add(one: Value, other: Value) -> Value:
    """Return the sum of numbers or times, or the concatenation of texts or lists."""
    cls, other_cls = one.__class__, other.__class__
    if cls is Duration and other_cls is Timestamp:
        return timestamp_or_error(one.nanoseconds + other.nanoseconds, other.offset)
    if cls is Timestamp:
        if other_cls is Duration:
            return timestamp_or_error(one.nanoseconds + other.nanoseconds, one.offset)
        return no_such_overload()
    if isinstance(one, list):
        return _concatenated(one, other) if isinstance(other, list) else no_such_overload()
    if cls is not other_cls:
        return no_such_overload()
    if cls is int:
        return int_or_error(one + other)
    if cls is Uint:
        return uint_or_error(int(one) + int(other))
    if cls is Duration:
        return duration_or_error(one.nanoseconds + other.nanoseconds)
    return one + other


def _concatenated(one: list[Value], other: list[Value]) -> list[Value]:
    if len(one) + len(other) > MAX_LIST:
        raise WorkLimitExceeded
    if one.__class__ is MutableList:
        one.extend(other)
        return one
    if not one or not other:
        return other or one
    Work.add((len(one) + len(other)) // 64)
    return one + list(other)


def subtract(one: Value, other: Value) -> Value:
    """Return the difference of numbers or times."""
    cls, other_cls = one.__class__, other.__class__
    if cls is Timestamp:
        if other_cls is Duration:
            negated = duration_or_error(-other.nanoseconds)
            return negated if isinstance(negated, CelError) else add(one, negated)
        if other_cls is Timestamp:
            return duration_or_error(one.nanoseconds - other.nanoseconds)
        return no_such_overload()
    if cls is not other_cls:
        return no_such_overload()
    if cls is int:
        return int_or_error(one - other)
    if cls is Uint:
        return uint_or_error(int(one) - int(other))
    if cls is Duration:
        return duration_or_error(one.nanoseconds - other.nanoseconds)
    return one - other


def multiply(one: Value, other: Value) -> Value:
    """Return the product of numbers."""
    if one.__class__ is not other.__class__:
        return no_such_overload()
    if one.__class__ is float:
        return one * other
    return (int_or_error if one.__class__ is int else uint_or_error)(int(one) * int(other))


def divide(one: Value, other: Value) -> Value:
    """Return the quotient of numbers, truncated for integers."""
    if one.__class__ is not other.__class__:
        return no_such_overload()
    if one.__class__ is float:
        return _divide_doubles(one, other)
    if other == 0:
        return CelError("division by zero")
    quotient = abs(int(one)) // abs(int(other))
    return int_or_error(quotient if (one < 0) == (other < 0) else -quotient) if one.__class__ is int else Uint(quotient)


def _divide_doubles(one: float, other: float) -> float:
    if other != 0:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


def modulo(one: Value, other: Value) -> Value:
    """Return the rest of a division; it has the sign of the dividend."""
    if one.__class__ is not other.__class__:
        return no_such_overload()
    if other == 0:
        return CelError("modulus by zero")
    if one.__class__ is Uint:
        return Uint(int(one) % int(other))
    if one == MIN_INT and other == -1:
        return CelError("integer overflow")
    return (
        int(math.fmod(one, other))
        if abs(one) < 2**53 > abs(other)
        else (abs(one) % abs(other)) * (1 if one >= 0 else -1)
    )


def negate(value: Value) -> Value:
    """Return the negative of a number."""
    if value.__class__ is bool:
        return no_such_overload()
    if value.__class__ is Duration:
        return duration_or_error(-value.nanoseconds)
    return -value if value.__class__ is float else int_or_error(-value)


def negate_bool(value: Value) -> Value:
    """Return the opposite of a bool."""
    return not value if value.__class__ is bool else no_such_overload()


def ordered(accepted: frozenset[int]) -> Callable[[Value, Value], Value]:
    """Return a comparison that holds for the accepted orders."""

    def check(one: Value, other: Value) -> Value:
        order = compare(one, other)
        return order if order.__class__ is CelError else order in accepted

    return check


def is_in(value: Value, aggregate: Value) -> Value:
    """Return whether a list has an element, or a map a key."""
    if isinstance(aggregate, list):
        return contains(aggregate, value)
    if isinstance(aggregate, Map):
        return aggregate.get(value) is not MISSING
    return no_such_overload()


def matches(text: Value, pattern: Value) -> Value:
    """Return whether a part of a string matches a pattern."""
    if pattern.__class__ is not str:
        return no_such_overload()
    try:
        return found(pattern, text)
    except PatternIssue as issue:
        return CelError(str(issue))


def on_texts(test: Callable[[str, str], bool]) -> Callable[[Value, Value], Value]:
    """Return a test for two strings."""

    def check(text: Value, part: Value) -> Value:
        return test(text, part) if text.__class__ is str and part.__class__ is str else no_such_overload()

    return check
