"""NodeVolumeLimits, volume by volume."""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolumeClaim
from mooring.framework import Status
from mooring.framework.status import SKIP, SUCCESS
from mooring.plugins.volumes.csi_translation import (
    DRIVERS,
    MIGRATED,
    TranslationError,
    inline_plugin,
    inline_volume,
    persistent_volume,
)
from tests.plugins.reference.storage import Storage, claim_name, class_of_claim, not_owner

FULL = Status.unschedulable("node(s) exceed max volume count")


class FaultError(Exception):
    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def pre_filter(pod: Pod) -> Status:
    relevant = any(v.persistent_volume_claim or v.ephemeral or inline_plugin(v) is not None for v in pod.spec.volumes)
    return SUCCESS if relevant else SKIP


def filter(world: Storage, pod: Pod, node: str, there: list[Pod]) -> Status:
    csi_node = world.csi_nodes.get(node)
    try:
        new = attachable(world, pod, has_csi_node=csi_node is not None, is_new=True)
        limits = {
            d.name: d.allocatable.count
            for d in (csi_node.spec.drivers if csi_node is not None else ())
            if d.allocatable is not None and d.allocatable.count is not None
        }
        if not new or not limits:
            return SUCCESS
        present: dict[tuple[str, str], str] = {}
        for other in there:
            present |= attachable(world, other, has_csi_node=True, is_new=False)
    except FaultError as fault:
        return fault.status
    attached = present | attachments(world, node)
    for driver in set(new.values()):
        more = [volume for volume, its in new.items() if its == driver and volume not in present]
        count = sum(its == driver for its in attached.values())
        if driver in limits and more and count + len(more) > limits[driver]:
            return FULL
    return SUCCESS


def attachable(world: Storage, pod: Pod, *, has_csi_node: bool, is_new: bool) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is None:
            if inline_plugin(volume) in MIGRATED and has_csi_node:
                try:
                    translated = inline_volume(volume)
                except TranslationError as error:
                    text = f"converting volume({volume.name}) from inline to csi: {error}"
                    raise FaultError(Status.error(text)) from None
                found[translated] = translated[0]
            continue
        if name == "":
            raise FaultError(Status.error("PersistentVolumeClaim had no name"))
        claim = world.claims.get((pod.namespace, name))
        if claim is None:
            if is_new:
                text = f'looking up PVC {pod.namespace}/{name}: persistentvolumeclaim "{name}" not found'
                raise FaultError(Status.unresolvable(text))
            continue
        if volume.ephemeral is not None and not_owner(pod, claim):
            raise FaultError(Status.error(not_owner(pod, claim)))
        driver, handle = behind(world, claim, has_csi_node=has_csi_node)
        if driver and handle:
            found[driver, handle] = driver
    return found


def behind(world: Storage, claim: PersistentVolumeClaim, *, has_csi_node: bool) -> tuple[str, str]:
    volume = world.volumes.get(claim.spec.volume_name)
    if volume is None:
        storage_class = world.classes.get(class_of_claim(claim))
        if storage_class is None:
            return "", ""
        driver, handle = storage_class.provisioner, f"random-{claim.namespace}/{claim.name}"
        if driver not in DRIVERS:
            return driver, handle
        return (DRIVERS[driver], handle) if driver in MIGRATED and has_csi_node else ("", "")
    if volume.spec.csi is not None:
        return volume.spec.csi.driver, volume.spec.csi.volume_handle
    try:
        return (persistent_volume(volume) if has_csi_node else None) or ("", "")
    except TranslationError:
        return "", ""


def attachments(world: Storage, node: str) -> dict[tuple[str, str], str]:
    found = {}
    for each in world.attachments.values():
        volume = world.volumes.get(each.spec.source.persistent_volume_name or "")
        if each.spec.node_name == node and each.spec.attacher and volume is not None and volume.spec.csi is not None:
            found[each.spec.attacher, volume.spec.csi.volume_handle] = each.spec.attacher
    return found
