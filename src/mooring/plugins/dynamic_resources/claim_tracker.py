"""ClaimTracker: the claims as this scheduler knows them, and the devices that are in use.

It overlays the claims of the informer with what this scheduler has written a moment ago (assumed claims), and counts
the allocations that are decided but not written yet (in flight). All profiles share one tracker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from mooring.api.devices import EXTENDED_RESOURCE_CLAIM_ANNOTATION, AllocationResult, ResourceClaim
from mooring.api.quantity import Quantity, parse_quantity
from mooring.framework import Lister
from mooring.plugins.dynamic_resources.allocator import Usage
from mooring.plugins.dynamic_resources.joint_writes import JointWrites
from mooring.plugins.dynamic_resources.pools import DeviceID

Key = tuple[str, str]
_replace = msgspec.structs.replace

#: How long a created claim counts although the informer does not know it.
_AWAIT_SECONDS: Final = 120.0


class DeviceUsage:
    """The devices in use, and the used amounts of their capacity."""

    def __init__(self, *, has_shares: bool = True) -> None:
        """Without ``has_shares``, a share counts as a whole device."""
        self._has_shares = has_shares
        self._allocated: dict[DeviceID, int] = {}
        self._shared: dict[DeviceID, int] = {}
        self._capacity: dict[DeviceID, dict[str, Quantity]] = {}
        self.view = Usage(self._allocated, self._shared, self._capacity)
        #: Called with every device whose usage changes.
        self.listeners: list[Callable[[DeviceID], None]] = []

    def part(self, devices: Iterable[DeviceID]) -> DeviceUsage:
        """Return a copy for some devices, without listeners."""
        made = DeviceUsage(has_shares=self._has_shares)
        for device in devices:
            if device in self._allocated:
                made._allocated[device] = self._allocated[device]
            if device in self._shared:
                made._shared[device] = self._shared[device]
            if device in self._capacity:
                made._capacity[device] = self._capacity[device]
        return made

    def add(self, allocation: AllocationResult) -> None:
        """Count an allocation."""
        self._count(allocation, 1)

    def remove(self, allocation: AllocationResult) -> None:
        """Stop counting an allocation."""
        self._count(allocation, -1)

    def _count(self, allocation: AllocationResult, sign: int) -> None:
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            device = (result.driver, result.pool, result.device)
            is_share = result.share_id is not None and self._has_shares
            counts = self._shared if is_share else self._allocated
            counts[device] = counts.get(device, 0) + sign
            if counts[device] <= 0:
                del counts[device]
            if is_share and result.consumed_capacity is not None:
                self._count_capacity(device, result.consumed_capacity.items(), sign)
            for listener in self.listeners:
                listener(device)

    def _count_capacity(self, device: DeviceID, amounts: Iterable[tuple[str, object]], sign: int) -> None:
        used = self._capacity.get(device, {})
        used = dict(used)
        for name, text in amounts:
            amount = parse_quantity(text)  # type: ignore[arg-type]  # a quantity of the API
            before = used.get(name)
            if before is None:
                before = Quantity(0)
            used[name] = before.plus(amount) if sign > 0 else before.minus(amount)
        if sign < 0 and not any(amount.unscaled for amount in used.values()):
            self._capacity.pop(device, None)
        else:
            self._capacity[device] = used


class ClaimTracker:
    """The claims, the allocations in flight, and the devices in use."""

    def __init__(self, lister: Lister[ResourceClaim], *, has_shares: bool = True) -> None:
        self._lister = lister
        self._assumed: dict[Key, ResourceClaim] = {}
        #: The uid of a claim -> its allocation that is not written yet.
        self._in_flight: dict[str, AllocationResult] = {}
        #: Claim in flight -> the group of the pod that it was allocated for.
        self._for_group: dict[str, str] = {}
        #: The allocations that are counted, with the uids of their claims.
        self._counted: dict[Key, tuple[str, AllocationResult]] = {}
        #: Device -> the claims whose counted allocations contain it.
        self._holders: dict[DeviceID, dict[Key, None]] = {}
        #: The uid of a pod -> the claims for its extended resources.
        self._extended: dict[str, dict[Key, None]] = {}
        #: The uid of a created claim -> its allocation in flight, the claim, and until when it counts.
        self._awaited: dict[str, tuple[str, ResourceClaim, float]] = {}
        self.usage = DeviceUsage(has_shares=has_shares)
        self.writes = JointWrites()
        for claim in lister.list():
            self._on_change(None, claim)
        lister.listen(self._on_change)

    def get(self, name: str, namespace: str) -> ResourceClaim | None:
        """Return the newest known version of a claim."""
        stored = self._lister.get(name, namespace)
        if stored is None:
            return None
        assumed = self._assumed.get((namespace, name))
        return stored if assumed is None else assumed

    def extended_claim(self, uid: str) -> ResourceClaim | None:
        """Return the claim that exists for the extended resources of a pod."""
        for namespace, name in self._extended.get(uid, ()):
            return self.get(name, namespace)
        return None

    def holders(self, device: DeviceID) -> Iterable[ResourceClaim]:
        """Return the claims to which a device is allocated. Allocations in flight are not included."""
        found = (self.get(name, namespace) for namespace, name in self._holders.get(device, ()))
        return [claim for claim in found if claim is not None]

    # Allocations in flight

    def is_in_flight(self, uid: str) -> bool:
        """Return whether the allocation of a claim is decided but not written."""
        return uid in self._in_flight

    def with_allocation_in_flight(self, claim: ResourceClaim) -> ResourceClaim:
        """Return a claim with the allocation that is being written for another pod, if there is one."""
        allocation = self._in_flight.get(claim.uid)
        if allocation is None or claim.status.allocation is not None:
            return claim
        return _replace(claim, status=_replace(claim.status, allocation=allocation))

    def is_for_group(self, uid: str, group: str | None) -> bool:
        """Return whether an allocation in flight was decided for a pod of a group."""
        return group is not None and self._for_group.get(uid) == group

    def start(self, uid: str, allocation: AllocationResult, group: str | None = None) -> None:
        """Count an allocation that is decided, for a pod of a group."""
        if uid not in self._in_flight:
            self._in_flight[uid] = allocation
            if group is not None:
                self._for_group[uid] = group
            self.usage.add(allocation)

    def finish(self, uid: str) -> bool:
        """Stop counting an allocation in flight: it is written, or given up. Return whether it was counted."""
        allocation = self._in_flight.pop(uid, None)
        self._for_group.pop(uid, None)
        if allocation is not None:
            self.usage.remove(allocation)
        return allocation is not None

    # Assumed claims

    def assume(self, claim: ResourceClaim) -> bool:
        """Use a version that the API server has returned until the informer has it. Return whether that is possible."""
        key = (claim.namespace, claim.name)
        stored = self._lister.get(claim.name, claim.namespace)
        if stored is None or stored.uid != claim.uid or _is_newer(stored, claim):
            return False
        self._assumed[key] = claim
        self._recount(key)
        return True

    def settle(self, in_flight: str, claim: ResourceClaim, now: float) -> None:
        """Use a written version of a claim, and stop counting its allocation in flight.

        The informer may not know a claim that was just created. Then its allocation counts as in flight until it does.
        """
        self._expire(now)
        if not self.assume(claim) and self._lister.get(claim.name, claim.namespace) is None and in_flight:
            self._awaited[claim.uid] = (in_flight, claim, now + _AWAIT_SECONDS)
        elif in_flight:
            self.finish(in_flight)

    def _expire(self, now: float) -> None:
        for uid in [uid for uid, (_, _, until) in self._awaited.items() if until < now]:
            self.finish(self._awaited.pop(uid)[0])

    def restore(self, name: str, namespace: str) -> None:
        """Forget an assumed version."""
        if self._assumed.pop((namespace, name), None) is not None:
            self._recount((namespace, name))

    def _on_change(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new if new is not None else old
        assert claim is not None
        key = (claim.namespace, claim.name)
        assumed = self._assumed.get(key)
        if assumed is not None and (new is None or new.uid != assumed.uid or not _is_newer(assumed, new)):
            del self._assumed[key]
        for before in (old,) if old is not None else ():
            self._index_extended(before, key, exists=False)
        if new is not None:
            self._index_extended(new, key, exists=True)
        awaited = self._awaited.pop(claim.uid, None)
        if awaited is not None and new is not None:
            self.assume(awaited[1])
        self._recount(key)
        if awaited is not None:
            self.finish(awaited[0])

    def _index_extended(self, claim: ResourceClaim, key: Key, *, exists: bool) -> None:
        uid = extended_owner(claim)
        if uid is None:
            return
        if exists:
            self._extended.setdefault(uid, {})[key] = None
        else:
            keys = self._extended.get(uid, {})
            keys.pop(key, None)
            if not keys:
                self._extended.pop(uid, None)

    def _recount(self, key: Key) -> None:
        """Count the allocation of a claim. As upstream does, a changed allocation of the same claim is ignored."""
        claim = self.get(key[1], key[0])
        allocation = claim.status.allocation if claim is not None else None
        counted = self._counted.get(key)
        if counted is not None:
            if claim is not None and allocation is not None and claim.uid == counted[0]:
                return
            del self._counted[key]
            self._hold(key, counted[1], holds=False)
            self.usage.remove(counted[1])
        if claim is not None and allocation is not None:
            self._counted[key] = (claim.uid, allocation)
            self._hold(key, allocation, holds=True)
            self.usage.add(allocation)

    def _hold(self, key: Key, allocation: AllocationResult, *, holds: bool) -> None:
        for result in allocation.devices.results:
            device = (result.driver, result.pool, result.device)
            if holds:
                self._holders.setdefault(device, {})[key] = None
            elif (keys := self._holders.get(device)) is not None:
                keys.pop(key, None)
                if not keys:
                    del self._holders[device]


def _is_newer(one: ResourceClaim, other: ResourceClaim) -> bool:
    """Return whether a version is newer than another. Versions of the API server are numbers."""
    mine, theirs = one.metadata.resource_version, other.metadata.resource_version
    if mine.isdecimal() and theirs.isdecimal() and len(mine) < 20 and len(theirs) < 20:
        return int(mine) > int(theirs)
    return False


def extended_owner(claim: ResourceClaim) -> str | None:
    """Return the uid of the pod whose extended resources a claim is for; None for other claims."""
    if claim.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return None
    for owner in claim.metadata.owner_references:
        if owner.controller:
            return owner.uid
    return None
