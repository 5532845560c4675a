"""The cost of calls at run time, as cel-go and Kubernetes count it.

Access to a variable, field or element costs 1, a new list 10, a new map 30; this module has the cost of calls. An
evaluation whose cost exceeds the limit of its program fails, so every unit counts.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from mooring.cel.values import InternalError, Map, Optional, Value, go_type, size, type_of

#: The first version of cel-go, 0.x, with other costs, and with stricter functions.
NEWER_CEL_GO: Final = 29
NEW_LIST: Final = 10
NEW_MAP: Final = 30
NEW_STRUCT: Final = 40
_TEXT: Final = 0.1
_PATTERN: Final = 0.25

#: A fixed cost, or a function of the arguments and the result.
CallCost: TypeAlias = int | Callable[[Sequence[Value], Value], int]


def _size(value: Value) -> int:
    """Return the size of a value; a value without one counts as 1."""
    found = size(value)
    return 1 if found is None else found


def _size_in_optional(value: Value) -> int:
    if value.__class__ is Optional and value.present:
        return _size_in_optional(value.value)
    return _size(value)


def traversal(value: Value) -> int:
    """Return the cost of visiting every part of a value."""
    if isinstance(value, str):
        return int(len(value.encode()) * _TEXT)
    if isinstance(value, bytes):
        return int(len(value) * _TEXT)
    if isinstance(value, list):
        return sum(map(traversal, value))
    if isinstance(value, Map):
        return sum(traversal(key) + traversal(item) for key, item in value.items())
    return 1


def _text_cost(args: Sequence[Value], _: Value) -> int:
    return math.ceil(_size(args[0]) * _TEXT)


def _affix_cost(args: Sequence[Value], _: Value) -> int:
    return math.ceil(_size_in_optional(args[1]) * _TEXT)


def _double_text_cost(args: Sequence[Value], _: Value) -> int:
    return math.ceil(_size(args[0]) * 2 * _TEXT)


def _optional_text_cost(args: Sequence[Value], _: Value) -> int:
    return math.ceil(_size_in_optional(args[0]) * _TEXT)


def _join_cost(_: Sequence[Value], result: Value) -> int:
    return math.ceil(_size(result) * 2 * _TEXT)


def _pattern_cost(args: Sequence[Value], _: Value) -> int:
    return math.ceil((1.0 + _size(args[0])) * _TEXT) * math.ceil(_size(args[1]) * _PATTERN)


def _matches_cost(args: Sequence[Value], _: Value) -> int:
    return math.ceil((1.0 + _size_in_optional(args[0])) * _TEXT) * math.ceil(_size_in_optional(args[1]) * _PATTERN)


def _traversal_cost(args: Sequence[Value], _: Value) -> int:
    return traversal(args[0]) if args else 0


def _shorter_cost(args: Sequence[Value], _: Value) -> int:
    return math.ceil(min(_size_in_optional(args[0]), _size_in_optional(args[1])) * _TEXT)


def equality_cost(one: Value, other: Value) -> int:
    """Return the cost of `==`."""
    if getattr(one, "constant_cost", False):
        return 1
    return math.ceil(min(_size_in_optional(one), _size_in_optional(other)) * _TEXT)


def inequality_cost(one: Value, other: Value) -> int:
    """Return the cost of `!=`."""
    return math.ceil(min(_size_in_optional(one), _size_in_optional(other)) * _TEXT)


def _sum_cost(args: Sequence[Value], _: Value) -> int:
    return math.ceil((_size_in_optional(args[0]) + _size_in_optional(args[1])) * _TEXT)


def _contains_cost(args: Sequence[Value], _: Value) -> int:
    return math.ceil(_size_in_optional(args[0]) * _TEXT) * math.ceil(_size_in_optional(args[1]) * _TEXT)


def _in_list_cost(args: Sequence[Value], _: Value) -> int:
    return _size_in_optional(args[1])


def _contains_ip_cost(args: Sequence[Value], _: Value) -> int:
    return math.ceil(2 * _size(args[0]) * _TEXT)


def _contains_ip_text_cost(args: Sequence[Value], _: Value) -> int:
    return _contains_ip_cost(args, _) + math.ceil(_size(args[1]) * _TEXT)


def _contains_cidr_cost(args: Sequence[Value], _: Value) -> int:
    return _contains_ip_cost(args, _) + math.ceil(_size(args[0]) * _TEXT) + 1


def _contains_cidr_text_cost(args: Sequence[Value], _: Value) -> int:
    return _contains_cidr_cost(args, _) + math.ceil(_size(args[1]) * _TEXT)


def _validate_cost(args: Sequence[Value], _: Value) -> int:
    length: int | None = getattr(args[0], "pattern_length", None)
    if length is None:
        return 1
    return math.ceil((1.0 + _size(args[1])) * _TEXT) * math.ceil(length * _PATTERN)


def _sets_cost(factor: float) -> CallCost:
    return lambda args, _: 1 + int(_size(args[0]) * _size(args[1]) * factor)


def _new_list_cost(factor: float, length: int) -> int:
    return int(length * factor) + 1 + NEW_LIST


def _output_cost(_: Sequence[Value], result: Value) -> int:
    return _new_list_cost(1, _size(result))


def _flatten_cost(args: Sequence[Value], _: Value) -> int:
    depth = 1.0
    if len(args) == 2:
        if args[1].__class__ is not int:
            raise InternalError(f"internal error: interface conversion: ref.Val is {go_type(args[1])}, not types.Int")
        depth = float(args[1])
    # A negative depth is an error, but lowers the cost.
    return _new_list_cost(depth, _size(args[0]))


def _flatten_depth_cost(args: Sequence[Value], result: Value) -> int:
    is_negative = args[1].__class__ is int and args[1] < 0
    return _new_list_cost(1, _size(args[0])) if is_negative else _flatten_cost(args, result)


_ADDERS: Final = frozenset({"bytes", "double", "duration", "int", "string", "timestamp", "uint"})


def _self_compare_cost(position: int) -> CallCost:
    def cost(args: Sequence[Value], _: Value) -> int:
        values = args[position]
        if not isinstance(values, list):
            method = "Contains" if type_of(values).kind in _ADDERS else "Add"
            raise InternalError(
                f"internal error: interface conversion: {go_type(values)} is not traits.Lister: missing method {method}"
            )
        factor = 2.0
        if values and isinstance(values[0], str | bytes):
            factor += _TEXT
        return _new_list_cost(factor, len(values) ** 2)

    return cost


_ELEMENTS: Final = (
    "int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes",
)  # fmt: skip

_BY_OVERLOAD_FIRST: Final[dict[str, CallCost]] = {
    "list_sets_contains_list": _sets_cost(1),
    "list_sets_intersects_list": _sets_cost(1),
    "list_sets_equivalent_list": _sets_cost(2),
    "list_slice": _output_cost,
    "lists_range": _output_cost,
    "list_reverse": _output_cost,
    "list_flatten": _flatten_cost,
    "list_flatten_int": _flatten_cost,
    "list_distinct": _self_compare_cost(0),
    **{f"list_{name}_sort": _self_compare_cost(0) for name in _ELEMENTS},
    **{f"list_{name}_sortByAssociatedKeys": _self_compare_cost(1) for name in _ELEMENTS},
}

_BY_FUNCTION: Final[dict[str, CallCost]] = {
    "check": 350_000,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal_cost),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _text_cost),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _double_text_cost),
    "join": _join_cost,
    "find": _pattern_cost,
    "findAll": _pattern_cost,
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _text_cost),
    "validate": _validate_cost,
    **dict.fromkeys(("sign", "asInteger", "isInteger", "asApproximateFloat"), 1),
}

_BY_OVERLOAD: Final[dict[str, CallCost]] = {
    "cidr_ip": 1,
    "cidr_contains_ip_string": _contains_ip_text_cost,
    "cidr_contains_ip_ip": _contains_ip_cost,
    "cidr_contains_cidr_string": _contains_cidr_text_cost,
    "cidr_contains_cidr": _contains_cidr_cost,
    **dict.fromkeys(
        (
            "starts_with_string",
            "ends_with_string",
            "string_to_bytes",
            "bytes_to_string",
            "strings_quote",
            "string_format",
        ),
        _optional_text_cost,
    ),
    "in_list": _in_list_cost,
    "list_includes_dyn_dyn": _traversal_cost,
    **{
        f"{name}_{of}": _shorter_cost
        for name in ("less", "less_equals", "greater", "greater_equals")
        for of in ("string", "bytes")
    },
    "add_string": _sum_cost,
    "add_bytes": _sum_cost,
    "matches_string": _matches_cost,
    "contains_string": _contains_cost,
}


#: What cel-go 0.29 counts differently from 0.26, by overload.
_BY_OVERLOAD_0_29: Final[dict[str, CallCost]] = {
    "starts_with_string": _affix_cost,
    "ends_with_string": _affix_cost,
    "matches": _matches_cost,
    "list_flatten_int": _flatten_depth_cost,
}


def call_cost(function: str, overload: str, cel_go: int) -> CallCost:
    """Return the cost of a call in cel-go 0.`cel_go`. `overload` is empty if only the arguments determine it."""
    if cel_go >= NEWER_CEL_GO and (found := _BY_OVERLOAD_0_29.get(overload)) is not None:
        return found
    if (found := _BY_OVERLOAD_FIRST.get(overload)) is not None:
        return found
    if overload == "cidr_ip":
        return 1
    if function == "containsIP" and not overload:
        return _contains_ip_cost
    if function == "containsCIDR" and not overload:
        return _contains_cidr_cost
    found = _BY_FUNCTION.get(function)
    return _BY_OVERLOAD.get(overload, 1) if found is None else found
