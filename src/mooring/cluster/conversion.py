"""Conversion between API versions: of custom resources, and of events, which two groups serve."""

from typing import Any, Final

from mooring.apiserver.documents import Document, replaced
from mooring.cluster.api_resource import Resource
from mooring.cluster.store import Stored, encode

#: The fields of core events, and their names in events.k8s.io.
_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK: Final = {value: key for key, value in _NAMES.items()}


def convert(document: Document, resource: Resource) -> Document:
    """Return a stored document in the version of a resource."""
    if document["apiVersion"] == resource.group_version:
        return document
    if resource.stored_as == "events":
        return _renamed(document, _NAMES if resource.group else _BACK, resource.group_version)
    return replaced(document, apiVersion=resource.group_version)


def encode_as(stored: Stored, resource: Resource) -> bytes:
    """Return an object as JSON in the version of a resource. Reuses the encoded JSON if that is the stored version."""
    if stored.document["apiVersion"] == resource.group_version:
        return stored.encoded
    return encode(convert(stored.document, resource))


def _renamed(document: Document, names: dict[str, str], group_version: str) -> Document:
    fields: dict[str, Any] = {names.get(key, key): value for key, value in document.items()}
    fields["apiVersion"] = group_version
    if names is _NAMES:
        for key in ("reportingController", "reportingInstance"):
            if not fields.get(key, True):
                del fields[key]
    return fields
