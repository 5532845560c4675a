"""Locks of nodes: an annotation that says since when a device plugin has been assigning devices to a pod.

While a node is locked, no other pod gets devices of the same kind there. Locks expire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from mooring.api.meta import parse_time

#: Older locks do not count.
EXPIRY_SECONDS: Final = 300.0


class NodeLock(NamedTuple):
    """A lock that a pod needs: the annotation, and whether it stays for the device plugin to remove it."""

    name: str
    stays: bool


def locked(annotations: Mapping[str, str], name: str, now: float) -> str:
    """Return why a node cannot be locked; empty if it can. A lock whose time cannot be parsed counts forever."""
    text = annotations.get(name)
    if text is None:
        return ""
    try:
        since = parse_time(text)
    except ValueError:
        return f"its annotation {name} is not a time"
    return "" if now - since > EXPIRY_SECONDS else f"it has been locked within 5 minutes (annotation {name})"
