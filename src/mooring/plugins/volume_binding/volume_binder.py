"""PreBind: write what was assumed of a pod's volumes, and wait until they are bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from mooring.api.pod import Pod
from mooring.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from mooring.framework import Handle, NodeInfo
from mooring.framework.api_clients import VolumeWriter
from mooring.plugins.csi_nodes import migrated_plugins
from mooring.plugins.csi_translation import MIGRATED, TranslationError, csi_affinity, volume_plugin
from mooring.plugins.volume_binding.binding import Assumptions, PodVolumes, claim_patch, volume_patch
from mooring.plugins.volume_binding.claims import SELECTED_NODE, is_bound
from mooring.plugins.volume_binding.reach import reach_of

_SECONDS_BETWEEN_LOOKS: Final = 1.0


class BindingError(Exception):
    """Binding the volumes failed: the pod must be scheduled again. The text is kube-scheduler's."""


class VolumeBinder:
    """Carries out what was assumed for one pod after the other."""

    def __init__(self, handle: Handle, assumptions: Assumptions) -> None:
        self._handle = handle
        self._assumptions = assumptions
        self._nodes = handle.lister(CSINode)

    async def bind(self, writer: VolumeWriter, pod: Pod, node_name: str, volumes: PodVolumes, timeout: float) -> None:
        """Write and wait; raises BindingError, or what the writer raises."""
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
        """Write the changes; if one is refused, what was not written yet is no longer assumed."""
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
        """Whether all is bound; raises BindingError if it cannot come to that any more."""
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
            if volume is None:  # not heard of yet
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
    """Whether what we have heard of is older than what we wrote."""
    return int(item.metadata.resource_version or 0) < int(than.metadata.resource_version or 0)
