"""JSON merge patches (RFC 7386): what is null goes, objects merge, the rest is replaced."""

from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch laid over it. Neither is touched."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result
