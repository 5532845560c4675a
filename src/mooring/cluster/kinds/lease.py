"""Leases."""

from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.field_errors import NEGATIVE, FieldError, invalid
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import Kind
from mooring.cluster.table_printer import age, columns


def _lease_errors(document: Document) -> list[FieldError]:
    spec = document.get("spec") or {}
    errors: list[FieldError] = []
    if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    if spec.get("leaseTransitions", 0) < 0:
        errors.append(invalid("spec.leaseTransitions", spec["leaseTransitions"], NEGATIVE))
    return errors


def _lease_row(document: Document, now: float) -> list[Any]:
    return [document["metadata"]["name"], nested_field(document, "spec", "holderIdentity") or "", age(document, now)]


LEASE: Final = Kind(
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    validate=_lease_errors,
    columns=columns("Name Holder Age", _lease_row),
    unconditional_update=False,
)
