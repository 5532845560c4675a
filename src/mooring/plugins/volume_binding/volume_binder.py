"""Binding of claims and volumes: assumed in Reserve, written in PreBind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import msgspec

from mooring.api.meta import ObjectReference
from mooring.api.pod import Pod
from mooring.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from mooring.framework import Handle, NodeInfo
from mooring.framework.api_clients import ObjectPatch, VolumeWriter
from mooring.plugins.volume_binding.assume_cache import AssumeCache, AssumeError
from mooring.plugins.volume_binding.claims import SELECTED_NODE, is_bound
from mooring.plugins.volume_binding.matching import is_bound_to
from mooring.plugins.volume_binding.volume_index import reach_of
from mooring.plugins.volumes.csi_nodes import migrated_plugins
from mooring.plugins.volumes.csi_translation import MIGRATED, TranslationError, csi_affinity, volume_plugin

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


class VolumePair:
    """A volume and its claim; ``volume`` is the assumed version, then the written one."""

    __slots__ = ("claim", "volume")

    def __init__(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        self.volume = volume
        self.claim = claim


class PodVolumes:
    """The bindings of a pod on a node: pairs to bind, and claims to provision."""

    __slots__ = ("pairs", "to_make")

    def __init__(self, pairs: list[VolumePair], to_make: list[PersistentVolumeClaim]) -> None:
        self.pairs = pairs
        self.to_make = to_make

    def patches(self) -> list[ObjectPatch]:
        """Return the changes to write: volumes first, then claims."""
        return [volume_patch(pair.volume) for pair in self.pairs] + [claim_patch(claim) for claim in self.to_make]


def bound_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return a volume bound to a claim; the same object if it is bound already."""
    metadata, spec = volume.metadata, volume.spec
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in volume.annotations:
        metadata = msgspec.structs.replace(metadata, annotations={**volume.annotations, BOUND_BY_CONTROLLER: "yes"})
    ref = spec.claim_ref
    if ref is None or (ref.name, ref.namespace, ref.uid) != (claim.name, claim.namespace, claim.uid):
        spec = msgspec.structs.replace(spec, claim_ref=_reference(claim))
    if metadata is volume.metadata and spec is volume.spec:
        return volume
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec)


def claim_for_node(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """Return a claim with a selected node."""
    annotations = {**claim.annotations, SELECTED_NODE: node_name}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    return ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        resource_version=claim.metadata.resource_version,
    )


def volume_patch(volume: PersistentVolume) -> ObjectPatch:
    """Return the patch from a stored volume to the assumed one."""
    metadata: dict[str, object] = {"resourceVersion": volume.metadata.resource_version}
    if BOUND_BY_CONTROLLER in volume.annotations:
        metadata["annotations"] = {BOUND_BY_CONTROLLER: volume.annotations[BOUND_BY_CONTROLLER]}
    body = {"metadata": metadata, "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}}
    return ObjectPatch(PersistentVolume, volume.name, "", body)


def claim_patch(claim: PersistentVolumeClaim) -> ObjectPatch:
    """Return the patch that sets the selected node of a claim."""
    annotations = {SELECTED_NODE: claim.annotations[SELECTED_NODE]}
    body = {"metadata": {"resourceVersion": claim.metadata.resource_version, "annotations": annotations}}
    return ObjectPatch(PersistentVolumeClaim, claim.name, claim.namespace, body)


class Assumptions:
    """Assumes the changes to volumes and claims of a pod's placement, and undoes them."""

    def __init__(self, volumes: AssumeCache[PersistentVolume], claims: AssumeCache[PersistentVolumeClaim]) -> None:
        self.volumes = volumes
        self.claims = claims

    def assume(
        self,
        pairs: list[tuple[PersistentVolume, PersistentVolumeClaim]],
        to_make: list[PersistentVolumeClaim],
        node_name: str,
    ) -> PodVolumes:
        """Assume all changes or, with an AssumeError, none."""
        assumed = PodVolumes([], [])
        try:
            for volume, claim in pairs:
                bound = bound_volume(volume, claim)
                if bound is not volume:
                    self.volumes.assume(bound)
                assumed.pairs.append(VolumePair(bound, claim))
            for claim in to_make:
                chosen = claim_for_node(claim, node_name)
                self.claims.assume(chosen)
                assumed.to_make.append(chosen)
        except AssumeError:
            self.revert(assumed)
            raise
        return assumed

    def revert(self, assumed: PodVolumes) -> None:
        """Undo all assumptions."""
        self.revert_pairs(assumed.pairs)
        self.revert_claims(assumed.to_make)

    def revert_pairs(self, pairs: list[VolumePair]) -> None:
        """Undo the assumptions of some volumes."""
        for pair in pairs:
            self.volumes.restore(pair.volume)

    def revert_claims(self, claims: list[PersistentVolumeClaim]) -> None:
        """Undo the assumptions of some claims."""
        for claim in claims:
            self.claims.restore(claim)


_SECONDS_BETWEEN_LOOKS: Final = 1.0


class BindingError(Exception):
    """Binding the volumes failed: the pod must be scheduled again. The text is kube-scheduler's."""


class VolumeBinder:
    """Writes the assumed changes of one pod after the other."""

    def __init__(self, handle: Handle, assumptions: Assumptions) -> None:
        self._handle = handle
        self._assumptions = assumptions
        self._nodes = handle.lister(CSINode)

    async def bind(self, writer: VolumeWriter, pod: Pod, node_name: str, volumes: PodVolumes, timeout: float) -> None:
        """Write the changes and wait. Raises BindingError and the errors of the writer."""
        await self._write(writer, volumes)
        clock: Callable[[], float] = self._handle.clock
        deadline = clock() + timeout
        try:
            while True:
                await writer.pause(_SECONDS_BETWEEN_LOOKS)
                if self.is_done(writer, pod, node_name, volumes):
                    return
                if clock() >= deadline:
                    raise BindingError("context deadline exceeded")
        except BindingError as error:
            raise BindingError(f"binding volumes: {error}") from None

    async def _write(self, writer: VolumeWriter, volumes: PodVolumes) -> None:
        """Write the changes; if one is rejected, undo the assumptions that are not written yet."""
        pairs = claims = 0
        try:
            for pair in volumes.pairs:
                pair.volume = cast(PersistentVolume, await writer.patch(volume_patch(pair.volume)))
                pairs += 1
            for number, claim in enumerate(volumes.to_make):
                volumes.to_make[number] = cast(PersistentVolumeClaim, await writer.patch(claim_patch(claim)))
                claims += 1
        finally:
            self._assumptions.revert_pairs(volumes.pairs[pairs:])
            self._assumptions.revert_claims(volumes.to_make[claims:])

    def is_done(self, writer: VolumeWriter, pod: Pod, node_name: str, volumes: PodVolumes) -> bool:
        """Return whether everything is bound; raises BindingError if that is no longer possible."""
        row = self._handle.table.row_of.get(node_name)
        if row is None:
            raise BindingError(f'failed to get node "{node_name}": node "{node_name}" not found')
        node = self._handle.table.nodes[row]
        if not writer.exists(pod):
            raise BindingError(f'pod does not exist any more: pod "{pod.name}" not found')
        for pair in volumes.pairs:
            if not self._is_pair_bound(pair.volume, pair.claim, node):
                return False
        return all(self._is_made(claim, node) for claim in volumes.to_make)

    def _is_pair_bound(self, written: PersistentVolume, wanted: PersistentVolumeClaim, node: NodeInfo) -> bool:
        volume = self._assumptions.volumes.stored(written.name)
        if volume is None:
            raise BindingError(f'failed to check binding: persistentvolumes "{written.name}" not found')
        claim = self._assumptions.claims.stored(wanted.name, wanted.namespace)
        if claim is None:
            shown = f"{wanted.namespace}/{wanted.name}"
            raise BindingError(f'failed to check binding: persistentvolumeclaims "{shown}" not found')
        if _is_older(volume, written):
            return False
        self._check_reach(volume, node, "failed to translate pv to csi: ")
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingError(f'ClaimRef got reset for pv "{volume.name}"')
        return is_bound(claim)

    def _is_made(self, written: PersistentVolumeClaim, node: NodeInfo) -> bool:
        claim = self._assumptions.claims.stored(written.name, written.namespace)
        if claim is None:
            shown = f"{written.namespace}/{written.name}"
            raise BindingError(f'failed to check provisioning pvc: persistentvolumeclaims "{shown}" not found')
        if _is_older(claim, written):
            return False
        if not claim.annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.annotations.get(SELECTED_NODE, "") != node.name:  # the provisioner gave up
            raise BindingError(f'provisioning failed for PVC "{claim.name}"')
        if claim.spec.volume_name:
            volume = self._assumptions.volumes.stored(claim.spec.volume_name)
            if volume is None:  # not received yet
                return False
            self._check_reach(volume, node, "")
        return is_bound(claim)

    def _check_reach(self, volume: PersistentVolume, node: NodeInfo, prefix: str) -> None:
        csi_node = self._nodes.get(node.name)
        plugins = migrated_plugins(csi_node) if csi_node is not None else frozenset()
        affinity = volume.spec.node_affinity
        if volume_plugin(volume) in MIGRATED & plugins:
            try:
                affinity = csi_affinity(volume)
            except TranslationError as error:
                raise BindingError(f"{prefix}could not translate pv: {error}") from None
        reach = reach_of(affinity)
        if reach is not None and not reach.covers(node.labels):
            text = f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}"'
            raise BindingError(f"{text}: no matching NodeSelectorTerms")


def _is_older(item: PersistentVolume | PersistentVolumeClaim, than: PersistentVolume | PersistentVolumeClaim) -> bool:
    """Return whether the received version is older than the written one."""
    return int(item.metadata.resource_version or 0) < int(than.metadata.resource_version or 0)
