"""JSON merge patches (RFC 7386): null removes a field, objects are merged, other values are replaced."""

from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target merged with the patch. Neither is changed."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result
