"""Fields that a JSON text has twice, which a decoder would otherwise silently make one."""

import json
from collections import Counter
from typing import Any

from mooring.apiserver.documents import Document


class _Marked(dict[str, Any]):
    """An object that remembers which of its fields came more than once."""

    doubled: tuple[str, ...] = ()


def _pairs(pairs: list[tuple[str, Any]]) -> Document:
    found = _Marked(pairs)
    if len(found) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        found.doubled = tuple(key for key, count in counts.items() if count > 1)
    return found


def duplicate_fields(body: bytes) -> list[str]:
    """The paths of fields that occur more than once."""
    found: list[str] = []
    _collect(json.loads(body, object_pairs_hook=_pairs), "", found)
    return found


def _collect(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, dict):
        found.extend(f"{path}.{key}" if path else key for key in getattr(value, "doubled", ()))
        for key, each in value.items():
            if isinstance(each, (dict, list)):
                _collect(each, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _collect(each, f"{path}[{index}]", found)
