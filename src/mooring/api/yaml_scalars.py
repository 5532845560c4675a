"""Resolves YAML 1.1 scalars to numbers, booleans, null or text by the rules of goyaml 2.

Hand-written because PyYAML's resolver differs in many cases (``y``, ``0o10``, ``1:30``, ``1e3``, dates). Kubernetes
converts YAML to JSON before decoding it, so a resolved scalar is a kind with its JSON text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from decimal import Decimal
from typing import Final

from mooring.api.yaml_nodes import Kind, ReadError

_CORE: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, tuple[Kind, str]]] = {
    **{word: ("bool", "true") for base in ("y", "yes", "true", "on") for word in (base, base.title(), base.upper())},
    **{word: ("bool", "false") for base in ("n", "no", "false", "off") for word in (base, base.title(), base.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("null", "null")),
}
_NOT_FINITE: Final = {
    **{sign + word: f"{sign.strip('+')}.inf" for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ".nan"),
}
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]([0-7]+)|(0[0-7]*)|([1-9][0-9]*))")
_BASES: Final = (16, 2, 8, 8, 10)
_ODD_BINARY: Final = re.compile(r"0b([-+][01]+)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DOT_FLOAT: Final = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?")
_TIMESTAMP: Final = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([Tt]\d{1,2}:\d{1,2}:\d{1,2}(\.\d+)?(Z|[-+]\d{2}:\d{2})| \d{1,2}:\d{1,2}:\d{1,2}(\.\d+)?)?"
)
_SHORT_TAGS: Final = {f"{_CORE}{name}": name for name in ("str", "bool", "int", "float", "null", "timestamp", "binary")}

#: A line break as YAML 1.1 defines it.
LINE_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")

#: A kind (null, bool, int, float or str) and the JSON text. An int and a float are different keys of a mapping.
Resolved = tuple[str, str]


def resolve_plain(text: str) -> Resolved:
    """Resolve an unquoted scalar without a tag."""
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first == ".":
        if text in _NOT_FINITE:
            return "float", _NOT_FINITE[text]
        return _dotted(text) if _DOT_FLOAT.fullmatch(text) else ("str", text)
    if first not in "+-0123456789":
        return "str", text
    if text in _NOT_FINITE:
        return "float", _NOT_FINITE[text]
    return _numeric(text.replace("_", "")) or ("str", text)


def resolve_tagged(tag: str, text: str) -> Resolved:
    """Resolve a scalar with an explicit tag. Raises ReadError if the tag does not fit the text."""
    short = _SHORT_TAGS.get(tag)
    if short is None or short == "str":
        return "str", text
    if short == "binary":
        return "str", _binary(text)
    found = resolve_plain(text)
    if short == "timestamp":
        found = ("timestamp", text) if _TIMESTAMP.fullmatch(text) else found
        return ("str", text) if found[0] == "timestamp" else _tag_mismatch(found, text, short)
    if short == "float" and found[0] == "int" and -(2**63) <= int(found[1]) < 2**63:
        return "float", json_float(float(found[1]))
    return found if found[0] == short else _tag_mismatch(found, text, short)


def _tag_mismatch(found: Resolved, text: str, tag: str) -> Resolved:
    raise ReadError(f"the tag !!{tag} does not fit {text!r}, which is of type {found[0]}")


def is_finite(scalar: Resolved) -> bool:
    """Return whether JSON can represent the scalar."""
    return scalar[0] != "float" or not scalar[1].endswith((".inf", ".nan"))


def python_value(scalar: Resolved) -> str | int | float | bool | None:
    """Return the value of a scalar. Raises ReadError if JSON cannot represent it."""
    kind, text = scalar
    if kind == "str":
        return text
    if not is_finite(scalar):
        raise ReadError(f"{text} is a number that JSON cannot represent")
    value: int | float | bool | None = json.loads(text)
    return value


def key_text(key: Resolved) -> str:
    """Return a key of a mapping as in JSON, where every key is text. Raises ReadError."""
    kind, text = key
    if kind == "null" or (kind == "int" and int(text) >= 2**63):
        raise ReadError("a key must be text, a boolean or a number that fits into 64 bits")
    return key_float(float(text)) if kind == "float" and is_finite(key) else text


def _numeric(digits: str) -> Resolved | None:
    match = _INTEGER.fullmatch(digits)
    if match and len(match[6] or "") <= 20:
        value = next(int(part, base) for part, base in zip(match.groups()[1:], _BASES, strict=True) if part is not None)
        value = -value if match[1] == "-" else value
        if -(2**63) <= value < 2**63 or (not match[1] and value < 2**64):
            return "int", str(value)
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        return ("float", json_float(number)) if abs(number) != float("inf") else None
    odd = _ODD_BINARY.fullmatch(digits)
    if odd and -(2**63) <= int(odd[1], 2) < 2**63:
        return "int", str(int(odd[1], 2))
    return None


def _dotted(text: str) -> Resolved:
    number = float(text)
    return ("float", json_float(number)) if number != float("inf") else ("str", text)


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split("\n")), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise ReadError("the !!binary value is not base64") from None


def json_float(number: float) -> str:
    """Format a float as Go's JSON encoder does: without an exponent from 1e-6 to 1e21, and without ``.0``."""
    if number == 0:
        return "-0" if str(number).startswith("-") else "0"
    exact = Decimal(repr(number))
    if 1e-6 <= abs(number) < 1e21:
        text = format(exact, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return _scientific(exact, exponent_digits=1)


def key_float(number: float) -> str:
    """Format a float as sigs.k8s.io/yaml formats the key of a mapping: in single precision."""
    text = single(number)
    if text is None:
        return ".inf" if number > 0 else "-.inf"
    exact = Decimal(text)
    exponent = exact.adjusted()
    if number == 0 or -4 <= exponent < 6:
        text = format(exact, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return _scientific(exact, exponent_digits=2)


def single(number: float) -> str | None:
    """Return the shortest decimal for a number in single precision, or None if it is too large."""
    try:
        packed = struct.pack("<f", number)
    except OverflowError:
        return None
    (rounded,) = struct.unpack("<f", packed)
    return next(text for digits in range(1, 18) if _packed(text := f"{rounded:.{digits}g}") == packed)


def _packed(text: str) -> bytes:
    try:
        return struct.pack("<f", float(text))
    except OverflowError:
        return b""


def _scientific(exact: Decimal, *, exponent_digits: int) -> str:
    sign, digits, _ = exact.normalize().as_tuple()
    head, tail = str(digits[0]), "".join(map(str, digits[1:]))
    exponent = exact.adjusted()
    mantissa = f"{head}.{tail}" if tail else head
    return f"{'-' if sign else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):0{exponent_digits}d}"
