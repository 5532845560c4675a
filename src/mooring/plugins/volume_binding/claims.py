"""A pod's claims: bound ones, and unbound ones that wait for the pod to be placed."""

from __future__ import annotations

from typing import Final, NamedTuple

from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolumeClaim, StorageClass
from mooring.framework import Lister, Status
from mooring.plugins.volume_binding.assume_cache import AssumeCache
from mooring.plugins.volumes.pod_volumes import WAIT_FOR_CONSUMER, ClaimUse, Use, claim_class, ownership_fault

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


class PodClaims(NamedTuple):
    """The claims of a pod that can be placed."""

    bound: list[PersistentVolumeClaim]
    waiting: list[PersistentVolumeClaim]


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether a claim is bound, and the controller has finished binding it."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.annotations


class ClaimSorter:
    """Finds and checks the claims of a pod."""

    def __init__(
        self,
        stored: Lister[PersistentVolumeClaim],
        assumed: AssumeCache[PersistentVolumeClaim],
        classes: Lister[StorageClass],
    ) -> None:
        self._stored = stored
        self._assumed = assumed
        self._classes = classes

    def check(self, pod: Pod, uses: tuple[Use, ...]) -> str | None:
        """Return the status if the pod's claims are invalid."""
        for use in uses:
            if isinstance(use, ClaimUse):
                fault = self._fault(pod, use)
                if fault is not None:
                    return fault
        return None

    def _fault(self, pod: Pod, use: ClaimUse) -> str | None:
        name = use.claim_name(pod)
        claim = self._stored.get(name, pod.namespace)
        if claim is None:
            if use.ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return f'persistentvolumeclaim "{name}" not found'
        if claim.status.phase == "Lost":
            volume = claim.spec.volume_name
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{name}" is being deleted'
        return ownership_fault(pod, claim) if use.ephemeral else None

    def sort(self, pod: Pod, uses: tuple[Use, ...]) -> PodClaims | Status:
        """Return the pod's claims, or why it cannot be placed yet."""
        found = PodClaims([], [])
        immediate = False
        for use in uses:
            if not isinstance(use, ClaimUse):
                continue
            claim = self._assumed.get(use.claim_name(pod), pod.namespace)
            if claim is None:
                continue  # checked before
            if is_bound(claim):
                found.bound.append(claim)
                continue
            waits = self._waits(claim)
            if isinstance(waits, Status):
                return waits
            if waits and not claim.spec.volume_name:
                found.waiting.append(claim)
            else:
                immediate = True
        if immediate:
            return Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")
        return found

    def _waits(self, claim: PersistentVolumeClaim) -> bool | Status:
        """Return whether a claim is bound only when the pod is placed."""
        name = claim_class(claim)
        storage_class = self._classes.get(name) if name else None
        if storage_class is None:
            return False
        if storage_class.volume_binding_mode is None:
            return Status.error(f'VolumeBindingMode not set for StorageClass "{name}"')
        return storage_class.volume_binding_mode == WAIT_FOR_CONSUMER
