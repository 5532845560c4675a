"""RuntimeClasses."""

from typing import Any, Final

from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError, invalid
from mooring.apiserver.object_names import dns_label
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import Kind
from mooring.cluster.table_printer import age, columns

RUNTIME_CLASSES: Final = "runtimeclasses.node.k8s.io"


def _runtime_class_errors(document: Document) -> list[FieldError]:
    handler = document.get("handler", "")
    return [invalid("handler", handler, fault) for fault in dns_label(handler)]


def _runtime_class_row(document: Document, now: float) -> list[Any]:
    return [document["metadata"]["name"], document.get("handler", ""), age(document, now)]


RUNTIME_CLASS: Final = Kind(
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    validate=_runtime_class_errors,
    columns=columns("Name Handler Age", _runtime_class_row),
    unconditional_update=False,
)
