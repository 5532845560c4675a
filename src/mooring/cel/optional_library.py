"""Optional values: `optional.of`, `orValue` and the operators with a question mark."""

from typing import Final

from mooring.cel import macros, types
from mooring.cel.environment import Function, Library, Overload, member, plain
from mooring.cel.standard_library import operator
from mooring.cel.types import BOOL, DYN, INT, STRING, list_of, map_of
from mooring.cel.values import NONE, CelError, Optional, Value, is_zero

_K: Final = types.parameter("K")
_V: Final = types.parameter("V")
_OPTIONAL: Final = types.optional_of(_V)
_LIST_V: Final = list_of(_V)
_MAP_KV: Final = map_of(_K, _V)


def _value(optional: Value) -> Value:
    return optional.value if optional.present else CelError("optional.none() dereference")


def _first(values: list[Value]) -> Optional:
    return Optional(values[0]) if values else NONE


def _last(values: list[Value]) -> Optional:
    return Optional(values[-1]) if values else NONE


def _unwrap(values: list[Value]) -> Value:
    for value in values:
        if value.__class__ is not Optional:
            return CelError(f"value {value} is not optional")
    return [value.value for value in values if value.present]


OPTIONAL: Final = Library(
    (
        plain("optional.of", "optional_of", (_V,), _OPTIONAL, Optional),
        plain(
            "optional.ofNonZeroValue",
            "optional_ofNonZeroValue",
            (_V,),
            _OPTIONAL,
            lambda value: NONE if is_zero(value) else Optional(value),
        ),
        plain("optional.none", "optional_none", (), _OPTIONAL, lambda: NONE),
        member("value", "optional_value", (_OPTIONAL,), _V, _value),
        member("hasValue", "optional_hasValue", (_OPTIONAL,), BOOL, lambda optional: optional.present),
        Function("or", [Overload("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, member=True)]),
        Function("orValue", [Overload("optional_orValue_value", (_OPTIONAL, _V), _V, member=True)]),
        operator("_?._", None, None, ("select_optional_field", (DYN, STRING), _OPTIONAL)),
        operator(
            "_[?_]",
            None,
            None,
            ("list_optindex_optional_int", (_LIST_V, INT), _OPTIONAL),
            ("optional_list_optindex_optional_int", (types.optional_of(_LIST_V), INT), _OPTIONAL),
            ("map_optindex_optional_value", (_MAP_KV, _K), _OPTIONAL),
            ("optional_map_optindex_optional_value", (types.optional_of(_MAP_KV), _K), _OPTIONAL),
        ),
        operator(
            "_[_]",
            None,
            None,
            ("optional_list_index_int", (types.optional_of(_LIST_V), INT), _OPTIONAL),
            ("optional_map_index_value", (types.optional_of(_MAP_KV), _K), _OPTIONAL),
        ),
        member("last", "list_last", (_LIST_V,), _OPTIONAL, _last),
        member("first", "list_first", (_LIST_V,), _OPTIONAL, _first),
        plain("optional.unwrap", "optional_unwrap", (list_of(_OPTIONAL),), _LIST_V, _unwrap),
        member("unwrapOpt", "optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST_V, _unwrap),
    ),
    (types.OPTIONAL,),
    macros.OPTIONAL,
)
