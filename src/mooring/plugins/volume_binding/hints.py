"""Queueing hints of VolumeBinding."""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from mooring.framework import Hint
from mooring.plugins.csi_nodes import MIGRATED_PLUGINS
from mooring.plugins.volume_binding.capacities import volume_limit


def after_class_changed(_pod: Pod, old: StorageClass | None, new: StorageClass) -> Hint:
    """Queue for a new class, or one that is allowed elsewhere now."""
    return Hint.QUEUE if old is None or old.allowed_topologies != new.allowed_topologies else Hint.SKIP


def after_csi_node_changed(_pod: Pod, old: CSINode | None, new: CSINode) -> Hint:
    """Queue for a new CSINode, or one with other migrated plugins."""
    if old is None or old.annotations.get(MIGRATED_PLUGINS, "") != new.annotations.get(MIGRATED_PLUGINS, ""):
        return Hint.QUEUE
    return Hint.SKIP


def after_driver_changed(pod: Pod, old: CSIDriver, new: CSIDriver) -> Hint:
    """Queue if a driver that the pod names no longer tells how much storage it has."""
    names_it = any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)
    return Hint.QUEUE if names_it and old.spec.storage_capacity and not new.spec.storage_capacity else Hint.SKIP


def after_capacity_changed(_pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> Hint:
    """Queue for a new capacity, or one that grew."""
    if old is None:
        return Hint.QUEUE
    before, now = volume_limit(old), volume_limit(new)
    return Hint.QUEUE if now is not None and (before is None or now > before) else Hint.SKIP
