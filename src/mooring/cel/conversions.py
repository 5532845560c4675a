"""Conversions between types, and the parts of times and durations."""

import datetime
import math
import re
import zoneinfo
from collections.abc import Callable
from typing import Final

from mooring.cel import types
from mooring.cel.types import BOOL, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from mooring.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    CelError,
    Duration,
    Timestamp,
    Uint,
    Value,
    format_double,
    format_plain_double,
)

_NANO: Final = 10**9
_MIN_SECONDS: Final = -62135596800
_MAX_SECONDS: Final = 253402300799


def int_or_error(value: int) -> int | CelError:
    """Return an integer, or an error if it does not fit 64 bits."""
    return value if MIN_INT <= value <= MAX_INT else CelError("integer overflow")


def uint_or_error(value: int) -> Uint | CelError:
    """Return an unsigned integer, or an error if it does not fit 64 bits."""
    return Uint(value) if 0 <= value <= MAX_UINT else CelError("unsigned integer overflow")


def timestamp_or_error(nanoseconds: int, offset: int = 0) -> Timestamp | CelError:
    """Return a time, or an error if it is outside the years 1 to 9999."""
    if not _MIN_SECONDS <= nanoseconds // _NANO <= _MAX_SECONDS:
        return CelError("timestamp overflow")
    return Timestamp(nanoseconds, offset)


def duration_or_error(nanoseconds: int) -> Duration | CelError:
    """Return a duration, or an error if it does not fit 64 bits."""
    return Duration(nanoseconds) if MIN_INT <= nanoseconds <= MAX_INT else CelError("integer overflow")


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NATURAL: Final = re.compile(r"[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_HEX_DOUBLE: Final = re.compile(r"[+-]?0[xX](?=[0-9a-fA-F.])[0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+")
_SPECIAL: Final = re.compile(r"(?:[+-]?inf(?:inity)?|nan)", re.IGNORECASE)
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def _conversion_error(source: Type, target: Type) -> CelError:
    return CelError(f"type conversion error from '{source}' to '{target}'")


def parse_double(text: str) -> float | None:
    """Parse a double as Go does, or return None."""
    if "_" in text or len(text) > 100_000:
        return None
    if _DECIMAL.fullmatch(text):
        value = float(text)
    elif _SPECIAL.fullmatch(text):
        return float(text)
    elif _HEX_DOUBLE.fullmatch(text):
        try:
            value = float.fromhex(text)
        except OverflowError:
            return None
    else:
        return None
    return None if math.isinf(value) else value


def to_int(value: Value) -> Value:
    """Convert to an integer."""
    cls = value.__class__
    if cls is str:
        if len(value) <= 4000 and _INTEGER.fullmatch(value) and MIN_INT <= (number := int(value)) <= MAX_INT:
            return number
        return _conversion_error(STRING, INT)
    if cls is float:
        if not math.isfinite(value) or value <= float(MIN_INT) or value >= float(MAX_INT):
            return CelError("integer overflow")
        return int(value)
    if cls is Uint:
        return int_or_error(int(value))
    if cls is Duration:
        return value.nanoseconds
    return value.nanoseconds // _NANO if cls is Timestamp else value


def to_uint(value: Value) -> Value:
    """Convert to an unsigned integer."""
    cls = value.__class__
    if cls is str:
        if len(value) <= 4000 and _NATURAL.fullmatch(value) and (number := int(value)) <= MAX_UINT:
            return Uint(number)
        return _conversion_error(STRING, UINT)
    if cls is float:
        if not math.isfinite(value) or value < 0 or value >= 2.0**64:
            return CelError("unsigned integer overflow")
        return Uint(int(value))
    return uint_or_error(int(value))


def to_double(value: Value) -> Value:
    """Convert to a double."""
    if value.__class__ is str:
        number = parse_double(value)
        return _conversion_error(STRING, DOUBLE) if number is None else number
    return float(value)


def to_bool(value: Value) -> Value:
    """Convert a string to a bool."""
    return _BOOLS.get(value, _conversion_error(STRING, BOOL))


def to_bytes(value: Value) -> Value:
    """Convert to bytes."""
    return value.encode() if value.__class__ is str else value


def to_string(value: Value) -> Value:
    """Convert a value to a string as the function `string` does."""
    cls = value.__class__
    if cls is str:
        return value
    if cls is bool:
        return "true" if value else "false"
    if cls is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            return CelError("invalid UTF-8 in bytes, cannot convert to string")
    if cls is float:
        return format_double(value)
    if cls is Duration:
        return format_plain_double(_seconds(value.nanoseconds)) + "s"
    if cls is Timestamp:
        return format_timestamp(value)
    if isinstance(value, types.Type):
        return value.name
    return str(int(value))


def _seconds(nanoseconds: int) -> float:
    """Return seconds as Go computes them: whole seconds and a fraction."""
    whole = abs(nanoseconds) // _NANO
    rest = abs(nanoseconds) % _NANO
    value = float(whole) + float(rest) / 1e9
    return -value if nanoseconds < 0 else value


_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _NANO,
    "m": 60 * _NANO,
    "h": 3600 * _NANO,
}
_DURATION_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)")


def parse_duration(text: str) -> int | None:
    """Parse a duration such as 1h30m in nanoseconds as Go does, or return None."""
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0
    if not rest or len(rest) > 10_000:
        return None
    total = 0
    position = 0
    while position < len(rest):
        match = _DURATION_PART.match(rest, position)
        if match is None:
            return None
        whole, fraction, unit = match.groups()
        scale = _UNITS.get(unit)
        if scale is None or not (whole or fraction) or len(whole) > 4000:
            return None
        amount = int(whole or 0)
        if amount > 2**63 // scale:
            return None
        amount *= scale
        if fraction:
            amount += _fraction(fraction, scale)
        total += amount
        if total > 2**63:
            return None
        position = match.end()
    if negative:
        return -total
    return total if total <= MAX_INT else None


def _fraction(digits: str, scale: int) -> int:
    """Return the fraction of a unit as Go computes it: in double precision, with as many digits as fit 63 bits."""
    value, factor = 0, 1.0
    for digit in digits:
        if value > MAX_INT // 10:
            break
        following = value * 10 + int(digit)
        if following > 2**63:
            break
        value = following
        factor *= 10
    return int(float(value) * (float(scale) / factor))


def to_duration(value: Value) -> Value:
    """Convert to a duration."""
    if value.__class__ is str:
        nanoseconds = parse_duration(value)
        return _conversion_error(STRING, DURATION) if nanoseconds is None else Duration(nanoseconds)
    if value.__class__ is int:
        return _conversion_error(INT, DURATION)
    return value


_RFC3339: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?(?:Z|([+-])(\d{2}):(\d{2}))", re.ASCII
)


def parse_timestamp(text: str) -> Timestamp | CelError | None:
    """Parse a time in RFC 3339, or return None; times before year 1 are an error."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, hours, minutes = match.groups()[6:]
    if hour > 23 or minute > 59 or second > 59 or (hours and (int(hours) > 24 or int(minutes) > 60)):
        return None
    days = _days(year, month, day)
    if days is None:
        return None
    offset = 0 if not sign else (int(hours) * 3600 + int(minutes) * 60) * (1 if sign == "+" else -1)
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset
    return timestamp_or_error(seconds * _NANO + int((fraction or "0")[:9].ljust(9, "0")), offset)


def _days(year: int, month: int, day: int) -> int | None:
    """Return the days since 1970 of a date, or None if it does not exist."""
    try:
        # Python has no year 0, and the calendar repeats after 400 years.
        return datetime.date(year or 400, month, day).toordinal() - 719163 - (0 if year else 146097)
    except ValueError:
        return None


def to_timestamp(value: Value) -> Value:
    """Convert to a time."""
    if value.__class__ is str:
        parsed = parse_timestamp(value)
        return _conversion_error(STRING, TIMESTAMP) if parsed is None else parsed
    if value.__class__ is int:
        return timestamp_or_error(value * _NANO)
    return value


def _local(nanoseconds: int, offset: int) -> datetime.datetime:
    seconds = nanoseconds // _NANO + offset
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)


def format_timestamp(value: Timestamp) -> str:
    """Format a time in RFC 3339 with as many decimals as it needs."""
    try:
        text = _local(value.nanoseconds, value.offset).strftime("%m-%dT%H:%M:%S")
        year = _local(value.nanoseconds, value.offset).year
    except OverflowError:
        return "0000-12-31T00:00:00Z"
    fraction = f"{value.nanoseconds % _NANO:09d}".rstrip("0")
    zone = "Z"
    if value.offset:
        hours, minutes = divmod(abs(value.offset) // 60, 60)
        zone = f"{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
    return f"{year:04d}-{text}{'.' + fraction if fraction else ''}{zone}"


def _offset(value: Timestamp, zone: str) -> int | CelError:
    """Return the offset of a time zone from UTC in seconds: a name of the time zone database, or hours and minutes."""
    if ":" not in zone:
        if zone in {"", "UTC"}:
            return 0
        try:
            if zone.startswith("/") or ".." in zone or "\\" in zone:
                raise ValueError
            seconds = value.nanoseconds // _NANO
            moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)
            delta = moment.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset()
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
            return CelError(f"unknown time zone {zone}")
        except OverflowError:
            return 0
        return 0 if delta is None else int(delta.total_seconds())
    hours, _, minutes = zone.partition(":")
    for part in (hours, minutes):
        if not _INTEGER.fullmatch(part) or len(part) > 18:
            kind = "value out of range" if _INTEGER.fullmatch(part) else "invalid syntax"
            return CelError(f'strconv.Atoi: parsing "{part}": {kind}')
    total = int(hours) * 60 + (-int(minutes) if zone[0] == "-" else int(minutes))
    return max(-(2**31), min(total * 60, 2**31))


def time_part(get: Callable[[datetime.datetime], int]) -> Callable[..., Value]:
    """Return a function for a part of a time in a time zone."""

    def part(value: Timestamp, zone: str = "UTC") -> Value:
        offset = _offset(value, zone)
        if isinstance(offset, CelError):
            return offset
        try:
            return get(_local(value.nanoseconds, offset))
        except OverflowError:
            return 0

    return part


def milliseconds(value: Timestamp, zone: str = "UTC") -> Value:
    """Return the milliseconds of a time."""
    offset = _offset(value, zone)
    return offset if isinstance(offset, CelError) else value.nanoseconds % _NANO // 10**6


def duration_part(divisor: int) -> Callable[[Value], int]:
    """Return a function that converts a duration to whole units."""

    def convert(value: Duration) -> int:
        return abs(value.nanoseconds) // divisor * (1 if value.nanoseconds >= 0 else -1)

    return convert
