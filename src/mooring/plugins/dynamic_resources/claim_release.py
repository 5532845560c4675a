"""ClaimRelease: PostFilter frees claims that keep a pod, or a group of pods, from being scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup
from mooring.framework import Handle, Status
from mooring.plugins.dynamic_resources.claim_binder import ClaimBinder
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker
from mooring.plugins.dynamic_resources.extended_resources import SPECIAL_NAME
from mooring.plugins.dynamic_resources.pod_claims import ClaimsNotReadyError, group_claim_name, owns
from mooring.plugins.dynamic_resources.pod_devices import PodDevices

_DEALLOCATED: Final = Status.unschedulable("deallocation of ResourceClaim completed")
_DELETED: Final = Status.unschedulable("deletion of ResourceClaim completed")
_GROUP_CLEANED: Final = Status.unschedulable("deallocation and deletion of ResourceClaims completed")
_GROUP_DEALLOCATED: Final = Status.unschedulable("deallocation of PodGroup ResourceClaim completed")
_GROUP_UNRESERVED: Final = Status.unresolvable("ResourceClaim unreserved for PodGroup")


class ClaimRelease:
    """Deallocates claims that no other pod uses, and removes reservations of groups."""

    def __init__(self, handle: Handle, tracker: ClaimTracker, binder: ClaimBinder) -> None:
        self._handle = handle
        self._tracker = tracker
        self._binder = binder

    def for_pod(self, found: PodDevices, pod: Pod, freed: set[str] | None = None) -> Status | None:
        """Free a claim for a pod; None if there is none. ``freed`` are the claims that are freed already."""
        return self._free_claim(found, (pod.uid,), pod, freed) or self._delete_left_over(found, pod)

    def for_group(
        self, group: NativePodGroup, tried: Sequence[tuple[Pod, PodDevices | None]], *, is_active: bool
    ) -> Status:
        """Free claims for a group; ``is_active`` is whether pods of it have nodes."""
        release = self._handle.release
        if group.spec.scheduling_constraints is not None and release.enabled("TopologyAwareWorkloadScheduling"):
            return Status.unschedulable()
        freed: set[str] = set()
        stuck = False
        for pod, found in tried:
            if found is None or not self.for_pod(found, pod, freed):
                stuck = True
        if stuck and not is_active and release.enabled("DRAWorkloadResourceClaims"):
            states = [found for _, found in tried if found is not None]
            status = self._free_group_claim(group, states, tried[0][0])
            if status is not None:
                return status
        return _GROUP_CLEANED

    def _free_claim(
        self, found: PodDevices, users: tuple[str, ...], waiting: Pod, freed: set[str] | None = None
    ) -> Status | None:
        """Deallocate an unavailable claim that is reserved at most for one of ``users``; None if there is none."""
        writer = self._handle.claims
        for place in sorted(found.unavailable):
            claim = found.claims[place]
            if place == found.special or self._tracker.is_in_flight(claim.uid):
                continue
            reserved = claim.status.reserved_for
            if not reserved or (len(reserved) == 1 and reserved[0].uid in users):
                if writer is not None and (freed is None or claim.uid not in freed):
                    self._binder.deallocate(writer, claim, waiting)
                if freed is not None:
                    freed.add(claim.uid)
                return _DEALLOCATED
        return None

    def _delete_left_over(self, found: PodDevices, pod: Pod) -> Status | None:
        """Delete the claim for extended resources of an earlier attempt; None if there is none."""
        special = found.claims[found.special] if found.special is not None else None
        if special is None or special.name == SPECIAL_NAME:
            return None
        if self._handle.claims is not None:
            self._binder.delete_left_over(self._handle.claims, special, pod)
        return _DELETED

    def _free_group_claim(self, group: NativePodGroup, states: list[PodDevices], pod: Pod) -> Status | None:
        """Deallocate an unavailable claim of a group, or remove a reservation of the group."""
        for found in states:
            if self._free_claim(found, (group.uid,), pod) is not None:
                return _GROUP_DEALLOCATED
        for entry in group.spec.resource_claims:
            try:
                name = group_claim_name(group, entry)
            except ClaimsNotReadyError as error:
                return Status.error(str(error))
            if name is None:
                continue
            claim = self._tracker.get(name, group.namespace)
            if claim is None:
                return Status.error(f'could not find ResourceClaim "{group.namespace}/{name}"')
            if entry.resource_claim_name is None and not owns(group, claim):
                continue
            if claim.status.allocation is not None and claim.is_reserved_for(pod.uid, group.name):
                if self._handle.claims is not None:
                    self._binder.unreserve_group(self._handle.claims, claim, group)
                return _GROUP_UNRESERVED
        return None
