"""Adds the keys of mappings, which msgspec omits, to the paths of its errors."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from mooring.api.manifest_error import path_text
from mooring.api.yaml_nodes import Step

_AT: Final = re.compile(r"(?P<message>.*?)(?: - at `(?P<key>key` in `)?\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def complaint(error: msgspec.ValidationError, value: Any, cls: Any) -> tuple[str, str]:
    """Return the path of the field and the problem for an error of ``msgspec.convert(value, cls)``."""
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
    """Return the key of the mapping at some steps that causes the error."""
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
    """Return the value with only one key in the mapping at some steps."""
    if not steps:
        return {key: value[key]}
    first, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        return {**value, first: _only(value[first], rest, key)}
    return [_only(each, rest, key) if place == first else each for place, each in enumerate(value)]
