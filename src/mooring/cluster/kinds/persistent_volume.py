"""PersistentVolumes and PersistentVolumeClaims. Their controller is in `volume_controller`."""

from typing import Any, Final

from mooring.api.quantity import parse_quantity
from mooring.apiserver.admission import default_storage_class
from mooring.apiserver.documents import Document, nested_field, rfc3339
from mooring.apiserver.field_errors import FieldError, forbidden_field, invalid, not_supported, required
from mooring.apiserver.field_rules import choice, immutable, label_selector
from mooring.apiserver.resource_amounts import amount_errors
from mooring.apiserver.scheduling_fields import node_selector_errors
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.volume_controller import STORAGE_CLASSES, EphemeralClaimController, VolumeController
from mooring.cluster.store import Store
from mooring.cluster.table_printer import UNSET, access_modes_text, age, columns

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SOURCELESS: Final = frozenset(
    {
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    }
)


def _set_persistent_volume_defaults(document: Document) -> None:
    document["status"].setdefault("phase", "Pending")
    document["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    document["spec"].setdefault("volumeMode", "Filesystem")
    if "hostPath" in document["spec"]:
        document["spec"]["hostPath"].setdefault("type", "")


def _prepare_volume(document: Document, _store: Store, now: float) -> None:
    document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": rfc3339(now)}


def _admit_volume(_store: Store, document: Document) -> None:
    _add_finalizer(document, "kubernetes.io/pv-protection")


def _volume_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes"))
    errors += [
        not_supported("spec.accessModes", each, _MODES) for each in spec.get("accessModes", ()) if each not in _MODES
    ]
    capacity = spec.get("capacity") or {}
    if not capacity:
        errors += [required("spec.capacity"), not_supported("spec.capacity", {}, ["storage"])]
    elif set(capacity) != {"storage"}:
        errors.append(not_supported("spec.capacity", sorted(capacity), ["storage"]))
    else:
        errors += amount_errors("storage", capacity["storage"], "spec.capacity[storage]")
        if capacity["storage"] == "0":
            errors.append(invalid("spec.capacity[storage]", "0", "must be greater than zero"))
    sources = [key for key in spec if key not in _SOURCELESS]
    if not sources:
        errors.append(required("spec", "must specify a volume type"))
    for extra in sources[1:]:
        errors.append(forbidden_field(f"spec.{extra}", "may not specify more than 1 volume type"))
    policies = ("Delete", "Recycle", "Retain")
    errors += choice(spec.get("persistentVolumeReclaimPolicy"), "spec.persistentVolumeReclaimPolicy", policies)
    affinity = nested_field(spec, "nodeAffinity", "required")
    if affinity is not None:
        errors += node_selector_errors(affinity, "spec.nodeAffinity.required")
    elif "local" in spec:
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return errors


def _volume_update_errors(new: Document, old: Document) -> list[FieldError]:

    def source(document: Document) -> Document:
        return {key: value for key, value in document["spec"].items() if key not in _SOURCELESS}

    errors: list[FieldError] = []
    if source(new) != source(old):
        detail = "spec.persistentvolumesource is immutable after creation"
        errors.append(forbidden_field("spec.persistentvolumesource", detail))
    errors += immutable(new["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode")
    if old["spec"].get("nodeAffinity"):
        errors += immutable(new["spec"].get("nodeAffinity"), old["spec"].get("nodeAffinity"), "spec.nodeAffinity")
    return errors


def _volume_row(document: Document, now: float) -> list[Any]:
    spec, status, metadata = document["spec"], document.get("status", {}), document["metadata"]
    claim = spec.get("claimRef")
    return [
        metadata["name"],
        nested_field(spec, "capacity", "storage") or "0",
        access_modes_text(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if metadata.get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        status.get("reason", ""),
        age(document, now),
        spec.get("volumeMode", UNSET),
    ]


def _set_persistent_volume_claim_defaults(document: Document) -> None:
    document["status"].setdefault("phase", "Pending")
    document["spec"].setdefault("volumeMode", "Filesystem")


def _admit_claim(store: Store, document: Document) -> None:
    _add_finalizer(document, "kubernetes.io/pvc-protection")
    if "storageClassName" in document["spec"]:
        return
    name = default_storage_class(each.document for each in store.objects(STORAGE_CLASSES))
    if name is not None:
        document["spec"]["storageClassName"] = name


def _claim_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes", "at least 1 access mode is required"))
    errors += [
        not_supported("spec.accessModes", each, _MODES) for each in spec.get("accessModes", ()) if each not in _MODES
    ]
    wanted = nested_field(spec, "resources", "requests", "storage")
    if wanted is None:
        errors.append(required("spec.resources[storage]"))
    else:
        errors += amount_errors("storage", wanted, "spec.resources[storage]")
    errors += label_selector(spec.get("selector"), "spec.selector")
    return errors + choice(spec.get("volumeMode"), "spec.volumeMode", ("Block", "Filesystem"))


def _claim_update_errors(new: Document, old: Document) -> list[FieldError]:
    """Return errors for changes other than binding the claim and increasing its size."""
    fresh, before = new["spec"], old["spec"]
    free = {"resources", "volumeAttributesClassName"} | ({"volumeName"} if not before.get("volumeName") else set())
    if not before.get("storageClassName"):
        free.add("storageClassName")
    if {k: v for k, v in fresh.items() if k not in free} != {k: v for k, v in before.items() if k not in free}:
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        return [forbidden_field("spec", detail)]

    new_size, old_size = (nested_field(each, "resources", "requests", "storage") or "0" for each in (fresh, before))
    if parse_quantity(old_size).exceeds(parse_quantity(new_size)):
        return [forbidden_field("spec.resources.requests.storage", "field can not be less than previous value")]
    if new_size != old_size and nested_field(old, "status", "phase") != "Bound":
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        return [forbidden_field("spec", detail)]
    return []


def _claim_row(document: Document, now: float) -> list[Any]:
    spec, status, metadata = document["spec"], document.get("status", {}), document["metadata"]
    bound = spec.get("volumeName", "")
    return [
        metadata["name"],
        "Terminating" if metadata.get("deletionTimestamp") else status.get("phase", ""),
        bound,
        (nested_field(status, "capacity", "storage") or "0") if bound else "",
        access_modes_text(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        age(document, now),
        spec.get("volumeMode", UNSET),
    ]


def _add_finalizer(document: Document, name: str) -> None:
    finalizers = document["metadata"].setdefault("finalizers", [])
    if name not in finalizers:
        finalizers.append(name)


PERSISTENT_VOLUME: Final = Kind(
    Resource(
        "",
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        subresources=("status",),
    ),
    set_defaults=_set_persistent_volume_defaults,
    prepare=_prepare_volume,
    admit=_admit_volume,
    validate=_volume_errors,
    validate_update=_volume_update_errors,
    columns=columns(
        "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason Age"
        " +VolumeMode",
        _volume_row,
    ),
    returns_deleted=True,
    controllers=(VolumeController,),
)
PERSISTENT_VOLUME_CLAIM: Final = Kind(
    Resource(
        "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",), subresources=("status",)
    ),
    set_defaults=_set_persistent_volume_claim_defaults,
    initial_status={"phase": "Pending"},
    admit=_admit_claim,
    validate=_claim_errors,
    validate_update=_claim_update_errors,
    columns=columns(
        "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age +VolumeMode", _claim_row
    ),
    returns_deleted=True,
    controllers=(EphemeralClaimController,),
)
