"""Durations in the format of Go: ``15s``, ``1h30m``, ``1.5s``, stored as nanoseconds.

Hand-written because no library parses and prints the format exactly as Go does.
"""

from __future__ import annotations

import re
from typing import Final, NewType

#: A duration in nanoseconds.
Nanoseconds = NewType("Nanoseconds", int)

SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART: Final = re.compile(r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?([^.0-9]+)")


class DurationError(ValueError):
    """Text that is not a duration; the message has the reason."""


def parse_duration(text: str) -> Nanoseconds:
    """Parse a duration. Raises DurationError."""
    body = text[1:] if text[:1] in ("+", "-") else text
    sign = -1 if text.startswith("-") else 1
    if body == "0":
        return Nanoseconds(0)
    total, at = 0, 0
    while at < len(body) or not at:
        match = _PART.match(body, at)
        if match is None:
            raise DurationError(f'"{text}" is not a duration: write a number with its unit, such as 15s or 1m30s')
        unit = _UNITS.get(match[3])
        if unit is None:
            raise DurationError(f'"{text}" has the unknown unit "{match[3]}": units are h, m, s, ms, us and ns')
        total += _amount(match[1], match[2] or "", unit)
        at = match.end()
    if total > 2**63 - (1 if sign > 0 else 0):
        raise DurationError(f'"{text}" is too long: more than 290 years')
    return Nanoseconds(sign * total)


def _amount(whole: str, fraction: str, unit: int) -> int:
    # Scale a fraction in floating point and truncate it, as Go does, for the same result for 0.3333333333333333333h.
    digits = fraction[:18]
    scaled = int(float(int(digits)) * (unit / 10.0 ** len(digits))) if digits else 0
    return min(int(whole[:40] or "0"), 2**63) * unit + scaled


def format_duration(duration: int) -> str:
    """Format a duration as Go does: ``10m0s``, ``1.5s``, ``200ms``, ``0s``."""
    if duration == 0:
        return "0s"
    sign, left = ("-", -duration) if duration < 0 else ("", duration)
    if left < SECOND:
        unit, size = next((unit, size) for unit, size in (("ms", 10**6), ("\u00b5s", 10**3), ("ns", 1)) if left >= size)
        return f"{sign}{_decimal(left, size)}{unit}"
    minutes, left = divmod(left, 60 * SECOND)
    text = f"{_decimal(left, SECOND)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(amount: int, size: int) -> str:
    whole, rest = divmod(amount, size)
    digits = f"{rest:0{len(str(size)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)
