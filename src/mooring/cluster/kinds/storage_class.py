"""StorageClasses, CSI objects, VolumeAttachments and VolumeAttributesClasses."""

from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.field_errors import FieldError, required
from mooring.apiserver.field_rules import choice, immutable
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import ALL_METADATA, Kind
from mooring.cluster.table_printer import NONE, UNSET, age, columns


def _set_storage_class_defaults(document: Document) -> None:
    document.setdefault("reclaimPolicy", "Delete")
    document.setdefault("volumeBindingMode", "Immediate")


def _storage_class_errors(document: Document) -> list[FieldError]:
    errors: list[FieldError] = [] if document.get("provisioner") else [required("provisioner")]
    errors += choice(document.get("reclaimPolicy"), "reclaimPolicy", ("Delete", "Retain"))
    modes = ("Immediate", "WaitForFirstConsumer")
    return errors + choice(document.get("volumeBindingMode"), "volumeBindingMode", modes)


def _storage_class_update_errors(new: Document, old: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        errors += immutable(new.get(key), old.get(key), key)
    return errors


def _storage_class_row(document: Document, now: float) -> list[Any]:
    metadata = document["metadata"]
    default = metadata.get("annotations", {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        metadata["name"] + (" (default)" if default else ""),
        document.get("provisioner", ""),
        document.get("reclaimPolicy", "Delete"),
        document.get("volumeBindingMode", "Immediate"),
        document.get("allowVolumeExpansion", False),
        age(document, now),
    ]


def _set_csi_driver_defaults(document: Document) -> None:
    spec = document["spec"]
    for key, value in (
        ("attachRequired", True),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("podInfoOnMount", False),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
        ("storageCapacity", False),
    ):
        spec.setdefault(key, value)
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def _csi_driver_row(document: Document, now: float) -> list[Any]:
    spec = document["spec"]
    tokens = ",".join(each.get("audience", "") for each in spec["tokenRequests"]) if "tokenRequests" in spec else UNSET
    return [
        document["metadata"]["name"],
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        tokens,
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes", ())) or NONE,
        age(document, now),
    ]


def _csi_node_row(document: Document, now: float) -> list[Any]:
    return [document["metadata"]["name"], len(document["spec"].get("drivers", ())), age(document, now)]


def _csi_storage_capacity_row(document: Document, _now: float) -> list[Any]:
    return [document["metadata"]["name"], document.get("storageClassName", ""), document.get("capacity", UNSET)]


def _volume_attachment_row(document: Document, now: float) -> list[Any]:
    spec = document["spec"]
    return [
        document["metadata"]["name"],
        spec.get("attacher", ""),
        nested_field(spec, "source", "persistentVolumeName") or "",
        spec.get("nodeName", ""),
        nested_field(document, "status", "attached") or False,
        age(document, now),
    ]


def _volume_attributes_class_row(document: Document, now: float) -> list[Any]:
    return [document["metadata"]["name"], document.get("driverName", ""), age(document, now)]


_GROUP: Final = "storage.k8s.io"

STORAGE_CLASS: Final = Kind(
    Resource(_GROUP, "v1", "storageclasses", "StorageClass", namespaced=False, short_names=("sc",)),
    set_defaults=_set_storage_class_defaults,
    validate=_storage_class_errors,
    validate_update=_storage_class_update_errors,
    columns=columns("Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age", _storage_class_row),
    returns_deleted=True,
)
CSI_DRIVER: Final = Kind(
    Resource(_GROUP, "v1", "csidrivers", "CSIDriver", namespaced=False),
    set_defaults=_set_csi_driver_defaults,
    columns=columns(
        "Name AttachRequired:boolean PodInfoOnMount:boolean StorageCapacity:boolean TokenRequests"
        " RequiresRepublish:boolean Modes Age",
        _csi_driver_row,
    ),
    unconditional_update=False,
    returns_deleted=True,
)
CSI_NODE: Final = Kind(
    Resource(_GROUP, "v1", "csinodes", "CSINode", namespaced=False),
    columns=columns("Name Drivers:integer Age", _csi_node_row),
    unconditional_update=False,
    returns_deleted=True,
)
CSI_STORAGE_CAPACITY: Final = Kind(
    Resource(_GROUP, "v1", "csistoragecapacities", "CSIStorageCapacity"),
    columns=columns("Name StorageClassName Capacity", _csi_storage_capacity_row),
    unconditional_update=False,
)
VOLUME_ATTACHMENT: Final = Kind(
    Resource(_GROUP, "v1", "volumeattachments", "VolumeAttachment", namespaced=False, subresources=("status",)),
    columns=columns("Name Attacher PV Node Attached:boolean Age", _volume_attachment_row),
    status_protects=ALL_METADATA,
    unconditional_update=False,
    returns_deleted=True,
)
VOLUME_ATTRIBUTES_CLASS: Final = Kind(
    Resource(_GROUP, "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False, short_names=("vac",)),
    columns=columns("Name DriverName Age", _volume_attributes_class_row),
    returns_deleted=True,
)
