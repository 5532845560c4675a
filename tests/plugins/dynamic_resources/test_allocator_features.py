"""AllocatorFeatures: which of upstream's allocators answers, and what devices, requests and constraints mean then."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import fit
from mooring.api.devices import AllocationResult
from mooring.plugins.dynamic_resources.allocator_features import allocator_features
from mooring.plugins.dynamic_resources.claim_plan import AllocationError
from mooring.plugins.dynamic_resources.claim_tracker import DeviceUsage
from mooring.releases import V1_36, V1_37, Release, with_gates
from tests.plugins.device_world import allocated, claim, exactly, gpu_slice, names, pools, search

NO_CAPACITY = {"DRAConsumableCapacity": False}
NO_BINDING = {"DRADeviceBindingConditions": False}
NO_PARTITIONS = {"DRAPartitionableDevices": False}
LISTS = {"DRAListTypeAttributes": True}


def gated(release: Release, *gates: dict[str, bool]) -> Release:
    return with_gates(release, {name: value for each in gates for name, value in each.items()})[0]


@pytest.mark.parametrize(
    ("release", "gates", "is_oldest"),
    [
        (V1_36, {}, False),
        (V1_36, NO_CAPACITY, False),
        (V1_36, NO_BINDING, False),
        (V1_36, NO_CAPACITY | NO_BINDING, True),
        (V1_36, NO_CAPACITY | NO_BINDING | LISTS, True),  # the allocator of 1.36 is not told about lists
        (V1_37, NO_CAPACITY | NO_BINDING, True),
        (V1_37, NO_CAPACITY | NO_BINDING | LISTS, False),
    ],
)
def test_the_oldest_allocator_that_knows_the_gates_answers(
    release: Release, gates: dict[str, bool], is_oldest: bool
) -> None:
    assert allocator_features(gated(release, gates)).is_oldest is is_oldest


def chosen(release: Release, listed: list[dict[str, Any]], *requests: dict[str, Any], **fields: Any) -> list[str]:
    """The devices that a claim gets on a node, or nothing."""
    found = pools(gpu_slice("n0", listed), release=release)
    answer = names(found, search(found, claim(*requests, **fields), release=release))
    return answer[0] if answer is not None else []


@pytest.mark.parametrize("release", [V1_36, V1_37])
def test_without_binding_conditions_such_devices_are_not_allocated(release: Release) -> None:
    devices = [{"name": "a", "bindingConditions": ["ready"]}, {"name": "b"}]
    assert chosen(release, devices) == ["a"]
    assert chosen(gated(release, NO_BINDING), devices) == ["b"]


@pytest.mark.parametrize("release", [V1_36, V1_37])
def test_without_partitionable_devices_devices_with_counters_are_not_allocated(release: Release) -> None:
    consumes = [{"counterSet": "unknown", "counters": {"memory": {"value": "1"}}}]
    devices = [{"name": "a", "consumesCounters": consumes}, {"name": "b"}]
    assert chosen(release, devices) == []  # the pool is invalid, since it has no such counters
    assert chosen(gated(release, NO_PARTITIONS), devices) == ["b"]


def test_without_partitionable_devices_slices_for_them_reach_no_node() -> None:
    release = gated(V1_36, NO_PARTITIONS)
    selecting = gpu_slice("n0", allNodes=True, perDeviceNodeSelection=False)
    assert pools(selecting)
    assert not pools(selecting, release=release)


@pytest.mark.parametrize("release", [V1_36, V1_37])
def test_without_consumable_capacity_devices_are_not_shared(release: Release) -> None:
    shared = {"name": "a", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
    two = ({"name": "r", **exactly()}, {"name": "s", **exactly()})
    requests = [dict(each, name=name) for name, each in zip("rs", two, strict=True)]
    small = {"memory": {"value": "4", "requestPolicy": {"default": "1"}}}
    assert chosen(release, [dict(shared, capacity=small)], *requests) == ["a", "a"]
    assert chosen(gated(release, NO_CAPACITY), [dict(shared, capacity=small)], *requests) == []
    assert chosen(gated(release, NO_CAPACITY), [shared]) == ["a"]


def test_without_consumable_capacity_requests_for_it_are_refused_or_ignored() -> None:
    request = exactly(capacity={"requests": {"memory": "99"}})
    listed = {
        "name": "r",
        "firstAvailable": [{"name": "s", **exactly()["exactly"]}, {"name": "t", **request["exactly"]}],
    }
    cause = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    release = gated(V1_36, NO_CAPACITY)
    for each, where in ((request, "request r"), (listed, "subrequest t")):
        with pytest.raises(AllocationError) as caught:
            chosen(release, [{"name": "a"}], each)
        assert caught.value.text.endswith(f", {where}: {cause}")
        assert chosen(gated(V1_36, NO_CAPACITY, NO_BINDING), [{"name": "a"}], each) == ["a"]


def test_the_oldest_allocator_has_no_distinct_attributes() -> None:
    devices = {"constraints": [{"distinctAttribute": "gpu.example.com/model"}]}
    release = gated(V1_37, NO_CAPACITY, NO_BINDING)
    with pytest.raises(AllocationError, match="constraint #0: empty constraint"):
        chosen(release, [{"name": "a"}], devices=devices)


def attribute(name: str, **value: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"gpu.example.com/link": value}}


LINKED = [
    attribute("a", strings=["x", "y"]),
    attribute("b", strings=["z"]),
    attribute("c", strings=["y", "z"]),
    attribute("d", string="y"),
    attribute("e", ints=[1]),
]


@pytest.mark.parametrize(
    ("release", "constraint", "count", "expected"),
    [
        (gated(V1_37, LISTS), "matchAttribute", 2, ["a", "c"]),
        (gated(V1_37, LISTS), "matchAttribute", 3, ["a", "c", "d"]),
        (gated(V1_37, LISTS), "matchAttribute", 4, []),
        (gated(V1_37, LISTS), "distinctAttribute", 3, ["a", "b", "e"]),
        (gated(V1_37, LISTS), "distinctAttribute", 4, []),
        (V1_37, "matchAttribute", 2, []),  # lists cannot be compared
        (gated(V1_36, LISTS), "matchAttribute", 2, []),  # in 1.36, the gate changes only selectors
    ],
)
def test_constraints_compare_sets_of_values(release: Release, constraint: str, count: int, expected: list[str]) -> None:
    devices = {"constraints": [{constraint: "gpu.example.com/link"}]}
    assert chosen(release, LINKED, exactly(count=count), devices=devices) == expected


@pytest.mark.parametrize(
    ("release", "expected"),
    [(V1_36, None), (gated(V1_36, LISTS), ["a"]), (V1_37, ["a"]), (gated(V1_37, LISTS), ["a"])],
)
def test_selectors_read_lists(release: Release, expected: list[str] | None) -> None:
    expression = 'device.attributes["gpu.example.com"].link.includes("x")'
    request = exactly(selectors=[{"cel": {"expression": expression}}])
    if expected is None:
        with pytest.raises(AllocationError, match="unsupported attribute value"):
            chosen(release, LINKED[:2], request)
    else:
        assert chosen(release, LINKED[:2], request) == expected


def test_selectors_of_the_oldest_allocator_do_not_see_that_a_device_is_shared() -> None:
    request = exactly(selectors=[{"cel": {"expression": "device.allowMultipleAllocations"}}])
    devices = [{"name": "a", "allowMultipleAllocations": True}]
    assert chosen(gated(V1_36, NO_CAPACITY), devices, request) == ["a"]
    assert chosen(gated(V1_36, NO_CAPACITY, NO_BINDING), devices, request) == []


@pytest.mark.parametrize("has_shares", [True, False])
def test_without_consumable_capacity_a_share_counts_as_the_whole_device(has_shares: bool) -> None:
    usage = DeviceUsage(has_shares=has_shares)
    allocation = fit(allocated("gpu-0", shareID="s", consumedCapacity={"m": "1"})["allocation"], AllocationResult)
    usage.add(allocation)
    assert [bool(each) for each in usage.view] == [not has_shares, has_shares, has_shares]
    usage.remove(allocation)
    assert not any(usage.view)
