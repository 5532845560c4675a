"""Values as Go prints them, for messages that quote what a client sent."""

from typing import Any


def go_map(value: Any) -> str:
    """A value as Go's `%v` shows it: `map[spec:map[replicas:3]]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_map(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_map, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
