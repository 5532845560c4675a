"""What the devices of a claim take from a node, and nodes without room for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.api.codec import fit
from mooring.api.devices import Device, DeviceRequestAllocationResult
from mooring.framework import Nodes, NodeTable, Status
from mooring.plugins.dynamic_resources.node_allocatable import (
    ClaimDevices,
    Demand,
    NodeAllocatableError,
    Rejections,
    _claim_status,
    resources_of,
)
from mooring.testing import make_node
from tests.plugins.device_world import claim

KEY = "example.com/cores"


def taken(*devices: Any, consumed: Any = None) -> Any:
    """What a claim with some devices takes, by kind and resource."""
    made = [fit({"name": f"d{n}", "nodeAllocatableResources": each}, Device) for n, each in enumerate(devices)]
    results = [DeviceRequestAllocationResult(device=each.name, consumed_capacity=consumed) for each in made]
    status = _claim_status(ClaimDevices(claim(), results, made))
    if status is None:
        return None
    mapped = {each.name: each.quantity for each in status.mapping}
    return mapped, {each.name: (each.per_pod, each.per_container) for each in status.overhead}


def mapping(**fields: str) -> Any:
    return {"cpu": {"mapping": fields}}


@pytest.mark.parametrize(
    ("devices", "consumed", "expected"),
    [
        ([{}], None, None),
        ([mapping(deviceMultiplier="2"), mapping(deviceMultiplier="1500m")], None, ({"cpu": "3500m"}, {})),
        ([mapping(deviceMultiplier="1Gi"), mapping(deviceMultiplier="1G")], None, ({"cpu": "2073741824"}, {})),
        ([mapping(deviceMultiplier="0"), mapping(deviceMultiplier="2Ki")], None, ({"cpu": "2Ki"}, {})),
        ([mapping(capacityKey=KEY, capacityMultiplier="2")], {KEY: "1500m"}, ({"cpu": "3"}, {})),
        ([mapping(capacityKey=KEY, capacityMultiplier="1.5")], {KEY: "4Gi"}, ({"cpu": "6Gi"}, {})),
        ([mapping(capacityKey=KEY, capacityMultiplier="0.3")], {KEY: "4Ki"}, ({"cpu": "1228800m"}, {})),
        ([mapping(capacityKey=KEY)], {"example.com/other": "1"}, None),
        (
            [{"memory": {"overhead": {"perPod": "1Mi"}}}, {"memory": {"overhead": {"perContainer": "2048Ki"}}}],
            None,
            ({}, {"memory": ("1Mi", "2Mi")}),
        ),
    ],
)
def test_claim_status(devices: Any, consumed: Any, expected: Any) -> None:
    assert taken(*devices, consumed=consumed) == expected


def test_a_capacity_needs_an_amount() -> None:
    with pytest.raises(NodeAllocatableError, match="ConsumedCapacity is nil, but Capacity key"):
        taken(mapping(capacityKey=KEY))


def test_rejections() -> None:
    table = NodeTable()
    for name, cpu in (("a", 4), ("b", 4), ("c", 1)):
        table.add_node(make_node(name).allocatable(cpu=cpu, memory="1Gi").obj())
    groups = [
        (Demand((), (("cpu", 2000), ("memory", 2**29))), np.array([0, 1, 2])),
        (Demand(status=Status.unresolvable("no")), np.array([], dtype=np.intp)),
    ]
    used = {"cpu": np.array([0, 3000, 0]), "memory": np.array([0, 2**30, 0])}
    codes, statuses = np.zeros(3, dtype=np.int32), [Status.error("other")]
    Rejections(codes, statuses, 6).compare(groups, Nodes(table), used.__getitem__)
    found = [None if code == 0 else statuses[code - 6] for code in codes.tolist()]
    lacking = Status.unschedulable("Insufficient cpu", "Insufficient memory")
    assert found == [None, lacking, Status.unresolvable("Insufficient cpu")]
    assert list(resources_of(groups)) == ["cpu", "memory"]
