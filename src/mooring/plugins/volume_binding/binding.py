"""What is assumed of volumes and claims once a pod has its node, and how that is written and waited for."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.meta import ObjectReference
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.framework.api_clients import ObjectPatch
from mooring.plugins.volume_binding.assume_cache import AssumeCache, AssumeError
from mooring.plugins.volume_binding.claims import SELECTED_NODE
from mooring.plugins.volume_binding.matching import is_bound_to

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


class VolumePair:
    """A volume and the claim that gets it; ``volume`` is as it will be, then as it was written."""

    __slots__ = ("claim", "volume")

    def __init__(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        self.volume = volume
        self.claim = claim


class PodVolumes:
    """What placing a pod on a node asks for: pairs to bind, and claims to make volumes for."""

    __slots__ = ("pairs", "to_make")

    def __init__(self, pairs: list[VolumePair], to_make: list[PersistentVolumeClaim]) -> None:
        self.pairs = pairs
        self.to_make = to_make

    def patches(self) -> list[ObjectPatch]:
        """The changes to write: volumes first, then claims."""
        return [volume_patch(pair.volume) for pair in self.pairs] + [claim_patch(claim) for claim in self.to_make]


def bound_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """A volume as it is once it belongs to a claim; the same object if it does already."""
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
    """A claim once its volume is to be made for a node."""
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
    """The patch that makes a stored volume what is assumed of it."""
    metadata: dict[str, object] = {"resourceVersion": volume.metadata.resource_version}
    if BOUND_BY_CONTROLLER in volume.annotations:
        metadata["annotations"] = {BOUND_BY_CONTROLLER: volume.annotations[BOUND_BY_CONTROLLER]}
    body = {"metadata": metadata, "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}}
    return ObjectPatch(PersistentVolume, volume.name, "", body)


def claim_patch(claim: PersistentVolumeClaim) -> ObjectPatch:
    """The patch that says for which node a claim's volume is to be made."""
    annotations = {SELECTED_NODE: claim.annotations[SELECTED_NODE]}
    body = {"metadata": {"resourceVersion": claim.metadata.resource_version, "annotations": annotations}}
    return ObjectPatch(PersistentVolumeClaim, claim.name, claim.namespace, body)


class Assumptions:
    """Assumes what a pod's placement does to volumes and claims, and takes it back."""

    def __init__(self, volumes: AssumeCache[PersistentVolume], claims: AssumeCache[PersistentVolumeClaim]) -> None:
        self.volumes = volumes
        self.claims = claims

    def assume(
        self,
        pairs: list[tuple[PersistentVolume, PersistentVolumeClaim]],
        to_make: list[PersistentVolumeClaim],
        node_name: str,
    ) -> PodVolumes:
        """Assume all of it or, with an AssumeError, nothing."""
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
        """Take it back."""
        self.revert_pairs(assumed.pairs)
        self.revert_claims(assumed.to_make)

    def revert_pairs(self, pairs: list[VolumePair]) -> None:
        """Take back what was assumed of some volumes."""
        for pair in pairs:
            self.volumes.restore(pair.volume)

    def revert_claims(self, claims: list[PersistentVolumeClaim]) -> None:
        """Take back what was assumed of some claims."""
        for claim in claims:
            self.claims.restore(claim)
