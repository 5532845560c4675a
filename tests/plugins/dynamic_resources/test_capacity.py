"""Consumable capacity: rounding, policies and room."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import fit
from mooring.api.devices import DeviceCapacity
from mooring.api.quantity import parse_quantity
from mooring.plugins.dynamic_resources.capacity import Amount, Capacity, CapacityError, consumption, has_room
from mooring.releases import V1_36, V1_37, Release, with_gates

RANGE = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
VALUES = {"default": "2", "validValues": ["2", "4", "8"]}


def capacity(policy: Any = None, value: str = "16Gi") -> Capacity:
    return Capacity.of(fit({"value": value} | ({"requestPolicy": policy} if policy else {}), DeviceCapacity))


@pytest.mark.parametrize(
    ("made", "requested", "expected"),
    [
        (capacity(), None, "16Gi"),
        (capacity(), "2048Mi", "2Gi"),
        (capacity(RANGE), None, "1Gi"),
        (capacity(RANGE), "1500Mi", "2Gi"),
        (capacity(RANGE), "1Mi", "1Gi"),
        (capacity(RANGE), "9Gi", None),
        (capacity(VALUES, "8"), "3", "4"),
        (capacity(VALUES, "8"), "9", None),
        (capacity({"default": "5", "validValues": ["2"]}, "8"), None, "5"),
    ],
)
def test_consumption(made: Capacity, requested: str | None, expected: str | None) -> None:
    asked = {} if requested is None else {"memory": Amount.of(requested)}
    found = consumption(asked, {"memory": made}, V1_36)
    assert (found["memory"].canonical if found is not None else None) == expected


def test_a_missing_capacity_excludes_the_device() -> None:
    assert consumption({"other": Amount.of("1")}, {"memory": capacity()}, V1_36) is None


@pytest.mark.parametrize(("used", "taken", "fits"), [("8Gi", "4Gi", True), ("8Gi", "5Gi", False), ("13Gi", "0", False)])
def test_room(used: str, taken: str, fits: bool) -> None:
    wanted = {"memory": Amount.of("4Gi")}
    room = has_room(wanted, {"memory": capacity()}, {"memory": parse_quantity(used)}, {"memory": parse_quantity(taken)})
    assert room is fits


def test_huge_amounts_overflow_as_in_upstream() -> None:
    found = consumption({"memory": Amount.of("1e99999")}, {"memory": capacity(RANGE)}, V1_36)
    assert found is not None
    assert found["memory"].canonical == "0"


@pytest.mark.parametrize(
    ("policy", "requested", "text"),
    [
        ({"validRange": {"min": "1", "step": "1"}}, "18446744073709551616", "request 18446744073709551616 exceeds Max"),
        ({"validRange": {"min": "1", "step": "2"}}, "9223372036854775807", None),
        ({"validRange": {"min": "0", "step": "2"}}, "9223372036854775807", "up to the next step passes MaxInt64"),
        (None, "-5", 'capacity "memory": capacity value is negative'),
    ],
)
def test_release_1_37_refuses_requests_that_make_no_sense(policy: Any, requested: str, text: str | None) -> None:
    def consume(release: Release) -> object:
        return consumption({"memory": Amount.of(requested)}, {"memory": capacity(policy)}, release)

    consume(V1_36)
    if text is None:
        consume(V1_37)
        return
    with pytest.raises(CapacityError, match=text):
        consume(V1_37)


@pytest.mark.parametrize(("release", "text"), [(V1_36, "2Ki"), (V1_37, "2048")])
def test_release_1_37_writes_rounded_amounts_in_the_form_of_the_step(release: Release, text: str) -> None:
    policy = {"validRange": {"min": "1", "step": "2047"}}
    found = consumption({"memory": Amount.of("2000")}, {"memory": capacity(policy)}, release)
    assert found is not None
    assert found["memory"].canonical == text


FRACTIONS = {"validRange": {"min": "500m", "max": "4", "step": "250m"}}


@pytest.mark.parametrize(
    ("requested", "whole", "fraction"), [("600m", "1", "750m"), ("1900m", "2", "2"), ("5", None, None)]
)
def test_fractional_ranges_need_their_gate(requested: str, whole: str | None, fraction: str | None) -> None:
    fractional, _ = with_gates(V1_37, {"DRAFractionalCapacityRange": True})
    for release, expected in ((V1_37, whole), (fractional, fraction)):
        found = consumption({"memory": Amount.of(requested)}, {"memory": capacity(FRACTIONS)}, release)
        assert (found["memory"].canonical if found is not None else None) == expected


def test_requests_below_a_thousandth_do_not_fit_a_fractional_range() -> None:
    fractional, _ = with_gates(V1_37, {"DRAFractionalCapacityRange": True})
    with pytest.raises(CapacityError, match="request 600100u is not a representable milli value"):
        consumption({"memory": Amount.of("600100u")}, {"memory": capacity(FRACTIONS)}, fractional)
