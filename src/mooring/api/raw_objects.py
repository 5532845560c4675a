"""Raw objects: the JSON text that an object was decoded from.

The structs have only the fields that a scheduler reads. Extenders get all fields, so the text can be stored with the
struct.
"""

from typing import Any

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod

_READ, _SHOWN = "json as read", "json as shown"


def keep_json(item: Pod | Node, text: bytes) -> None:
    """Store the text that an object was decoded from."""
    item.__dict__[_READ] = text


def whole_json(item: KubeObject) -> msgspec.Raw:
    """Return an object with all fields, without kind and apiVersion, as nested objects are encoded.

    Pods have no `managedFields`, which kube-scheduler drops too. If the text was not stored, the fields are those of
    the struct.
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
