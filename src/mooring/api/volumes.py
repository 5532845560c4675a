"""Volume sources of pods and persistent volumes that a scheduler or CSI migration reads."""

from typing import Final

from msgspec import field
from msgspec.structs import astuple

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
    """A local disk of a node."""

    path: str = ""
    fs_type: str | None = None


class NFS(Model, kw_only=True):
    """A directory of an NFS server."""

    server: str = ""
    path: str = ""
    read_only: bool = False


class EmptyDir(Model, kw_only=True):
    """Scratch space with the lifetime of the pod."""

    medium: str = ""
    size_limit: QuantityLike | None = None


class CSIVolume(Model, kw_only=True):
    """An inline CSI volume of a pod."""

    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] = field(default_factory=dict)


class ImageVolume(Model, kw_only=True):
    """The content of a container image."""

    reference: str = ""
    pull_policy: str = ""


class PersistentVolumeClaimVolume(Model, kw_only=True):
    """The volume of a claim."""

    claim_name: str = ""
    read_only: bool = False


class VolumeResources(Model, kw_only=True):
    """The requested storage of a claim."""

    requests: dict[str, QuantityLike] = field(default_factory=dict)
    limits: dict[str, QuantityLike] = field(default_factory=dict)


class TypedObjectReference(Model, kw_only=True):
    """The data source of a claim."""

    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class PersistentVolumeClaimSpec(Model, kw_only=True):
    """The specification of a claim."""

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
    """The claim template of an ephemeral volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(Model, kw_only=True):
    """An ephemeral volume. Its claim is named after the pod and the volume."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(Model, kw_only=True):
    """A volume of a pod: a name and one source. Sources that a scheduler does not read are not decoded."""

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


#: The number of sources in ``Volume``.
_SOURCES: Final = len(Volume.__struct_fields__) - 1


def with_source(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """Return the volumes with a source that schedulers read; the same tuple if all of them have one."""
    kept = [volume for volume in volumes if astuple(volume).count(None) < _SOURCES]
    return volumes if len(kept) == len(volumes) else tuple(kept)
