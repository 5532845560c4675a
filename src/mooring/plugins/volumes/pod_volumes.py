"""A pod's volumes and claims, and the queueing hints that the volume plugins share."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.api.volumes import Volume
from mooring.framework import Hint, PodTemplate
from mooring.plugins.volumes.csi_translation import TranslationError, inline_plugin, inline_volume

_KEY: Final = "volumes.summary"


class Disk(NamedTuple):
    """An inline disk (GCE, EBS, iSCSI, RBD), with the fields that determine whether two pods conflict."""

    identity: tuple[str, ...]
    #: Read-only users of a disk can share it, unless it cannot be shared at all (EBS: never read-only here).
    read_only: bool


class ClaimUse(NamedTuple):
    """A volume that refers to a claim: by name, or created for the pod (``ephemeral``) and named after both."""

    name: str
    ephemeral: bool = False

    def claim_name(self, pod: Pod) -> str:
        """Return the claim's name."""
        return f"{pod.name}-{self.name}" if self.ephemeral else self.name


class InlineUse(NamedTuple):
    """An inline in-tree volume that a CSI driver serves: driver and handle, or a fault."""

    driver: str
    handle: str
    fault: str = ""


#: A volume that may have to be attached to the pod's node.
Use: TypeAlias = ClaimUse | InlineUse


class VolumeSummary(NamedTuple):
    """The volumes of a template's pods."""

    #: Names in ``persistentVolumeClaim``, in order, empty ones included.
    claims: tuple[str, ...] = ()
    #: Claims, ephemeral volumes and in-tree volumes that a CSI driver serves, in order.
    uses: tuple[Use, ...] = ()
    disks: tuple[Disk, ...] = ()
    #: Whether there is a volume of a kind that names a disk, even if it names none.
    names_disks: bool = False
    #: Whether there is a volume that NodeVolumeLimits evaluates.
    attachable: bool = False
    #: Whether there is a claim, named or ephemeral.
    claimed: bool = False


NO_VOLUMES: Final = VolumeSummary()


def volumes_of(template: PodTemplate) -> VolumeSummary:
    """Return the summary of a template's volumes."""
    known = template.cache.get(_KEY)
    if known is None:
        known = template.cache[_KEY] = summarise(template.pod)
    return known  # type: ignore[return-value]  # only this function writes the key


def summarise(pod: Pod) -> VolumeSummary:
    """Classify a pod's volumes."""
    volumes = pod.spec.volumes
    if not volumes:
        return NO_VOLUMES
    claims = [v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None]
    uses = tuple(use for use in map(_use, volumes) if use is not None)
    return VolumeSummary(
        claims=tuple(claims),
        uses=uses,
        disks=tuple(disk for volume in volumes for disk in disks_of(volume)),
        names_disks=any(map(has_disks, volumes)),
        attachable=any(map(_is_attachable, volumes)),
        claimed=any(isinstance(use, ClaimUse) for use in uses),
    )


def claim_use(volume: Volume) -> ClaimUse | None:
    """Return the claim that a volume refers to, if any."""
    if volume.persistent_volume_claim is not None:
        return ClaimUse(volume.persistent_volume_claim.claim_name)
    return ClaimUse(volume.name, ephemeral=True) if volume.ephemeral is not None else None


def uses_claim(pod: Pod, name: str) -> bool:
    """Return whether the pod uses the claim of that name; ephemeral volumes count."""
    uses = map(claim_use, pod.spec.volumes)
    return any(use is not None and use.claim_name(pod) == name for use in uses)


def ownership_fault(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Return the error if the claim of an ephemeral volume does not belong to the pod."""
    controller = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    if controller is not None and controller.uid == pod.uid and claim.namespace == pod.namespace:
        return None
    place, owner = f"{claim.namespace}/{claim.name}", f"{pod.namespace}/{pod.name}"
    return f"PVC {place} was not created for pod {owner} (pod is not owner)"


def disks_of(volume: Volume) -> list[Disk]:
    """Return the disks of a volume; an RBD image is one disk for each of its monitors."""
    found: list[Disk] = []
    if (gce := volume.gce_persistent_disk) is not None:
        found.append(Disk(("gce", gce.pd_name), gce.read_only))
    if (ebs := volume.aws_elastic_block_store) is not None:
        found.append(Disk(("ebs", ebs.volume_id), read_only=False))
    if (iscsi := volume.iscsi) is not None:
        found.append(Disk(("iscsi", iscsi.iqn), iscsi.read_only))
    if (rbd := volume.rbd) is not None:
        found += [Disk(("rbd", rbd.pool, rbd.image, each), rbd.read_only) for each in dict.fromkeys(rbd.monitors)]
    return found


def has_disks(volume: Volume) -> bool:
    """Return whether a volume is of a kind that can conflict."""
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.rbd is not None
        or volume.iscsi is not None
    )


def conflicts(mine: tuple[Disk, ...], others: tuple[Disk, ...]) -> int:
    """Count the conflicts between disks: the same disk, unless both are read-only."""
    return sum(
        disk.identity == other.identity and not (disk.read_only and other.read_only)
        for disk in mine
        for other in others
    )


def _is_attachable(volume: Volume) -> bool:
    return (
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or inline_plugin(volume) is not None
    )


def _use(volume: Volume) -> Use | None:
    claim = claim_use(volume)
    if claim is not None:
        return claim
    try:
        found = inline_volume(volume)
    except TranslationError as error:
        return InlineUse("", "", f"converting volume({volume.name}) from inline to csi: {error}")
    return InlineUse(*found) if found is not None else None


_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

WAIT_FOR_CONSUMER: Final = "WaitForFirstConsumer"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return a claim's storage class; empty if it has none."""
    return claim.annotations.get(_BETA_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """Return a volume's storage class; empty if it has none."""
    return volume.annotations.get(_BETA_CLASS, volume.spec.storage_class_name)


def own_named_claim(pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:
    """Queue if the claim is one that the pod names; claims of ephemeral volumes do not count."""
    names = (v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim is not None)
    return Hint.QUEUE if new.namespace == pod.namespace and new.name in names else Hint.SKIP


def own_claim(pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:
    """Queue if the claim is one of the pod's."""
    return Hint.QUEUE if new.namespace == pod.namespace and uses_claim(pod, new.name) else Hint.SKIP
