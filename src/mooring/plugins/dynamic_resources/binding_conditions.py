"""Binding conditions: whether the drivers of allocated devices allow a pod to be bound."""

from __future__ import annotations

from mooring.api.devices import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from mooring.api.meta import parse_time


class DeviceBindingError(Exception):
    """The preparation of a device failed. The text is kube-scheduler's."""


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Return whether an allocated device has binding conditions."""
    allocation = claim.status.allocation
    return allocation is not None and any(each.binding_conditions for each in allocation.devices.results)


def is_ready(claim: ResourceClaim) -> bool:
    """Return whether all binding conditions of the allocated devices are true. Raises DeviceBindingError."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        if status is None:
            return False
        conditions = {each.type: each for each in reversed(status.conditions)}
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                cause = f'claim={claim.name}, reason={failed.reason}, message="{failed.message}"'
                raise DeviceBindingError(f"device binding failed: {cause}")
        for name in result.binding_conditions:
            condition = conditions.get(name)
            if condition is None or condition.status != "True":
                return False
    return True


def _status_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    for each in claim.status.devices:
        if (each.driver, each.pool, each.device) == (result.driver, result.pool, result.device):
            return each
    return None


def is_timed_out(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Return whether the drivers had enough time to prepare the devices."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_binding_conditions(claim):
        return False
    return parse_time(allocation.allocation_timestamp) + timeout < now
