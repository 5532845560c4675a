"""VolumeRestrictions, pod by pod."""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.api.volumes import Volume
from mooring.framework import Status
from mooring.framework.status import SKIP, SUCCESS
from tests.plugins.reference.storage import Storage

DISK = Status.unschedulable("node(s) had no available disk")
CLAIM = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def in_the_way(mine: Volume, theirs: Volume) -> bool:
    if mine.gce_persistent_disk and theirs.gce_persistent_disk:
        a, b = mine.gce_persistent_disk, theirs.gce_persistent_disk
        if a.pd_name == b.pd_name and not (a.read_only and b.read_only):
            return True
    if mine.aws_elastic_block_store and theirs.aws_elastic_block_store:
        a, b = mine.aws_elastic_block_store, theirs.aws_elastic_block_store
        if a.volume_id == b.volume_id:
            return True
    if mine.iscsi and theirs.iscsi:
        a, b = mine.iscsi, theirs.iscsi
        if a.iqn == b.iqn and not (a.read_only and b.read_only):
            return True
    if mine.rbd and theirs.rbd:
        a, b = mine.rbd, theirs.rbd
        same = set(a.monitors) & set(b.monitors) and a.pool == b.pool and a.image == b.image
        if same and not (a.read_only and b.read_only):
            return True
    return False


def disk_conflict(pod: Pod, others: list[Pod]) -> bool:
    return any(in_the_way(a, b) for other in others for a in pod.spec.volumes for b in other.spec.volumes)


def claims_of(pod: Pod) -> list[str]:
    return [v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim is not None]


class Attempt:
    """PreFilter's verdict, and what it counted."""

    def __init__(self, world: Storage, pod: Pod) -> None:
        self.pod = pod
        self.names: set[str] = set()
        self.uses = 0
        self.status = self._pre_filter(world)

    def _pre_filter(self, world: Storage) -> Status:
        for name in claims_of(self.pod):
            claim = world.claims.get((self.pod.namespace, name))
            if claim is None:
                return Status.unresolvable(f'persistentvolumeclaim "{name}" not found')
            if "ReadWriteOncePod" in claim.spec.access_modes:
                self.names.add(name)
        used = {(other.namespace, name) for other in world.placed() for name in claims_of(other)}
        self.uses = sum((self.pod.namespace, name) in used for name in self.names)
        disks = any(
            v.gce_persistent_disk or v.aws_elastic_block_store or v.rbd or v.iscsi for v in self.pod.spec.volumes
        )
        return SUCCESS if disks or self.uses else SKIP

    def filter(self, there: list[Pod], *, added: list[Pod] = (), removed: list[Pod] = ()) -> Status:
        """The verdict on a node with these pods, after some came and went."""
        uses = self.uses
        for sign, pods in ((1, added), (-1, removed)):
            uses += sign * sum(name in self.names for other in pods for name in claims_of(other))
        if disk_conflict(self.pod, there):
            return DISK
        return CLAIM if uses > 0 else SUCCESS
