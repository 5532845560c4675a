"""Persistent volumes, claims, storage classes, CSI drivers and attachments."""

from msgspec import field

from mooring.api.affinity import NodeSelector
from mooring.api.meta import KubeObject, LabelSelector, Model, NamespacedObject, ObjectReference
from mooring.api.quantity import QuantityLike
from mooring.api.volumes import (
    ISCSI,
    NFS,
    RBD,
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    GCEPersistentDisk,
    HostPath,
    LocalVolume,
    PersistentVolumeClaimSpec,
    PortworxVolume,
    VsphereVolume,
)


class CSIPersistentVolume(Model, kw_only=True):
    """A CSI volume."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] = field(default_factory=dict)


class VolumeNodeAffinity(Model, kw_only=True):
    """The node affinity of a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Model, kw_only=True):
    """The specification of a persistent volume."""

    capacity: dict[str, QuantityLike] = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    mount_options: tuple[str, ...] = ()
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    rbd: RBD | None = None
    iscsi: ISCSI | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None
    host_path: HostPath | None = None
    local: LocalVolume | None = None
    nfs: NFS | None = None


class PersistentVolumeStatus(Model, kw_only=True):
    """The phase of a persistent volume."""

    phase: str = ""
    message: str = ""
    reason: str = ""


class PersistentVolume(KubeObject, kw_only=True):
    """A persistent volume."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "PersistentVolume")
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(Model, kw_only=True):
    """The phase and the capacity of a claim."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, QuantityLike] = field(default_factory=dict)
    allocated_resources: dict[str, QuantityLike] = field(default_factory=dict)
    current_volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(NamespacedObject, kw_only=True):
    """A persistent volume claim."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "PersistentVolumeClaim")
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologySelectorLabelRequirement(Model, kw_only=True):
    """A node label and its allowed values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Model, kw_only=True):
    """Labels that must all match for provisioning."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(KubeObject, kw_only=True):
    """A storage class."""

    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "StorageClass")
    provisioner: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    reclaim_policy: str | None = None
    mount_options: tuple[str, ...] = ()
    allow_volume_expansion: bool | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Model, kw_only=True):
    """The volume limit of a driver on a node; absent means no limit."""

    count: int | None = None


class CSINodeDriver(Model, kw_only=True):
    """A CSI driver on one node."""

    name: str = ""
    node_id: str = ""
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Model, kw_only=True):
    """The CSI drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeObject, kw_only=True):
    """The CSI drivers of the node of the same name."""

    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "CSINode")
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Model, kw_only=True):
    """The specification of a CSI driver."""

    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    volume_lifecycle_modes: tuple[str, ...] = ()
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(KubeObject, kw_only=True):
    """A CSI driver."""

    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "CSIDriver")
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(NamespacedObject, kw_only=True):
    """The available capacity of a storage class in one topology segment."""

    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "CSIStorageCapacity")
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: QuantityLike | None = None
    maximum_volume_size: QuantityLike | None = None


class VolumeAttachmentSource(Model, kw_only=True):
    """The volume to attach."""

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Model, kw_only=True):
    """The attacher, the volume and the node."""

    attacher: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = ""


class VolumeAttachmentStatus(Model, kw_only=True):
    """The status of a volume attachment."""

    attached: bool = False


class VolumeAttachment(KubeObject, kw_only=True):
    """A volume attachment."""

    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "VolumeAttachment")
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
