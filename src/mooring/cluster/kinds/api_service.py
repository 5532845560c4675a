"""APIServices. They are stored, and no request is forwarded to an extension API server."""

from typing import Any, Final

from mooring.apiserver.documents import Document, condition, nested_field
from mooring.apiserver.field_errors import FieldError, invalid
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import ALL_METADATA, Kind, stored_only_warning
from mooring.cluster.table_printer import age, columns


def _set_defaults(document: Document) -> None:
    service = nested_field(document, "spec", "service")
    if service is not None:
        service.setdefault("port", 443)


def _errors(document: Document) -> list[FieldError]:
    name, spec = document["metadata"].get("name", ""), document["spec"]
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
    if name == wanted:
        return []
    return [invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')]


def _row(document: Document, now: float) -> list[Any]:
    service = nested_field(document, "spec", "service")
    available = condition(document, "Available") or {}
    status = str(available.get("status", "Unknown"))
    if status not in {"True", "Unknown"}:
        status += f" ({available.get('reason', '')})"
    place = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    return [document["metadata"]["name"], place, status, age(document, now)]


API_SERVICE: Final = Kind(
    Resource(
        "apiregistration.k8s.io",
        "v1",
        "apiservices",
        "APIService",
        namespaced=False,
        categories=("api-extensions",),
        subresources=("status",),
    ),
    set_defaults=_set_defaults,
    validate=_errors,
    status_protects=ALL_METADATA,
    warnings=stored_only_warning("forwards no requests to extension API servers"),
    columns=columns("Name Service Available Age", _row),
)
