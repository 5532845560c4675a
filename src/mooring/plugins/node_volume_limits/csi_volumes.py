"""The CSI volumes of claims: driver and volume handle."""

from __future__ import annotations

from typing import Final, NamedTuple

from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.framework import Handle
from mooring.plugins.volumes.csi_translation import DRIVERS, MIGRATED, TranslationError, persistent_volume
from mooring.plugins.volumes.pod_volumes import ClaimUse, Use, claim_class, ownership_fault

NO_NAME: Final = "PersistentVolumeClaim had no name"
#: The prefix of the handle of a volume that is not provisioned yet; real handles do not have it.
_TO_BE_MADE: Final = "\0"


class CSIVolume(NamedTuple):
    """A volume by its driver and handle."""

    driver: str
    handle: str


class FaultyUseError(ValueError):
    """A pod's volume is invalid; the text is kube-scheduler's."""


class VolumeResolver:
    """Finds the CSI volumes of claims and pods.

    The migrated in-tree plugins are the same on all nodes that have a CSINode object: kube-scheduler assumes that
    migration is complete there. A node without one has no limits.
    """

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.lister(PersistentVolumeClaim)
        self._volumes = handle.lister(PersistentVolume)
        self._classes = handle.lister(StorageClass)

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim by name."""
        return self._claims.get(name, namespace)

    def of_claim(self, claim: PersistentVolumeClaim) -> CSIVolume | None:
        """Return the volume of a claim, even if it is not provisioned yet; None if no CSI driver serves it."""
        volume = self._volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        found = self._to_be_made(claim) if volume is None else _existing(volume)
        return found if found is not None and found.driver and found.handle else None

    def _to_be_made(self, claim: PersistentVolumeClaim) -> CSIVolume | None:
        name = claim_class(claim)
        storage_class = self._classes.get(name) if name else None
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        if driver in DRIVERS:
            if driver not in MIGRATED:
                return None
            driver = DRIVERS[driver]
        return CSIVolume(driver, f"{_TO_BE_MADE}{claim.namespace}/{claim.name}")

    def is_migrated(self, pod: Pod, use: Use) -> bool:
        """Return whether an in-tree plugin serves the volume: it counts only on nodes with a CSINode object then."""
        claim = self._claims.get(use.claim_name(pod), pod.namespace) if isinstance(use, ClaimUse) else None
        if claim is None:
            return True
        volume = self._volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            return volume.spec.csi is None
        storage_class = self._classes.get(claim_class(claim))
        return storage_class is None or storage_class.provisioner in DRIVERS

    def of_pod(self, pod: Pod, uses: tuple[Use, ...]) -> set[CSIVolume]:
        """Return the volumes of a placed pod; claims that do not exist do not count."""
        found: set[CSIVolume] = set()
        for use in uses:
            volume = self.of_use(pod, use)
            if volume is not None:
                found.add(volume)
        return found

    def of_use(self, pod: Pod, use: Use) -> CSIVolume | None:
        """Return the volume of one use by a pod. Raises FaultyUseError where kube-scheduler reports an error."""
        if not isinstance(use, ClaimUse):
            if use.fault:
                raise FaultyUseError(use.fault)
            return CSIVolume(use.driver, use.handle)
        name = use.claim_name(pod)
        if not name:
            raise FaultyUseError(NO_NAME)
        claim = self._claims.get(name, pod.namespace)
        if claim is None:
            return None
        if use.ephemeral and (fault := ownership_fault(pod, claim)):
            raise FaultyUseError(fault)
        return self.of_claim(claim)


def _existing(volume: PersistentVolume) -> CSIVolume | None:
    csi = volume.spec.csi
    if csi is not None:
        return CSIVolume(csi.driver, csi.volume_handle)
    try:
        translated = persistent_volume(volume)
    except TranslationError:  # such a volume is not counted
        return None
    return CSIVolume(*translated) if translated is not None else None
