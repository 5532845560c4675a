"""Functions on strings: cel-go's extension in version 2, which Kubernetes uses."""

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from mooring.cel import types
from mooring.cel.checker import Checked, TypeIssue
from mooring.cel.conversions import parse_double, to_string
from mooring.cel.environment import Function, Library, Overload, function, member, plain
from mooring.cel.syntax import Call, ListNode, Literal, MapNode, Node, children
from mooring.cel.types import INT, STRING, list_of
from mooring.cel.values import (
    MAX_TEXT,
    CelError,
    Duration,
    Map,
    Timestamp,
    Uint,
    Value,
    Work,
    WorkLimitExceeded,
    text_of,
    type_of,
)

#: What Go's strings.TrimSpace removes.
_SPACE: Final = "\t\n\v\f\r \x85\xa0                　"
_ASCII_LOWER: Final = {code: code + 32 for code in range(65, 91)}
_ASCII_UPPER: Final = {code: code - 32 for code in range(97, 123)}


def quoted(text: str) -> str:
    """Return the text as Go quotes it."""
    result = ['"']
    for char in text:
        if char in _QUOTED:
            result.append(_QUOTED[char])
        elif char.isprintable():
            result.append(char)
        elif ord(char) < 0x80:
            result.append(f"\\x{ord(char):02x}")
        elif ord(char) < 0x10000:
            result.append(f"\\u{ord(char):04x}")
        else:
            result.append(f"\\U{ord(char):08x}")
    result.append('"')
    return "".join(result)


_QUOTED: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def _char_at(text: str, index: int) -> Value:
    if not 0 <= index <= len(text):
        return CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> Value:
    if not part:
        return offset
    if offset < 0:
        return CelError(f"index out of range: {offset}")
    return text.find(part, offset) if offset < len(text) else -1


def _last_index_of(text: str, part: str) -> Value:
    if not part:
        return len(text)
    if len(text.encode()) < len(part.encode()):
        return -1
    return _last_index_before(text, part, len(text) - 1)


def _last_index_before(text: str, part: str, offset: int) -> Value:
    if not part:
        return offset
    if offset < 0:
        return CelError(f"index out of range: {offset}")
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, offset + len(part))


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = len(text) + 1 if not old else text.count(old)
    if limit >= 0:
        count = min(count, limit)
    if len(text) + count * len(new) > MAX_TEXT:
        raise WorkLimitExceeded
    return text.replace(old, new, limit if limit >= 0 else -1)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        if limit < 0 or limit > len(text):
            limit = len(text)
        return [*text[: limit - 1], text[limit - 1 :]] if limit > 0 else []
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> Value:
    if end is not None and start > end:
        return CelError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start,) if end is None else (start, end):
        if not 0 <= index <= len(text):
            return CelError(f"index out of range: {index}")
    return text[start:end]


def _join(texts: list[Value], separator: str = "") -> Value:
    if sum(len(text) for text in texts if text.__class__ is str) + len(separator) * len(texts) > MAX_TEXT:
        raise WorkLimitExceeded
    for text in texts:
        if text.__class__ is not str:
            return CelError(f"join: invalid input: {text_of(text)}")
    return separator.join(texts)


def _quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(char, char) for char in text) + '"'


# Formatting


class _FormatIssue(Exception):
    """A format string that does not fit its arguments."""


_CLAUSES: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and"
    " timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}


def _wrong_type(clause: str, name: str) -> _FormatIssue:
    return _FormatIssue(f"error during formatting: {_CLAUSES[clause.lower()]}, was given {name}")


def _interpolate(text: str, arguments: int, clause: Callable[[str, int | None, int], str]) -> tuple[str, int]:
    """Replace the clauses of a format string; returns the text and the number of clauses. Raises _FormatIssue."""
    result: list[str] = []
    length = 0
    position = used = 0
    while position < len(text):
        percent = text.find("%", position)
        if percent < 0:
            percent = len(text)
        result.append(text[position:percent])
        position = percent
        if position >= len(text):
            break
        if text.startswith("%%", position):
            result.append("%")
            position += 2
            continue
        if used >= arguments:
            raise _FormatIssue(f"index {used} out of range")
        position += 1
        if position >= len(text):
            raise _FormatIssue("unexpected end of string")
        precision: int | None = None
        if text[position] == ".":
            end = position + 1
            while end < len(text) and text[end] in "0123456789":
                end += 1
            prefix = "could not parse formatting clause: error while parsing precision: "
            if end >= len(text):
                raise _FormatIssue(prefix + "could not find end of precision specifier")
            digits = text[position + 1 : end]
            if not digits or len(digits) > 18:
                kind = "value out of range" if digits else "invalid syntax"
                problem = f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": {kind}'
                raise _FormatIssue(prefix + problem)
            precision = int(digits)
            position = end
        letter = text[position]
        if letter not in "sdfebxXo":
            shown = chr(letter.encode()[0])
            raise _FormatIssue(f'could not parse formatting clause: unrecognized formatting clause "{shown}"')
        part = clause(letter, precision, used)
        length += len(part)
        if length > MAX_TEXT:
            raise WorkLimitExceeded
        result.append(part)
        position += 1
        used += 1
    return "".join(result), used


def _format(text: str, args: list[Value]) -> Value:
    try:
        return _interpolate(text, len(args), lambda letter, precision, index: _clause(letter, precision, args[index]))[
            0
        ]
    except _FormatIssue as issue:
        return CelError(str(issue))


def _clause(letter: str, precision: int | None, value: Value) -> str:
    cls = value.__class__
    match letter:
        case "s":
            return _string_clause(value)
        case "d" if cls is int or cls is Uint:
            return str(int(value))
        case "f" | "e" if cls is float or (cls is str and value in {"NaN", "Infinity", "-Infinity"}):
            number = parse_double(value) if cls is str else value
            digits = 6 if precision is None else precision
            return _fixed(number, digits) if letter == "f" else _scientific(number, digits)
        case "b" if cls is int or cls is Uint or cls is bool:
            return f"{int(value):b}"
        case "x" | "X" if cls is int or cls is Uint:
            return f"{int(value):{letter}}"
        case "x" | "X" if cls is str or cls is bytes:
            text: str = (value.encode() if cls is str else value).hex()
            return text.upper() if letter == "X" else text
        case "o" if cls is int or cls is Uint:
            return f"{int(value):o}"
    raise _wrong_type(letter, type_of(value).name)


def _string_clause(value: Value) -> str:
    if isinstance(value, list):
        return _list_clause(value)
    if isinstance(value, Map):
        return _map_clause(value)
    if value is None:
        return "null"
    if isinstance(value, bool | int | float | str | bytes | Timestamp | Duration | types.Type):
        text = to_string(value)
        if isinstance(text, CelError):
            raise _FormatIssue(f"error during formatting: could not convert argument {quoted(text.message)} to string")
        return str(text)
    raise _wrong_type("s", type_of(value).name)


def _list_clause(values: list[Value]) -> str:
    Work.add(len(values))
    return "[" + ", ".join(_nested_clause(value) for value in values) + "]"


def _map_clause(value: Map) -> str:
    Work.add(len(value))
    pairs = []
    for key, item in value.items():
        if not isinstance(key, str | bool | int):
            problem = f"no formatting function for map key of type {type_of(key).name}"
            raise _FormatIssue(f"error during formatting: {problem}")
        pairs.append((_nested_clause(key), _nested_clause(item)))
    return "{" + ", ".join(f"{key}:{item}" for key, item in sorted(pairs, key=lambda pair: pair[0])) + "}"


def _nested_clause(value: Value) -> str:
    match value:
        case str():
            return quoted(value)
        case bytes():
            return "b" + quoted(_string_clause(value))
        case float():
            text = _plain_fixed(value, 6)
            return text if math.isfinite(value) else quoted(text)
        case Timestamp():
            return f"timestamp({quoted(_string_clause(value))})"
        case Duration():
            return f"duration({quoted(_string_clause(value))})"
        case None | bool() | int() | list() | Map() | types.Type():
            return _string_clause(value)
    raise _FormatIssue(f"error during formatting: no formatting function for {type_of(value).name}")


_EXACT: Final = Context(prec=1200, rounding=ROUND_HALF_EVEN)


def _plain_fixed(number: float, precision: int) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return f"{number:.{precision}f}"


def _fixed(number: float | None, precision: int) -> str:
    """Format as Go's message printer does for English: with commas between groups of three digits."""
    if number is None or math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    if precision > 10_000:
        raise WorkLimitExceeded
    sign = "-" if number < 0 else ""
    value = Decimal(abs(number)).quantize(
        Decimal(1).scaleb(-precision), context=Context(prec=precision + 400, rounding=ROUND_HALF_EVEN)
    )
    return f"{sign}{value:,f}"


_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _scientific(number: float | None, width: int) -> str:
    """Format with a power of ten. What looks like the precision of the clause is the width, as upstream has it."""
    if number is None or not math.isfinite(number):
        text = _fixed(number, 0)
    else:
        mantissa, _, exponent = f"{number or 0.0:.6e}".partition("e")
        value = int(exponent)
        shown = f"{'-' if value < 0 else ''}{abs(value):02d}"
        text = f"{mantissa}\u00d710{shown.translate(_SUPERSCRIPTS)}"
    if width > MAX_TEXT:
        raise WorkLimitExceeded
    return text.rjust(width)


def check_formats(checked: Checked) -> None:
    """Check constant format strings with list literals against the types of their arguments. Raises TypeIssue."""
    stack: list[Node] = [checked.root]
    while stack:
        node = stack.pop()
        stack.extend(children(node))
        if not (
            isinstance(node, Call) and node.function == "format" and node.target is not None and len(node.args) == 1
        ):
            continue
        target, args = node.target, node.args[0]
        if isinstance(target, Literal) and isinstance(target.value, str) and isinstance(args, ListNode):
            elements = args.elements
            try:
                _, used = _interpolate(
                    target.value,
                    len(elements),
                    lambda letter, _, index, e=elements: _check_clause(checked, letter, e[index]),  # type: ignore[misc]
                )
            except _FormatIssue as issue:
                raise TypeIssue(str(issue), node.id) from None
            if len(elements) > used:
                counts = f"expected {used}, got {len(elements)}"
                raise TypeIssue(f"too many arguments supplied to string.format ({counts})", node.id)


_ACCEPTED: Final = {
    "d": {"int", "uint"},
    "f": {"double", "string"},
    "e": {"double", "string"},
    "b": {"int", "uint", "bool"},
    "x": {"int", "uint", "string", "bytes"},
    "o": {"int", "uint"},
    "s": {
        "list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null",
    },
}  # fmt: skip


def _check_clause(checked: Checked, letter: str, node: Node) -> str:
    of = checked.types[node.id]
    if of.kind != "dyn" and of.kind not in _ACCEPTED[letter.lower()]:
        raise _wrong_type(letter, of.name)
    if letter == "s":
        parts: Sequence[Node] = ()
        if isinstance(node, ListNode):
            parts = node.elements
        elif isinstance(node, MapNode):
            parts = [part for entry in node.entries for part in (entry.key, entry.value)]
        for part in parts:
            _check_clause(checked, letter, part)
    return ""


def _variadic(name: str, *overloads: tuple[str, tuple[types.Type, ...], types.Type, Callable[..., Value]]) -> Function:
    return function(
        name,
        *(
            Overload(number, args, result, call, member=True, variadic=len(args) > 2)
            for number, args, result, call in overloads
        ),
    )


_TEXTS: Final = list_of(STRING)

STRINGS: Final = Library(
    (
        member("charAt", "string_char_at_int", (STRING, INT), STRING, _char_at),
        _variadic(
            "indexOf",
            ("string_index_of_string", (STRING, STRING), INT, _index_of),
            ("string_index_of_string_int", (STRING, STRING, INT), INT, _index_of),
        ),
        _variadic(
            "lastIndexOf",
            ("string_last_index_of_string", (STRING, STRING), INT, _last_index_of),
            ("string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_before),
        ),
        member("lowerAscii", "string_lower_ascii", (STRING,), STRING, lambda text: text.translate(_ASCII_LOWER)),
        _variadic(
            "replace",
            ("string_replace_string_string", (STRING, STRING, STRING), STRING, _replace),
            ("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, _replace),
        ),
        _variadic(
            "split",
            ("string_split_string", (STRING, STRING), _TEXTS, _split),
            ("string_split_string_int", (STRING, STRING, INT), _TEXTS, _split),
        ),
        _variadic(
            "substring",
            ("string_substring_int", (STRING, INT), STRING, _substring),
            ("string_substring_int_int", (STRING, INT, INT), STRING, _substring),
        ),
        member("trim", "string_trim", (STRING,), STRING, lambda text: text.strip(_SPACE)),
        member("upperAscii", "string_upper_ascii", (STRING,), STRING, lambda text: text.translate(_ASCII_UPPER)),
        function(
            "format",
            Overload("string_format", (STRING, list_of(types.DYN)), STRING, _format, member=True, variadic=True),
        ),
        plain("strings.quote", "strings_quote", (STRING,), STRING, _quote),
        _variadic(
            "join",
            ("list_join", (_TEXTS,), STRING, _join),
            ("list_join_string", (_TEXTS, STRING), STRING, _join),
        ),
    )
)
