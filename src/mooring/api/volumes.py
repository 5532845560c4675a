"""Volumes as pods and persistent volumes name them: every source that a scheduler or CSI migration looks into."""

from msgspec import field

from mooring.api.meta import LabelSelector, Model, ObjectMeta
from mooring.api.quantity import QuantityLike


class GCEPersistentDisk(Model, kw_only=True):
    """A Google Compute Engine disk."""

    pd_name: str = ""
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AWSElasticBlockStore(Model, kw_only=True):
    """An AWS EBS volume."""

    volume_id: str = ""
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AzureDisk(Model, kw_only=True):
    """An Azure data disk."""

    disk_name: str = ""
    disk_uri: str = ""
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class AzureFile(Model, kw_only=True):
    """An Azure file share; only a persistent volume has `secret_namespace`."""

    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False
    secret_namespace: str | None = None


class Cinder(Model, kw_only=True):
    """An OpenStack Cinder volume."""

    volume_id: str = ""
    fs_type: str = ""
    read_only: bool = False


class RBD(Model, kw_only=True):
    """A Ceph block device: an image in a pool behind some monitors."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    fs_type: str = ""
    read_only: bool = False


class ISCSI(Model, kw_only=True):
    """An iSCSI LUN."""

    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    portals: tuple[str, ...] = ()
    fs_type: str = ""
    read_only: bool = False


class PortworxVolume(Model, kw_only=True):
    """A Portworx volume."""

    volume_id: str = ""
    fs_type: str = ""
    read_only: bool = False


class VsphereVolume(Model, kw_only=True):
    """A vSphere virtual disk."""

    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = ""


class HostPath(Model, kw_only=True):
    """A path on the node."""

    path: str = ""
    type: str | None = None


class LocalVolume(Model, kw_only=True):
    """A disk attached to one node for good."""

    path: str = ""
    fs_type: str | None = None


class NFS(Model, kw_only=True):
    """A directory of an NFS server."""

    server: str = ""
    path: str = ""
    read_only: bool = False


class EmptyDir(Model, kw_only=True):
    """Scratch space that lives as long as the pod."""

    medium: str = ""
    size_limit: QuantityLike | None = None


class CSIVolume(Model, kw_only=True):
    """A CSI volume that the pod describes itself."""

    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] = field(default_factory=dict)


class ImageVolume(Model, kw_only=True):
    """The content of a container image."""

    reference: str = ""
    pull_policy: str = ""


class PersistentVolumeClaimVolume(Model, kw_only=True):
    """Whatever volume the named claim is bound to."""

    claim_name: str = ""
    read_only: bool = False


class VolumeResources(Model, kw_only=True):
    """How much storage a claim asks for."""

    requests: dict[str, QuantityLike] = field(default_factory=dict)
    limits: dict[str, QuantityLike] = field(default_factory=dict)


class TypedObjectReference(Model, kw_only=True):
    """What a claim's volume is to be filled from."""

    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class PersistentVolumeClaimSpec(Model, kw_only=True):
    """What kind of volume a claim wants, and which one it got."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Model, kw_only=True):
    """The claim that an ephemeral volume has made for it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(Model, kw_only=True):
    """A volume with a claim of its own, named after pod and volume."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(Model, kw_only=True):
    """A pod's volume: a name and one source. Sources no scheduler looks into are not kept."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    csi: CSIVolume | None = None
    image: ImageVolume | None = None
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
    nfs: NFS | None = None
    empty_dir: EmptyDir | None = None
