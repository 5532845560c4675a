"""A cluster's storage as plain objects, and look-ups that the references of the volume plugins share."""

from __future__ import annotations

from dataclasses import dataclass, field

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.api.volumes import Volume

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


@dataclass
class Storage:
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    claims: dict[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, CSINode] = field(default_factory=dict)
    drivers: dict[str, CSIDriver] = field(default_factory=dict)
    capacities: dict[tuple[str, str], CSIStorageCapacity] = field(default_factory=dict)
    attachments: dict[str, VolumeAttachment] = field(default_factory=dict)
    #: What a scheduler assumes of claims and volumes until it hears of newer ones.
    assumed_claims: dict[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)
    assumed_volumes: dict[str, PersistentVolume] = field(default_factory=dict)

    def on(self, name: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node_name == name]

    def placed(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node_name in self.nodes]

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        stored = self.claims.get((namespace, name))
        return stored and self.assumed_claims.get((namespace, name), stored)

    def volume(self, name: str) -> PersistentVolume | None:
        stored = self.volumes.get(name)
        return stored and self.assumed_volumes.get(name, stored)


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim behind a pod's volume; None if it is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.name}-{volume.name}" if volume.ephemeral is not None else None


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    if BETA_CLASS in claim.annotations:
        return claim.annotations[BETA_CLASS]
    return claim.spec.storage_class_name or ""


def class_of_volume(volume: PersistentVolume) -> str:
    if BETA_CLASS in volume.annotations:
        return volume.annotations[BETA_CLASS]
    return volume.spec.storage_class_name


def not_owner(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    controllers = [ref.uid for ref in claim.metadata.owner_references if ref.controller]
    if claim.namespace == pod.namespace and controllers[:1] == [pod.uid]:
        return None
    return f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"
