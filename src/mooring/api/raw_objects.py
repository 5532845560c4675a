"""Whole objects: the JSON that an object was read from, for those who hand objects on to others.

The structs have only the fields that a scheduler reads. Whoever has to show an object to somebody else (an extender)
needs all of it, so a reader can be told to keep the text beside the struct.
"""

from typing import Any

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod

_READ, _SHOWN = "json as read", "json as shown"


def keep_json(item: Pod | Node, text: bytes) -> None:
    """Keep the text that an object was read from."""
    item.__dict__[_READ] = text


def whole_json(item: KubeObject) -> msgspec.Raw:
    """An object in full, as one inside another is written: without kind and version.

    Pods come without `managedFields`, which kube-scheduler drops too. Where the text was not kept, it is what the
    struct has.
    """
    beside: dict[str, Any] = getattr(item, "__dict__", {})
    shown: msgspec.Raw | None = beside.get(_SHOWN)
    if shown is None:
        text = beside.get(_READ)
        fields: dict[str, Any] = msgspec.json.decode(text if text is not None else msgspec.json.encode(item))
        fields.pop("kind", None)
        fields.pop("apiVersion", None)
        if isinstance(item, Pod):
            fields.get("metadata", {}).pop("managedFields", None)
        shown = beside[_SHOWN] = msgspec.Raw(msgspec.json.encode(fields))
    return shown
