"""VolumeBinding, node by node and volume by volume."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from mooring.api.label_selectors import SelectorError, compile_selector, requirement
from mooring.api.node import Node
from mooring.api.node_selectors import compile_node_selector
from mooring.api.pod import Pod
from mooring.api.quantity import parse_quantity, value
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeNodeAffinity
from mooring.framework import Status
from mooring.framework.status import SKIP, SUCCESS
from mooring.plugins.volumes.csi_translation import MIGRATED, TranslationError, csi_affinity, volume_plugin
from tests.plugins.reference.storage import Storage, claim_name, class_of_claim, class_of_volume, not_owner

CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
SELECTED = "volume.kubernetes.io/selected-node"


@dataclass
class Found:
    """What Filter found for one node."""

    status: Status = SUCCESS
    pairs: list[tuple[PersistentVolume, PersistentVolumeClaim]] = field(default_factory=list)
    to_make: list[PersistentVolumeClaim] = field(default_factory=list)


class BrokenError(Exception):
    pass


def size(amounts) -> Fraction:
    quantity = parse_quantity(amounts.get("storage", "0"))
    return Fraction(quantity.unscaled) * Fraction(10) ** quantity.scale


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and "pv.kubernetes.io/bind-completed" in claim.annotations


def reaches(affinity: VolumeNodeAffinity | None, node: Node) -> bool:
    if affinity is None or affinity.required is None:
        return True
    return compile_node_selector(affinity.required).matches(node.labels, "")


class Attempt:
    """PreFilter's verdict and the claims it found."""

    def __init__(self, world: Storage, pod: Pod) -> None:
        self.world = world
        self.pod = pod
        self.bound: list[PersistentVolumeClaim] = []
        self.waiting: list[PersistentVolumeClaim] = []
        self.status = self._pre_filter()

    def _pre_filter(self) -> Status:
        names = [(claim_name(self.pod, v), v.ephemeral is not None) for v in self.pod.spec.volumes]
        names = [(name, ephemeral) for name, ephemeral in names if name is not None]
        for name, ephemeral in names:
            fault = self._fault(name, ephemeral)
            if fault:
                return Status.unresolvable(fault)
        if not names:
            return SKIP
        immediate = []
        for name, _ in names:
            claim = self.world.claim(self.pod.namespace, name)
            if is_bound(claim):
                self.bound.append(claim)
                continue
            wanted = self.world.classes.get(class_of_claim(claim))
            if wanted is not None and wanted.volume_binding_mode is None:
                return Status.error(f'VolumeBindingMode not set for StorageClass "{wanted.name}"')
            waits = wanted is not None and wanted.volume_binding_mode == "WaitForFirstConsumer"
            (self.waiting if waits and not claim.spec.volume_name else immediate).append(claim)
        return Status.unresolvable("pod has unbound immediate PersistentVolumeClaims") if immediate else SUCCESS

    def _fault(self, name: str, ephemeral: bool) -> str | None:
        claim = self.world.claims.get((self.pod.namespace, name))
        if claim is None:
            if ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return f'persistentvolumeclaim "{name}" not found'
        if claim.status.phase == "Lost":
            volume = claim.spec.volume_name
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{name}" is being deleted'
        return not_owner(self.pod, claim) if ephemeral else None

    def filter(self, node: Node) -> Found:
        found = Found()
        reasons: dict[str, bool] = dict.fromkeys((CONFLICT, NO_VOLUME, NO_SPACE, MISSING), False)
        try:
            fault = self._check_bound(node)
            if fault:
                reasons[fault] = True
            fault = self._check_waiting(node, found)
            if fault:
                reasons[fault] = True
        except BrokenError as error:
            return Found(Status.error(str(error)))
        given = [reason for reason, holds in reasons.items() if holds]
        return Found(Status.unresolvable(*given)) if given else found

    def _check_bound(self, node: Node) -> str | None:
        for claim in self.bound:
            volume = self.world.volume(claim.spec.volume_name)
            if volume is None:
                return MISSING
            affinity = volume.spec.node_affinity
            csi_node = self.world.csi_nodes.get(node.name)
            annotation = (
                csi_node.annotations.get("storage.alpha.kubernetes.io/migrated-plugins", "") if csi_node else ""
            )
            if volume_plugin(volume) in MIGRATED and volume_plugin(volume) in annotation.split(","):
                try:
                    affinity = csi_affinity(volume)
                except TranslationError as error:
                    raise BrokenError(f"could not translate pv: {error}") from None
            if not reaches(affinity, node):
                return CONFLICT
        return None

    def _check_waiting(self, node: Node, found: Found) -> str | None:
        to_match = []
        for claim in self.waiting:
            if SELECTED in claim.annotations:
                if claim.annotations[SELECTED] != node.name:
                    return NO_VOLUME
                found.to_make.append(claim)
            else:
                to_match.append(claim)
        for claim in sorted(to_match, key=lambda each: size(each.spec.resources.requests)):
            volume = self._match(claim, node, {taken.name for taken, _ in found.pairs})
            if volume is None:
                found.to_make.append(claim)
            else:
                found.pairs.append((volume, claim))
        for claim in found.to_make:
            fault = self._cannot_make(claim, node)
            if fault:
                return fault
        return None

    def _match(self, claim: PersistentVolumeClaim, node: Node, taken: set[str]) -> PersistentVolume | None:
        selector = None
        if claim.spec.selector is not None:
            try:
                selector = compile_selector(claim.spec.selector)
            except SelectorError as error:
                place = f"{claim.namespace}/{claim.name}"
                text = f"error creating internal label selector for claim: {place}: {error}"
                raise BrokenError(text) from None
        best: PersistentVolume | None = None
        wanted = size(claim.spec.resources.requests)
        for name in sorted(self.world.volumes):
            volume = self.world.volume(name)
            ref, spec = volume.spec.claim_ref, volume.spec
            mine = ref is not None and (ref.namespace, ref.name) == (claim.namespace, claim.name)
            mine = mine and ref.uid in ("", claim.uid)
            if class_of_volume(volume) != class_of_claim(claim) or name in taken or (ref is not None and not mine):
                continue
            if size(spec.capacity) < wanted or (spec.volume_mode or "Filesystem") != (
                claim.spec.volume_mode or "Filesystem"
            ):
                continue
            if (spec.volume_attributes_class_name or "") != (claim.spec.volume_attributes_class_name or ""):
                continue
            if volume.metadata.deletion_timestamp is not None:
                continue
            reachable = reaches(spec.node_affinity, node)
            if mine:
                return volume if reachable else None
            if volume.status.phase != "Available" or (selector is not None and not selector.matches(volume.labels)):
                continue
            if not reachable or not set(claim.spec.access_modes) <= set(spec.access_modes):
                continue
            if best is None or size(best.spec.capacity) > size(spec.capacity):
                best = volume
        return best

    def _cannot_make(self, claim: PersistentVolumeClaim, node: Node) -> str | None:
        wanted = self.world.classes[class_of_claim(claim)]
        if wanted.provisioner in ("", "kubernetes.io/no-provisioner") or not is_allowed(wanted, node):
            return NO_VOLUME
        driver = self.world.drivers.get(wanted.provisioner)
        if "storage" not in claim.spec.resources.requests or driver is None or not driver.spec.storage_capacity:
            return None
        for capacity in self.world.capacities.values():
            limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
            if capacity.storage_class_name != wanted.name or limit is None or capacity.node_topology is None:
                continue
            try:
                selector = compile_selector(capacity.node_topology)
            except SelectorError:
                continue
            if value(limit) >= value(claim.spec.resources.requests["storage"]) and selector.matches(node.labels):
                return None
        return NO_SPACE


def is_allowed(storage_class: StorageClass, node: Node) -> bool:
    if not storage_class.allowed_topologies:
        return True
    for term in storage_class.allowed_topologies:
        try:
            needed = [requirement(each.key, "In", each.values) for each in term.match_label_expressions]
        except SelectorError:
            continue
        if needed and all(each.matches(node.labels) for each in needed):
            return True
    return False
