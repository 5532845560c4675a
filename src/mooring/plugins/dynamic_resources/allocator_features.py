"""AllocatorFeatures: what the device allocator can do with the feature gates of a release.

Upstream has three allocators and takes the oldest one that can do what the gates ask for. The two newer ones give the
same answers, apart from the gates that only the newest one knows. The oldest one has rules of its own.
"""

from __future__ import annotations

import functools
from typing import Final

import msgspec

from mooring.releases import Release

#: Gates that the oldest allocator does not know, besides those that only the newest one knows.
_NEWER_GATES: Final = ("DRAConsumableCapacity", "DRAFractionalCapacityRange")


class AllocatorFeatures(msgspec.Struct, frozen=True):
    """What the allocator can do."""

    #: Whether devices can be shared, and requests can ask for capacity. If not, shares count as whole devices.
    consumable_capacity: bool
    #: Whether devices with binding conditions can be allocated.
    binding_conditions: bool
    #: Whether devices can consume counters, and slices can select nodes for each device.
    partitionable_devices: bool
    #: Whether constraints compare attributes as sets of values.
    list_constraints: bool
    #: Whether the oldest allocator answers. It has no constraint distinctAttribute, ignores requests for capacity
    #: instead of refusing them, ignores bindsToNode, and hides from selectors whether a device can be shared.
    is_oldest: bool


@functools.cache
def allocator_features(release: Release) -> AllocatorFeatures:
    """Return what the allocator of a release can do."""
    binding = release.enabled("DRADeviceBindingConditions") and release.enabled("DRAResourceClaimDeviceStatus")
    return AllocatorFeatures(
        consumable_capacity=release.enabled("DRAConsumableCapacity"),
        binding_conditions=binding,
        partitionable_devices=release.enabled("DRAPartitionableDevices"),
        list_constraints=release.constraints_read_lists and release.enabled("DRAListTypeAttributes"),
        is_oldest=not (binding or release.has_experimental_allocator or any(map(release.enabled, _NEWER_GATES))),
    )
