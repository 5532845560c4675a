"""VolumeZone, node by node."""

from __future__ import annotations

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import Status
from mooring.framework.status import SKIP, SUCCESS
from tests.plugins.reference.storage import Storage, class_of_claim

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
KEYS = (OLD_ZONE, OLD_REGION, ZONE, REGION)


def pre_filter(world: Storage, pod: Pod) -> tuple[Status, list[tuple[str, set[str]]]]:
    """The verdict, and the labels of the pod's volumes."""
    found: list[tuple[str, set[str]]] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        name = volume.persistent_volume_claim.claim_name
        if not name:
            return Status.unresolvable("PersistentVolumeClaim had no name"), []
        claim = world.claims.get((pod.namespace, name))
        if claim is None:
            return Status.unresolvable(f'persistentvolumeclaim "{name}" not found'), []
        if not claim.spec.volume_name:
            wanted = class_of_claim(claim)
            if not wanted:
                return Status.unresolvable("PersistentVolumeClaim had no pv name and storageClass name"), []
            if wanted not in world.classes:
                return Status.unresolvable(f'storageclass.storage.k8s.io "{wanted}" not found'), []
            mode = world.classes[wanted].volume_binding_mode
            if mode is None:
                return Status.unresolvable(f'VolumeBindingMode not set for StorageClass "{wanted}"'), []
            if mode != "WaitForFirstConsumer":
                return Status.unresolvable("PersistentVolume had no name"), []
            continue
        bound = world.volumes.get(claim.spec.volume_name)
        if bound is None:
            return Status.unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found'), []
        for key in KEYS:
            if key in bound.labels:
                values = {value.strip() for value in bound.labels[key].split("__")}
                if "" not in values:
                    found.append((key, values))
    return (SUCCESS if found else SKIP), found


def filter(labels: list[tuple[str, set[str]]], node: Node) -> Status:
    if not any(key in node.labels for key in KEYS):
        return SUCCESS
    for key, values in labels:
        fallback = {OLD_ZONE: ZONE, OLD_REGION: REGION}.get(key, key)
        if node.labels.get(key, node.labels.get(fallback)) not in values:
            return Status.unresolvable("node(s) had no available volume zone")
    return SUCCESS
