"""What msgspec complains about, said with the whole path: it leaves out the keys of mappings."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from mooring.api.manifest_error import path_text
from mooring.api.yaml_nodes import Step

_AT: Final = re.compile(r"(?P<message>.*?)(?: - at `(?P<key>key` in `)?\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def complaint(error: msgspec.ValidationError, value: Any, cls: Any) -> tuple[str, str]:
    """The path of the field and what is wrong with it, given what ``msgspec.convert(value, cls)`` raised."""
    parts = _AT.fullmatch(str(error))
    if parts is None:
        return "", str(error)
    steps: list[Step] = []
    for name, index in _STEP.findall(parts["path"] or ""):
        step: Step = name or (_wrong_key(error, value, cls, steps) if index == "..." else int(index))
        steps.append(step)
    message = parts["message"]
    return path_text(steps), f"{message} for a key" if parts["key"] else message


def _wrong_key(error: msgspec.ValidationError, value: Any, cls: Any, steps: list[Step]) -> str:
    """The key of the mapping at some steps without which there would be another complaint, or none."""
    mapping = value
    for step in steps:
        mapping = mapping[step]
    for key in mapping:
        try:
            msgspec.convert(_only(value, steps, key), cls)
        except msgspec.ValidationError as again:
            if str(again) == str(error):
                return str(key)
    return "..."


def _only(value: Any, steps: list[Step], key: object) -> Any:
    """The same value with one key alone in the mapping at some steps."""
    if not steps:
        return {key: value[key]}
    first, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        return {**value, first: _only(value[first], rest, key)}
    return [_only(each, rest, key) if place == first else each for place, each in enumerate(value)]
