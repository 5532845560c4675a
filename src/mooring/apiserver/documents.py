"""Objects as the embedded cluster keeps them: plain JSON documents, never changed once stored.

Whoever wants to change one makes a new document that shares what stays the same (`replaced`).
"""

import datetime
import functools
from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]


def replaced(document: Document, **parts: Any) -> Document:
    """The document with some fields set anew, or dropped where the new value is None."""
    fresh = {**document, **parts}
    for key, value in parts.items():
        if value is None:
            del fresh[key]
    return fresh


def with_metadata(document: Document, **parts: Any) -> Document:
    """The document with some fields of its metadata set anew, or dropped where the new value is None."""
    return {**document, "metadata": replaced(document.get("metadata") or {}, **parts)}


def look(document: Any, *path: str) -> Any:
    """What stands at a path, or None where any part of it is missing."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document


def copied(value: Any) -> Any:
    """Return a deep copy in which nothing is shared, for code that changes documents in place."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


def controller_of(document: Document) -> Document | None:
    """The owner reference of the object's controller, if it has one."""
    for each in document["metadata"].get("ownerReferences", ()):
        if each.get("controller"):
            return dict(each)
    return None


def condition(document: Document, kind: str) -> Document | None:
    """A condition of the object's status, by type."""
    for each in look(document, "status", "conditions") or ():
        if each.get("type") == kind:
            return dict(each)
    return None


def rfc3339(moment: float) -> str:
    """A point in time (seconds since 1970) as Kubernetes writes it."""
    return _written_second(int(moment))


@functools.lru_cache(maxsize=64)
def _written_second(moment: int) -> str:
    # In one second much happens, and all of it bears the same time.
    return datetime.datetime.fromtimestamp(moment, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: float) -> str:
    """A point in time with microseconds, as leases and events have it."""
    return datetime.datetime.fromtimestamp(moment, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """Read a timestamp back."""
    return datetime.datetime.fromisoformat(text).timestamp()
