"""What plugins see of devices."""

from __future__ import annotations

import pytest

from mooring.framework import DeviceAllocation, NodeDevice


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "large"),
        ("gpu.example.com/model", "large"),
        ("numa", 1),
        ("gpu.example.com/numa", 1),
        ("other.example.com/model", None),
        ("size", None),
    ],
)
def test_the_domain_of_the_driver_may_be_omitted(name: str, value: object) -> None:
    device = NodeDevice(driver="gpu.example.com", attributes={"model": "large", "gpu.example.com/numa": 1})
    assert device.attribute(name) == value


def test_chosen_devices() -> None:
    devices = tuple(NodeDevice(pool=number) for number in range(3))
    found = DeviceAllocation(devices=devices, chosen=(2, 0), free_before=(True,) * 3, free_after=(False, True, False))
    assert [device.pool for device in found.chosen_devices] == [2, 0]
