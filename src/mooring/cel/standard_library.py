"""The standard functions and operators of CEL."""

from collections.abc import Callable, Iterable
from typing import Final

from mooring.cel import conversions, macros, operators, types
from mooring.cel.environment import Function, Library, Overload, function, member
from mooring.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, Type, list_of, map_of
from mooring.cel.values import Value, type_of

_A: Final = types.parameter("A")
_B: Final = types.parameter("B")
_LIST_A: Final = list_of(_A)
_MAP_AB: Final = map_of(_A, _B)
_NANO: Final = 10**9


def operator(
    name: str,
    call: Callable[..., Value] | None,
    kinds: Iterable[str] | None,
    *overloads: tuple[str, tuple[Type, ...], Type],
) -> Function:
    """Return a function whose signatures share one implementation."""
    signatures = [Overload(number, args, result) for number, args, result in overloads]
    return Function(name, signatures, call, None if kinds is None else frozenset(kinds))


def _comparison(name: str, prefix: str, accepted: set[int]) -> Function:
    same = {
        "bool": BOOL,
        "int64": INT,
        "uint64": UINT,
        "double": DOUBLE,
        "string": STRING,
        "bytes": BYTES,
        "timestamp": TIMESTAMP,
        "duration": DURATION,
    }
    numbers = {"int64": INT, "uint64": UINT, "double": DOUBLE}
    overloads = [(f"{prefix}_{label}", (of, of), BOOL) for label, of in same.items()]
    overloads += [
        (f"{prefix}_{left}_{right}", (one, other), BOOL)
        for left, one in numbers.items()
        for right, other in numbers.items()
        if one is not other
    ]
    kinds = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")
    return operator(name, operators.ordered(frozenset(accepted)), kinds, *overloads)


def _arithmetic(
    name: str, word: str, call: Callable[..., Value], kinds: Iterable[str], *more: tuple[str, tuple[Type, ...], Type]
) -> Function:
    labels = {"int64": INT, "uint64": UINT, "double": DOUBLE}
    overloads = [
        (f"{word}_{label}", (of, of), of) for label, of in labels.items() if not (name == "_%_" and of is DOUBLE)
    ]
    return operator(name, call, kinds, *overloads, *more)


def _conversion(target: Type, name: str, call: Callable[[Value], Value], *sources: tuple[str, Type]) -> Function:
    return function(name, *(Overload(number, (of,), target, call) for number, of in sources))


def _time_part(name: str, number: str, get: Callable[..., Value], *more: Overload) -> Function:
    return function(
        name,
        Overload(number, (TIMESTAMP,), INT, get, member=True),
        Overload(f"{number}_with_tz", (TIMESTAMP, STRING), INT, get, member=True),
        *more,
    )


def _duration_part(number: str, divisor: int) -> Overload:
    return Overload(number, (DURATION,), INT, conversions.duration_part(divisor), member=True)


def _text_test(name: str, number: str, test: Callable[[str, str], bool]) -> Function:
    declared = member(name, number, (STRING, STRING), BOOL, operators.on_texts(test))
    declared.guarded = False
    return declared


def _size(value: Value) -> int:
    return len(value)


_SIZES: Final = (("bytes", BYTES), ("list", _LIST_A), ("map", _MAP_AB), ("string", STRING))

_FUNCTIONS: Final = (
    operator("_?_:_", None, None, ("conditional", (BOOL, _A, _A), _A)),
    operator("_&&_", None, None, ("logical_and", (BOOL, BOOL), BOOL)),
    operator("_||_", None, None, ("logical_or", (BOOL, BOOL), BOOL)),
    operator("!_", operators.negate_bool, None, ("logical_not", (BOOL,), BOOL)),
    function(
        "@not_strictly_false",
        Overload("not_strictly_false", (BOOL,), BOOL, lambda value: value is not False, nonstrict=True),
    ),
    operator("_==_", None, None, ("equals", (_A, _A), BOOL)),
    operator("_!=_", None, None, ("not_equals", (_A, _A), BOOL)),
    operator(
        "_+_",
        operators.add,
        ("bytes", "double", "duration", "int", "string", "timestamp", "uint", "list"),
        ("add_bytes", (BYTES, BYTES), BYTES),
        ("add_double", (DOUBLE, DOUBLE), DOUBLE),
        ("add_duration_duration", (DURATION, DURATION), DURATION),
        ("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP),
        ("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        ("add_int64", (INT, INT), INT),
        ("add_list", (_LIST_A, _LIST_A), _LIST_A),
        ("add_string", (STRING, STRING), STRING),
        ("add_uint64", (UINT, UINT), UINT),
    ),
    _arithmetic(
        "_-_",
        "subtract",
        operators.subtract,
        ("double", "duration", "int", "timestamp", "uint"),
        ("subtract_duration_duration", (DURATION, DURATION), DURATION),
        ("subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        ("subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION),
    ),
    _arithmetic("_*_", "multiply", operators.multiply, ("double", "int", "uint")),
    _arithmetic("_/_", "divide", operators.divide, ("double", "int", "uint")),
    _arithmetic("_%_", "modulo", operators.modulo, ("int", "uint")),
    operator(
        "-_",
        operators.negate,
        ("bool", "double", "duration", "int"),
        ("negate_double", (DOUBLE,), DOUBLE),
        ("negate_int64", (INT,), INT),
    ),
    _comparison("_<_", "less", {-1}),
    _comparison("_<=_", "less_equals", {-1, 0}),
    _comparison("_>_", "greater", {1}),
    _comparison("_>=_", "greater_equals", {0, 1}),
    operator("_[_]", None, None, ("index_list", (_LIST_A, INT), _A), ("index_map", (_MAP_AB, _A), _B)),
    operator("@in", operators.is_in, None, ("in_list", (_A, _LIST_A), BOOL), ("in_map", (_A, _MAP_AB), BOOL)),
    Function(
        "size",
        [
            *(Overload(f"size_{label}", (of,), INT) for label, of in _SIZES),
            *(Overload(f"{label}_size", (of,), INT, member=True) for label, of in _SIZES),
        ],
        _size,
        frozenset({"bytes", "list", "map", "string"}),
    ),
    operator("type", type_of, None, ("type", (_A,), types.type_of_type(_A))),
    operator("dyn", lambda value: value, None, ("to_dyn", (_A,), DYN)),
    _conversion(
        BOOL,
        "bool",
        lambda value: value if value.__class__ is bool else conversions.to_bool(value),
        ("bool_to_bool", BOOL),
        ("string_to_bool", STRING),
    ),
    _conversion(BYTES, "bytes", conversions.to_bytes, ("bytes_to_bytes", BYTES), ("string_to_bytes", STRING)),
    _conversion(
        DOUBLE,
        "double",
        conversions.to_double,
        ("double_to_double", DOUBLE),
        ("int64_to_double", INT),
        ("string_to_double", STRING),
        ("uint64_to_double", UINT),
    ),
    _conversion(
        DURATION,
        "duration",
        conversions.to_duration,
        ("duration_to_duration", DURATION),
        ("int64_to_duration", INT),
        ("string_to_duration", STRING),
    ),
    _conversion(
        INT,
        "int",
        conversions.to_int,
        ("int64_to_int64", INT),
        ("double_to_int64", DOUBLE),
        ("duration_to_int64", DURATION),
        ("string_to_int64", STRING),
        ("timestamp_to_int64", TIMESTAMP),
        ("uint64_to_int64", UINT),
    ),
    _conversion(
        STRING,
        "string",
        conversions.to_string,
        ("string_to_string", STRING),
        ("bool_to_string", BOOL),
        ("bytes_to_string", BYTES),
        ("double_to_string", DOUBLE),
        ("duration_to_string", DURATION),
        ("int64_to_string", INT),
        ("timestamp_to_string", TIMESTAMP),
        ("uint64_to_string", UINT),
    ),
    _conversion(
        TIMESTAMP,
        "timestamp",
        conversions.to_timestamp,
        ("timestamp_to_timestamp", TIMESTAMP),
        ("int64_to_timestamp", INT),
        ("string_to_timestamp", STRING),
    ),
    _conversion(
        UINT,
        "uint",
        conversions.to_uint,
        ("uint64_to_uint64", UINT),
        ("double_to_uint64", DOUBLE),
        ("int64_to_uint64", INT),
        ("string_to_uint64", STRING),
    ),
    _text_test("contains", "contains_string", lambda text, part: part in text),
    _text_test("endsWith", "ends_with_string", str.endswith),
    _text_test("startsWith", "starts_with_string", str.startswith),
    Function(
        "matches",
        [
            Overload("matches", (STRING, STRING), BOOL),
            Overload("matches_string", (STRING, STRING), BOOL, member=True),
        ],
        operators.matches,
        frozenset({"string"}),
    ),
    _time_part("getFullYear", "timestamp_to_year", conversions.time_part(lambda time: time.year)),
    _time_part("getMonth", "timestamp_to_month", conversions.time_part(lambda time: time.month - 1)),
    _time_part("getDayOfYear", "timestamp_to_day_of_year", conversions.time_part(lambda time: int(f"{time:%j}") - 1)),
    _time_part("getDayOfMonth", "timestamp_to_day_of_month", conversions.time_part(lambda time: time.day - 1)),
    _time_part("getDate", "timestamp_to_day_of_month_1_based", conversions.time_part(lambda time: time.day)),
    _time_part("getDayOfWeek", "timestamp_to_day_of_week", conversions.time_part(lambda time: time.isoweekday() % 7)),
    _time_part(
        "getHours",
        "timestamp_to_hours",
        conversions.time_part(lambda time: time.hour),
        _duration_part("duration_to_hours", 3600 * _NANO),
    ),
    _time_part(
        "getMinutes",
        "timestamp_to_minutes",
        conversions.time_part(lambda time: time.minute),
        _duration_part("duration_to_minutes", 60 * _NANO),
    ),
    _time_part(
        "getSeconds",
        "timestamp_to_seconds",
        conversions.time_part(lambda time: time.second),
        _duration_part("duration_to_seconds", _NANO),
    ),
    _time_part(
        "getMilliseconds",
        "timestamp_to_milliseconds",
        conversions.milliseconds,
        _duration_part("duration_to_milliseconds", 10**6),
    ),
)

_TYPES: Final = (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    types.LIST,
    types.MAP,
    types.NULL,
    STRING,
    TIMESTAMP,
    types.TYPE,
    UINT,
)

STANDARD: Final = Library(_FUNCTIONS, _TYPES, macros.STANDARD)
