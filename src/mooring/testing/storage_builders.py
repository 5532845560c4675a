"""Builders of storage objects for tests: claims, volumes, classes and CSI objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import msgspec

from mooring.api.affinity import NodeSelector
from mooring.api.meta import ObjectMeta, ObjectReference
from mooring.api.quantity import QuantityLike
from mooring.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolume,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from mooring.api.volumes import PersistentVolumeClaimSpec, VolumeResources
from mooring.testing.builders import Builder, Expression, SelectorLike, as_selector, node_term

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class ClaimBuilder(Builder[PersistentVolumeClaim]):
    """A builder of persistent volume claims."""

    __slots__ = ()

    def bound(self, volume: str) -> Self:
        """Bind the claim to a volume."""
        status = msgspec.structs.replace(self._object.status, phase="Bound")
        return self.spec(volume_name=volume).annotation({BIND_COMPLETED: "yes"})._with(status=status)

    def selected_node(self, node: str) -> Self:
        """Set the selected node, for which the volume is provisioned."""
        return self.annotation({SELECTED_NODE: node})

    def phase(self, phase: str) -> Self:
        """Set the phase: ``Pending``, ``Bound`` or ``Lost``."""
        return self._with(status=msgspec.structs.replace(self._object.status, phase=phase))

    def select(self, selector: SelectorLike) -> Self:
        """Set the volume selector."""
        return self.spec(selector=as_selector(selector))

    def spec(self, **changes: object) -> Self:
        """Change any field of the spec."""
        return self._with(spec=msgspec.structs.replace(self._object.spec, **changes))


def make_pvc(
    name: str,
    namespace: str = "default",
    *,
    storage_class: str | None = None,
    size: QuantityLike = "1Gi",
    access_modes: tuple[str, ...] = ("ReadWriteOnce",),
) -> ClaimBuilder:
    """Start an unbound claim."""
    spec = PersistentVolumeClaimSpec(
        storage_class_name=storage_class,
        access_modes=access_modes,
        resources=VolumeResources(requests={"storage": size}),
    )
    return ClaimBuilder(PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))


class VolumeBuilder(Builder[PersistentVolume]):
    """A builder of persistent volumes."""

    __slots__ = ()

    def claimed(self, claim: PersistentVolumeClaim, *, phase: str = "Bound") -> Self:
        """Bind the volume to a claim."""
        ref = ObjectReference(kind="PersistentVolumeClaim", namespace=claim.namespace, name=claim.name, uid=claim.uid)
        return self.spec(claim_ref=ref).phase(phase)

    def phase(self, phase: str) -> Self:
        """Set the phase: ``Available``, ``Bound`` or ``Released``."""
        return self._with(status=PersistentVolumeStatus(phase=phase))

    def csi(self, driver: str, handle: str) -> Self:
        """Set the CSI driver and the volume handle."""
        return self.spec(csi=CSIPersistentVolume(driver=driver, volume_handle=handle))

    def node_affinity(self, *expressions: Expression) -> Self:
        """Add a node affinity term."""
        old = self._object.spec.node_affinity
        terms = old.required.node_selector_terms if old is not None and old.required is not None else ()
        required = NodeSelector(node_selector_terms=(*terms, node_term(expressions)))
        return self.spec(node_affinity=VolumeNodeAffinity(required=required))

    def spec(self, **changes: object) -> Self:
        """Change any field of the spec."""
        return self._with(spec=msgspec.structs.replace(self._object.spec, **changes))


def make_pv(
    name: str,
    *,
    storage_class: str = "",
    size: QuantityLike = "1Gi",
    access_modes: tuple[str, ...] = ("ReadWriteOnce",),
) -> VolumeBuilder:
    """Start an available volume."""
    spec = PersistentVolumeSpec(storage_class_name=storage_class, access_modes=access_modes, capacity={"storage": size})
    status = PersistentVolumeStatus(phase="Available")
    return VolumeBuilder(PersistentVolume(metadata=ObjectMeta(name=name), spec=spec, status=status))


def make_storage_class(
    name: str,
    *,
    provisioner: str = "kubernetes.io/no-provisioner",
    wait: bool = True,
    topologies: tuple[Mapping[str, tuple[str, ...]], ...] = (),
) -> Builder[StorageClass]:
    """Start a storage class; ``wait`` selects WaitForFirstConsumer.

    Each of ``topologies`` is a term: label -> allowed values.
    """
    terms = tuple(
        TopologySelectorTerm(
            match_label_expressions=tuple(
                TopologySelectorLabelRequirement(key=key, values=values) for key, values in term.items()
            )
        )
        for term in topologies
    )
    mode = "WaitForFirstConsumer" if wait else "Immediate"
    return Builder(
        StorageClass(
            metadata=ObjectMeta(name=name),
            provisioner=provisioner,
            volume_binding_mode=mode,
            allowed_topologies=terms,
        )
    )


def make_csi_node(name: str, limits: Mapping[str, int | None]) -> Builder[CSINode]:
    """Start a CSINode; ``limits`` maps a driver to its volume limit (None: no limit)."""
    drivers = tuple(
        CSINodeDriver(
            name=driver,
            node_id=name,
            allocatable=VolumeNodeResources(count=limit) if limit is not None else None,
        )
        for driver, limit in limits.items()
    )
    return Builder(CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers)))


def make_csi_driver(name: str, *, storage_capacity: bool | None = None) -> Builder[CSIDriver]:
    """Start a CSI driver."""
    return Builder(CSIDriver(metadata=ObjectMeta(name=name), spec=CSIDriverSpec(storage_capacity=storage_capacity)))


def make_csi_capacity(
    name: str,
    *,
    storage_class: str,
    capacity: QuantityLike | None = None,
    maximum: QuantityLike | None = None,
    topology: SelectorLike = None,
    namespace: str = "default",
) -> Builder[CSIStorageCapacity]:
    """Start a CSIStorageCapacity."""
    return Builder(
        CSIStorageCapacity(
            metadata=ObjectMeta(name=name, namespace=namespace),
            storage_class_name=storage_class,
            capacity=capacity,
            maximum_volume_size=maximum,
            node_topology=as_selector(topology),
        )
    )


def make_volume_attachment(name: str, *, attacher: str, node: str, volume: str) -> Builder[VolumeAttachment]:
    """Start a VolumeAttachment of a volume to a node."""
    source = VolumeAttachmentSource(persistent_volume_name=volume)
    return Builder(
        VolumeAttachment(
            metadata=ObjectMeta(name=name),
            spec=VolumeAttachmentSpec(attacher=attacher, node_name=node, source=source),
        )
    )
