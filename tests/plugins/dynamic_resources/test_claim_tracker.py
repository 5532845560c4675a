"""ClaimTracker: assumed claims, allocations in flight, and the devices in use."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.devices import ResourceClaim
from mooring.api.quantity import parse_quantity
from mooring.framework import Lister
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker
from tests.plugins.device_world import DRIVER, allocated, claim

GPU_0 = (DRIVER, "n0", "gpu-0")


def versioned(made: ResourceClaim, version: int) -> ResourceClaim:
    metadata = msgspec.structs.replace(made.metadata, resource_version=str(version))
    return msgspec.structs.replace(made, metadata=metadata)


@pytest.fixture
def lister() -> Lister[ResourceClaim]:
    return Lister(ResourceClaim)


def test_usage_follows_claims(lister: Lister[ResourceClaim]) -> None:
    lister.put(claim(status=allocated("gpu-0")))
    tracker = ClaimTracker(lister)
    assert GPU_0 in tracker.usage.view.allocated
    lister.put(claim())
    assert not tracker.usage.view.allocated
    lister.put(claim(name="admin", status=allocated("gpu-0", adminAccess=True)))
    assert not tracker.usage.view.allocated


def test_shares_add_up(lister: Lister[ResourceClaim]) -> None:
    tracker = ClaimTracker(lister)
    for name in "ab":
        lister.put(claim(name=name, status=allocated("gpu-0", shareID=name, consumedCapacity={"memory": "4Gi"})))
    assert tracker.usage.view.capacity[GPU_0]["memory"].scaled(0) == parse_quantity("8Gi").scaled(0)
    assert not tracker.usage.view.allocated
    for name in "ab":
        lister.remove(name, "default")
    assert not tracker.usage.view.capacity
    assert not tracker.usage.view.shared


def test_an_assumed_claim_lasts_until_the_informer_has_it(lister: Lister[ResourceClaim]) -> None:
    lister.put(versioned(claim(), 1))
    tracker = ClaimTracker(lister)
    written = versioned(claim(status=allocated("gpu-0")), 3)
    assert tracker.assume(written)
    lister.put(versioned(claim(metadata={"labels": {"a": "b"}}), 2))  # older than what was written
    assert tracker.get("c", "default") is written
    assert GPU_0 in tracker.usage.view.allocated
    lister.put(versioned(claim(), 4))  # deallocated by someone
    assert not tracker.usage.view.allocated


def test_devices_in_flight_are_in_use(lister: Lister[ResourceClaim]) -> None:
    lister.put(versioned(claim(), 1))
    tracker = ClaimTracker(lister)
    written = versioned(claim(status=allocated("gpu-0")), 2)
    assert written.status.allocation is not None
    tracker.start("uid-c", written.status.allocation)
    assert tracker.is_in_flight("uid-c")
    tracker.settle("uid-c", written, 0.0)
    assert not tracker.is_in_flight("uid-c")
    assert tracker.usage.view.allocated == {GPU_0: 1}


@pytest.mark.parametrize("appears", [True, False])
def test_a_created_claim_counts_before_the_informer_has_it(lister: Lister[ResourceClaim], appears: bool) -> None:
    tracker = ClaimTracker(lister)
    created = versioned(claim(status=allocated("gpu-0")), 2)
    assert created.status.allocation is not None
    tracker.start("temporary", created.status.allocation)
    tracker.settle("temporary", created, 0.0)
    assert tracker.is_in_flight("temporary")
    if appears:
        lister.put(versioned(claim(), 1))  # the version before the allocation was written
        assert tracker.usage.view.allocated == {GPU_0: 1}
        assert tracker.get("c", "default") == created
    else:
        tracker.settle("", claim(name="other"), 1000.0)
        assert not tracker.usage.view.allocated
    assert not tracker.is_in_flight("temporary")


def test_a_deleted_claim_releases_its_devices(lister: Lister[ResourceClaim]) -> None:
    lister.put(versioned(claim(), 1))
    tracker = ClaimTracker(lister)
    tracker.assume(versioned(claim(status=allocated("gpu-0")), 2))
    lister.remove("c", "default")
    assert not tracker.usage.view.allocated
    assert tracker.get("c", "default") is None
