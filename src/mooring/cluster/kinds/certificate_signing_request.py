"""CertificateSigningRequests. They are stored and can be approved, and nothing signs them."""

from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.field_errors import FieldError, required
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import Kind, stored_only_warning
from mooring.cluster.selectors import field_reader
from mooring.cluster.table_printer import NONE, age, columns, human_duration


def _set_defaults(document: Document) -> None:
    spec = document["spec"]
    if not spec.get("usages"):
        spec["usages"] = ["digital signature", "key encipherment"]


def _errors(document: Document) -> list[FieldError]:
    return [required(f"spec.{key}") for key in ("request", "signerName") if not document["spec"].get(key)]


def _row(document: Document, now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    words = [each["type"] for each in status.get("conditions", ())]
    if status.get("certificate"):
        words.append("Issued")
    seconds = spec.get("expirationSeconds")
    return [
        document["metadata"]["name"],
        age(document, now),
        spec.get("signerName") or NONE,
        nested_field(spec, "username") or "",
        human_duration(seconds) if seconds else NONE,
        ",".join(words) or "Pending",
    ]


CERTIFICATE_SIGNING_REQUEST: Final = Kind(
    Resource(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        namespaced=False,
        short_names=("csr",),
        subresources=("approval", "status"),
    ),
    set_defaults=_set_defaults,
    validate=_errors,
    warnings=stored_only_warning("signs no certificates"),
    columns=columns("Name Age SignerName Requestor RequestedDuration Condition", _row),
    fields={"spec.signerName": field_reader("spec", "signerName")},
)
