"""The storage class that claims and volumes name, now or by the annotation of old."""

from __future__ import annotations

from typing import Final

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim

_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

WAIT_FOR_CONSUMER: Final = "WaitForFirstConsumer"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """A claim's storage class, empty if it names none."""
    return claim.annotations.get(_BETA_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """A volume's storage class, empty if it has none."""
    return volume.annotations.get(_BETA_CLASS, volume.spec.storage_class_name)
