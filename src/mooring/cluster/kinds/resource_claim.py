"""Dynamic resource allocation: ResourceClaims and their templates, ResourceSlices and DeviceClasses."""

from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.resource_claims import set_claim_defaults
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import ALL_METADATA, Kind
from mooring.cluster.kinds.resource_claim_controller import ResourceClaimController
from mooring.cluster.selectors import field_reader
from mooring.cluster.table_printer import age, columns


def _set_resource_claim_defaults(document: Document) -> None:
    set_claim_defaults(document["spec"])


def _set_resource_claim_template_defaults(document: Document) -> None:
    set_claim_defaults(document["spec"].setdefault("spec", {}))


def _resource_claim_row(document: Document, now: float) -> list[Any]:
    status = document.get("status", {})
    words = ["deleted"] if document["metadata"].get("deletionTimestamp") else []
    if not status.get("allocation"):
        words = words or ["pending"]
    else:
        words += ["allocated"] + (["reserved"] if status.get("reservedFor") else [])
    return [document["metadata"]["name"], ",".join(words), age(document, now)]


def _resource_slice_row(document: Document, now: float) -> list[Any]:
    spec = document["spec"]
    pool = nested_field(spec, "pool", "name") or ""
    return [
        document["metadata"]["name"], spec.get("nodeName", ""), spec.get("driver", ""), pool, age(document, now)
    ]  # fmt: skip


_GROUP: Final = "resource.k8s.io"

RESOURCE_CLAIM: Final = Kind(
    Resource(_GROUP, "v1", "resourceclaims", "ResourceClaim", subresources=("status",)),
    set_defaults=_set_resource_claim_defaults,
    columns=columns("Name State Age", _resource_claim_row),
    controllers=(ResourceClaimController,),
    status_protects=ALL_METADATA,
    returns_deleted=True,
)
RESOURCE_CLAIM_TEMPLATE: Final = Kind(
    Resource(_GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    set_defaults=_set_resource_claim_template_defaults,
    returns_deleted=True,
)
RESOURCE_SLICE: Final = Kind(
    Resource(_GROUP, "v1", "resourceslices", "ResourceSlice", namespaced=False),
    columns=columns("Name Node Driver Pool Age", _resource_slice_row),
    fields={"spec.nodeName": field_reader("spec", "nodeName"), "spec.driver": field_reader("spec", "driver")},
    counts_generation=True,
    returns_deleted=True,
)
DEVICE_CLASS: Final = Kind(
    Resource(_GROUP, "v1", "deviceclasses", "DeviceClass", namespaced=False),
    counts_generation=True,
    returns_deleted=True,
)
