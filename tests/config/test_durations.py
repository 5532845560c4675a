"""Durations are read and printed as Go does."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.config.durations import DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [
        ("15s", 15 * 10**9, "15s"),
        ("0", 0, "0s"),
        ("-0", 0, "0s"),
        ("600s", 600 * 10**9, "10m0s"),
        ("1h", 3600 * 10**9, "1h0m0s"),
        ("1h1m1.5s", 3661500000000, "1h1m1.5s"),
        ("+5s", 5 * 10**9, "5s"),
        ("-1s", -(10**9), "-1s"),
        (".5s", 5 * 10**8, "500ms"),
        ("1.s", 10**9, "1s"),
        ("1s1s", 2 * 10**9, "2s"),
        ("100us", 10**5, "100\u00b5s"),
        ("1\u00b5s", 1000, "1\u00b5s"),
        ("7ns", 7, "7ns"),
        ("1.0000000001s", 10**9, "1s"),
        ("9223372036854775807ns", 2**63 - 1, "2562047h47m16.854775807s"),
        ("-9223372036854775808ns", -(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_durations(text: str, nanoseconds: int, printed: str) -> None:
    assert parse_duration(text) == nanoseconds
    assert format_duration(nanoseconds) == printed


@pytest.mark.parametrize(
    "text", ["", "5", "s", ".s", "1d", "5 s", "1,5s", "1e3s", "--1s", "9223372036854775808ns", "1h "]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_printing_and_reading_agree(nanoseconds: int) -> None:
    # Go's own reading loses what its floating point cannot hold, far below what anybody writes.
    assert abs(parse_duration(format_duration(nanoseconds)) - nanoseconds) <= 1


@given(st.text(alphabet="0123456789.hmsun\u00b5-+ ", max_size=12))
def test_reading_never_breaks(text: str) -> None:
    with contextlib.suppress(DurationError):
        assert -(2**63) <= parse_duration(text) < 2**63
