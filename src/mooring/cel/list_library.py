"""Functions on lists, sets and maps: cel-go's extensions and Kubernetes' own."""

import functools
from collections.abc import Callable
from typing import Final

from mooring.cel import macros, types
from mooring.cel.environment import Function, Library, Overload, function, member, plain
from mooring.cel.operators import add
from mooring.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, Type, list_of, map_of
from mooring.cel.values import (
    MAX_LIST,
    MISSING,
    CelError,
    CostLimitExceeded,
    Duration,
    Map,
    MutableMap,
    Uint,
    Value,
    Work,
    WorkLimitExceeded,
    comparable,
    compare,
    contains,
    equal,
    no_such_overload,
    text_of,
    type_of,
)

_T: Final = types.parameter("T")
_LIST: Final = list_of(_T)
#: The longest list that lists.range returns in cel-go 0.29.
_MAX_RANGE: Final = 1_000_000
_COMPARABLE: Final = {
    "int": INT, "uint": UINT, "double": DOUBLE, "bool": BOOL, "duration": DURATION, "timestamp": TIMESTAMP,
    "string": STRING, "bytes": BYTES,
}  # fmt: skip


def _slice(values: list[Value], start: int, end: int) -> Value:
    if start < 0 or end < 0:
        return CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        return CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        return CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: Value, depth: Value = 1) -> Value:
    if not isinstance(values, list) or depth.__class__ is not int:
        shown = f"{type_of(values)}.flatten()" if depth == 1 else f"{type_of(values)}.flatten({type_of(depth)})"
        return CelError(f"no such overload: {shown}")
    if depth < 0:
        return CelError("level must be non-negative")
    result: list[Value] = []
    stack = [(iter(values), depth)]
    while stack:
        rest, levels = stack[-1]
        for value in rest:
            if isinstance(value, list) and levels > 0:
                stack.append((iter(value), levels - 1))
                break
            result.append(value)
            if len(result) > MAX_LIST:
                raise WorkLimitExceeded
        else:
            stack.pop()
    return result


def _sorted_by(values: list[Value], keys: list[Value]) -> Value:
    if len(values) != len(keys):
        counts = f"but got {len(values)} and {len(keys)} elements respectively"
        return CelError(
            f"@sortByAssociatedKeys() expected a list of the same size as the associated keys list, {counts}"
        )
    if not values:
        return values
    if not comparable(keys[0]):
        return CelError("list elements must be comparable")
    if len(keys) > 1 and any(key.__class__ is not keys[0].__class__ for key in keys):
        return CelError("list elements must have the same type")

    def order(one: int, other: int) -> int:
        found = compare(keys[one], keys[other])
        return found if isinstance(found, int) else 0

    Work.add(len(keys))
    return [values[index] for index in sorted(range(len(keys)), key=functools.cmp_to_key(order))]


def _sort(values: list[Value]) -> Value:
    return _sorted_by(values, values)


def _range(length: int) -> list[Value]:
    # An element costs 1, so that a longer list exceeds every limit. Upstream notices after it has made the list.
    if length > MAX_LIST:
        raise CostLimitExceeded
    return list(range(length))


def _limited_range(length: int) -> Value:
    if length < 0:
        return CelError(f"lists.range: size must be non-negative, got {length}")
    if length > _MAX_RANGE:
        return CelError(f"lists.range: size {length} exceeds maximum allowed ({_MAX_RANGE})")
    return list(range(length))


def _distinct(values: list[Value]) -> list[Value]:
    result: list[Value] = []
    for value in values:
        Work.add(len(result))
        if not any(equal(value, other) is True for other in result):
            result.append(value)
    return result


def _by_element(name: str, number: str, call: Callable[..., Value], *more: Type) -> Function:
    """Return a method for lists of each type with an order."""
    overloads = [
        Overload(number.format(of.name), (*more, list_of(of)), more[0] if more else list_of(of), member=True)
        for of in _COMPARABLE.values()
    ]
    return Function(name, overloads, call, frozenset({"list"}))


LISTS: Final = Library(
    (
        member("slice", "list_slice", (_LIST, INT, INT), _LIST, _slice),
        Function(
            "flatten",
            [
                Overload("list_flatten", (list_of(_LIST),), _LIST, _flatten, member=True),
                Overload("list_flatten_int", (list_of(DYN), INT), list_of(DYN), _flatten, member=True),
            ],
            guarded=False,
        ),
        _by_element("sort", "list_{}_sort", _sort),
        _by_element("@sortByAssociatedKeys", "list_{}_sortByAssociatedKeys", _sorted_by, _LIST),
        member("reverse", "list_reverse", (_LIST,), _LIST, lambda values: values[::-1]),
        member("distinct", "list_distinct", (_LIST,), _LIST, _distinct),
    ),
    macros=macros.LISTS,
)
RANGE: Final = Library((plain("lists.range", "lists_range", (INT,), list_of(INT), _range),))
#: The same as cel-go 0.29 has it.
LIMITED_RANGE: Final = Library((plain("lists.range", "lists_range", (INT,), list_of(INT), _limited_range),))


# Sets


def _contains_all(values: list[Value], parts: list[Value]) -> bool:
    return all(contains(values, part) for part in parts)


SETS: Final = Library(
    (
        plain("sets.contains", "list_sets_contains_list", (_LIST, _LIST), BOOL, _contains_all),
        plain(
            "sets.equivalent",
            "list_sets_equivalent_list",
            (_LIST, _LIST),
            BOOL,
            lambda one, other: _contains_all(one, other) and _contains_all(other, one),
        ),
        plain(
            "sets.intersects",
            "list_sets_intersects_list",
            (_LIST, _LIST),
            BOOL,
            lambda one, other: any(contains(other, value) for value in one),
        ),
    )
)


# Loops with two variables


def _insert(target: Map, key: Value, value: Value) -> Value:
    if target.get(key) is not MISSING:
        return CelError(f"insert failed: key {text_of(key)} already exists")
    if target.__class__ is not MutableMap:
        Work.add(len(target))
        target = _copy(target)
    target[key] = value
    return target


def _copy(source: Map) -> Map:
    result = Map()
    for key, value in source.items():
        result[key] = value
    return result


def _insert_all(target: Map, update: Map) -> Value:
    result: Value = target
    for key, value in update.items():
        result = _insert(result, key, value)
        if isinstance(result, CelError):
            return result
    return result


_KEY: Final = types.parameter("K")
_VALUE: Final = types.parameter("V")
_MAP: Final = map_of(_KEY, _VALUE)

TWO_VARIABLES: Final = Library(
    (
        function(
            "cel.@mapInsert",
            Overload("@mapInsert_map_key_value", (_MAP, _KEY, _VALUE), _MAP, _insert, variadic=True),
            Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, _insert_all),
        ),
    ),
    macros=macros.TWO_VARIABLES,
)
BINDINGS: Final = Library(macros=macros.BINDINGS)


# Kubernetes' functions


def _is_sorted(values: list[Value]) -> Value:
    previous = MISSING
    for value in values:
        if not comparable(value):
            return no_such_overload()
        if previous is not MISSING and compare(previous, value) == 1:
            return False
        previous = value
    return True


def _sum(zero: Value) -> Callable[[list[Value]], Value]:
    def total(values: list[Value]) -> Value:
        result = zero
        for value in values:
            result = add(result, value)
            if isinstance(result, CelError):
                return result
        return result

    return total


def _extreme(name: str, preferred: int) -> Callable[[list[Value]], Value]:
    def extreme(values: list[Value]) -> Value:
        if not values:
            return CelError(f"{name} called on empty list")
        result = values[0]
        for value in values:
            if not comparable(value):
                return no_such_overload()
            if compare(result, value) == preferred:
                result = value
        return result

    return extreme


def _position(values: list[Value], item: Value) -> int:
    Work.add(len(values))
    return next((index for index, value in enumerate(values) if equal(value, item) is True), -1)


def _last_position(values: list[Value], item: Value) -> int:
    Work.add(len(values))
    return next((index for index in reversed(range(len(values))) if equal(values[index], item) is True), -1)


_ZEROES: Final = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_A: Final = types.parameter("A")

KUBERNETES_LISTS: Final = Library(
    (
        function(
            "isSorted",
            *(
                Overload(f"list_{name}_is_sorted_bool", (list_of(of),), BOOL, _is_sorted, member=True)
                for name, of in _COMPARABLE.items()
            ),
        ),
        function(
            "sum",
            *(
                Overload(
                    f"list_{name}_sum_{name}", (list_of(_COMPARABLE[name]),), _COMPARABLE[name], _sum(zero), member=True
                )
                for name, zero in _ZEROES.items()
            ),
        ),
        function(
            "max",
            *(
                Overload(f"list_{name}_max_{name}", (list_of(of),), of, _extreme("max", -1), member=True)
                for name, of in _COMPARABLE.items()
            ),
        ),
        function(
            "min",
            *(
                Overload(f"list_{name}_min_{name}", (list_of(of),), of, _extreme("min", 1), member=True)
                for name, of in _COMPARABLE.items()
            ),
        ),
        member("indexOf", "list_a_index_of_int", (list_of(_A), _A), INT, _position),
        member("lastIndexOf", "list_a_last_index_of_int", (list_of(_A), _A), INT, _last_position),
    )
)
