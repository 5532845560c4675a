"""Consumable capacity: rounding, policies and room."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import fit
from mooring.api.devices import DeviceCapacity
from mooring.api.quantity import parse_quantity
from mooring.plugins.dynamic_resources.capacity import Amount, Capacity, consumption, has_room

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
    found = consumption(asked, {"memory": made})
    assert (found["memory"].canonical if found is not None else None) == expected


def test_a_missing_capacity_excludes_the_device() -> None:
    assert consumption({"other": Amount.of("1")}, {"memory": capacity()}) is None


@pytest.mark.parametrize(("used", "taken", "fits"), [("8Gi", "4Gi", True), ("8Gi", "5Gi", False), ("13Gi", "0", False)])
def test_room(used: str, taken: str, fits: bool) -> None:
    wanted = {"memory": Amount.of("4Gi")}
    room = has_room(wanted, {"memory": capacity()}, {"memory": parse_quantity(used)}, {"memory": parse_quantity(taken)})
    assert room is fits


def test_huge_amounts_overflow_as_in_upstream() -> None:
    found = consumption({"memory": Amount.of("1e99999")}, {"memory": capacity(RANGE)})
    assert found is not None
    assert found["memory"].canonical == "0"
