"""Quantities are read, rounded, added and printed as Kubernetes does."""

import time
from decimal import ROUND_UP, Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.quantity import (
    Quantity,
    QuantityError,
    _parse,
    format_quantity,
    is_quantity,
    milli_value,
    parse_quantity,
    value,
)

MULTIPLIERS = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "Ki": Decimal(2**10), "Mi": Decimal(2**20),
    "Gi": Decimal(2**30), "Ti": Decimal(2**40), "e3": Decimal(10**3), "E2": Decimal(10**2), "e-4": Decimal("1e-4"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("0", 0, 0),
        ("1", 1, 1000),
        ("100m", 1, 100),
        ("1500m", 2, 1500),
        ("0.5", 1, 500),
        (".5", 1, 500),
        ("1.", 1, 1000),
        ("+2", 2, 2000),
        ("-1.5", -2, -1500),
        ("1u", 1, 1),
        ("1n", 1, 1),
        ("0.1m", 1, 1),
        ("0.1n", 1, 1),
        ("1k", 1000, 1_000_000),
        ("1Ki", 1024, 1_024_000),
        ("1.5Gi", 1610612736, 1610612736000),
        ("0.1Ki", 103, 102400),
        ("2e3", 2000, 2_000_000),
        ("2E3", 2000, 2_000_000),
        ("12e-1", 2, 1200),
        ("1E", 10**18, 0),
        ("1e+2", 100, 100_000),
        (" 5 ", 5, 5000),
        ("8Ei", 2**63 - 1, -1000),
        ("1e30", 0, 0),
        ("9223372036854775807", 2**63 - 1, -1000),
        # Kubernetes uses the low 32 bits of an exponent; 10 to the power of 20 or more is 0 in 64 bits.
        ("1e99999", 0, 0),
        ("1e99999999999", 0, 0),
        ("1e4294967297", 10, 10_000),
        ("1e9223372036854775807", 1, 100),
        ("1e-99999", 1, 1),
        ("-1e-99999", 1, 1),
        ("1234567890123456789e99999", 0, 0),
        ("0." + "0" * 3000 + "1", 1, 1),
        ("0" * 3000 + "5", 5, 5000),
        # Kubernetes takes the low 64 bits of these. Here they are the largest number, which needs no long division.
        ("1" * 1200, 2**63 - 1, -1000),
        ("-" + "9" * 1_500_000, 1 - 2**63, 1000),
        pytest.param(10**5000, 2**63 - 1, -1000, id="a long integer"),
        ("m", 0, 0),
        ("-", 0, 0),
        (3, 3, 3000),
        (0.25, 1, 250),
        (1e3, 1000, 1_000_000),
    ],
)
def test_values(text, whole, milli):
    assert (value(text), milli_value(text)) == (whole, milli)


@pytest.mark.parametrize(
    "text", ["1e2147483647", "1e-2147483648", "9" * 100_000, "9" * 100_000 + "x", "1e" + "9" * 100_000]
)
def test_hostile_amounts_take_no_time_and_no_memory(text):
    cached = _parse.cache_info().currsize
    started = time.process_time()
    if is_quantity(text):
        amount = parse_quantity(text)
        assert amount.plus(parse_quantity("1n")).exceeds(parse_quantity("-1"))
        assert len(str(amount.plus(amount).unscaled)) < 4300
    assert time.process_time() - started < 2.0
    assert _parse.cache_info().currsize <= cached + 3


@pytest.mark.parametrize(
    "text",
    ["", " ", "1x", "1 Gi", "1KI", "1kI", "1K", "1mi", "1.1.1", "1,5", "--1", "0x10", "1e", "e-10", "Ei", "1e3m", "one",
     "1e1.5", "1e9223372036854775808", "1e" + "9" * 5000, "9" * 5000 + "x", "\u0661", float("nan"),
     float("inf"), "NaN"],
)  # fmt: skip
def test_bad_text_is_refused_with_advice(text):
    assert not is_quantity(text)
    with pytest.raises(QuantityError, match=r"is not a (valid )?quantity: .*such as 250m, 2, 1\.5Gi or 4G") as caught:
        parse_quantity(text)
    assert len(str(caught.value)) < 250


@st.composite
def written(draw):
    digits = draw(st.integers(0, 10**6))
    decimals = draw(st.sampled_from(["", "5", "25", "001", "123456789", "1234567890123"]))
    suffix = draw(st.sampled_from(sorted(MULTIPLIERS)))
    number = f"{digits}.{decimals}" if decimals else str(digits)
    return number + suffix, Decimal(number) * MULTIPLIERS[suffix]


@given(written())
@settings(deadline=None)
def test_reading_agrees_with_decimals(case):
    text, exact = case
    with localcontext() as context:
        context.prec = 60
        nano = exact.quantize(Decimal("1e-9"), rounding=ROUND_UP)
        assert value(text) == int(nano.to_integral_value(rounding=ROUND_UP))
        if nano < 2**63 // 1000:
            assert milli_value(text) == int((nano * 1000).to_integral_value(rounding=ROUND_UP))


@given(st.lists(written(), min_size=2, max_size=4))
@settings(deadline=None)
def test_sums_are_exact_and_rounded_once(cases):
    total = Quantity(0)
    for text, _ in cases:
        total = total.plus(parse_quantity(text))
    with localcontext() as context:
        context.prec = 60
        exact = sum((each.quantize(Decimal("1e-9"), rounding=ROUND_UP) for _, each in cases), Decimal(0))
        assert total.scaled(0) == int(exact.to_integral_value(rounding=ROUND_UP))


@given(written(), written())
@settings(deadline=None)
def test_comparing_agrees_with_decimals(left, right):
    rounded = [each.quantize(Decimal("1e-9"), rounding=ROUND_UP) for _, each in (left, right)]
    assert parse_quantity(left[0]).exceeds(parse_quantity(right[0])) == (rounded[0] > rounded[1])


@pytest.mark.parametrize(
    ("amount", "options", "text"),
    [
        (0, {}, "0"),
        (1500, {"milli": True}, "1500m"),
        (2000, {"milli": True}, "2"),
        (2_000_000, {"milli": True}, "2k"),
        (1024, {"binary": True}, "1Ki"),
        (1000, {"binary": True}, "1k"),
        (1610612736, {"binary": True}, "1536Mi"),
        (200 * 2**20, {"binary": True}, "200Mi"),
        (1_000_001, {}, "1000001"),
        (110, {}, "110"),
        (-2048, {"binary": True}, "-2Ki"),
    ],
)
def test_printing(amount, options, text):
    assert format_quantity(amount, **options) == text


@given(st.integers(0, 2**50), st.booleans())
@settings(deadline=None)
def test_what_is_printed_reads_back(amount, binary):
    assert value(format_quantity(amount, binary=binary)) == amount
    assert milli_value(format_quantity(amount, milli=True)) == amount
