"""JSON documents of objects. Stored documents are never changed.

Code that changes an object creates a new document that shares unchanged parts (`replaced`).
"""

import datetime
import functools
from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]


def replaced(document: Document, **parts: Any) -> Document:
    """Return the document with some fields replaced, or removed if the new value is None."""
    fresh = {**document, **parts}
    for key, value in parts.items():
        if value is None:
            del fresh[key]
    return fresh


def with_metadata(document: Document, **parts: Any) -> Document:
    """Return the document with some fields of its metadata replaced, or removed if the new value is None."""
    return {**document, "metadata": replaced(document.get("metadata") or {}, **parts)}


def nested_field(document: Any, *path: str) -> Any:
    """Return the value at a path, or None if a part of the path is missing."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document


def deep_copy(value: Any) -> Any:
    """Return a deep copy, for code that changes documents in place."""
    if isinstance(value, dict):
        return {key: deep_copy(each) for key, each in value.items()}
    return [deep_copy(each) for each in value] if isinstance(value, list) else value


def controller_of(document: Document) -> Document | None:
    """Return the owner reference of an object's controller, or None."""
    for each in document["metadata"].get("ownerReferences", ()):
        if each.get("controller"):
            return dict(each)
    return None


def condition(document: Document, kind: str) -> Document | None:
    """Return the condition of a type from the status, or None."""
    for each in nested_field(document, "status", "conditions") or ():
        if each.get("type") == kind:
            return dict(each)
    return None


def rfc3339(moment: float) -> str:
    """Format seconds since the epoch as Kubernetes does."""
    return _written_second(int(moment))


@functools.lru_cache(maxsize=64)
def _written_second(moment: int) -> str:
    # Many changes in the same second have the same timestamp.
    return datetime.datetime.fromtimestamp(moment, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: float) -> str:
    """Format seconds since the epoch with microseconds, as in leases and events."""
    return datetime.datetime.fromtimestamp(moment, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """Parse a timestamp."""
    return datetime.datetime.fromisoformat(text).timestamp()
