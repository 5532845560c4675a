"""Errors in decoded objects: the field, the problem and the remedy.

msgspec omits the keys of mappings from the paths of its errors; `locate_error` adds them.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.yaml_nodes import Step

_ERROR: Final = re.compile(r"(?P<message>.*?)(?: - at `(?P<key>key` in `)?\$(?P<path>[^`]*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<got>[^`]*)`")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_NAMES: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
    "dict": "a mapping",
    "list": "a list",
}


class Fault(NamedTuple):
    """An error in a field, and the remedy."""

    steps: tuple[Step, ...]
    problem: str
    remedy: str = ""


class ConversionError(ValueError):
    """A value that does not match its type; `fault` has the place and the reason."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.problem)
        self.fault = fault


class ManifestError(ValueError):
    """An invalid manifest: the place, the problem and the remedy, as one line."""

    def __init__(
        self,
        problem: str,
        *,
        source: str,
        document: int | None = None,
        line: int | None = None,
        object_name: str = "",
        path: str = "",
        remedy: str = "",
    ) -> None:
        self.problem = problem
        self.source = source
        self.document = document
        self.line = line
        self.object_name = object_name
        self.path = path
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        where = self.source
        if self.document is not None:
            where += f", document {self.document}"
        if self.line is not None:
            where += f", line {self.line}"
        parts = [where, self.object_name, self.path, self.problem]
        text = ": ".join(part for part in parts if part)
        return f"{text}; {self.remedy}" if self.remedy else text


def path_text(steps: Iterable[Step]) -> str:
    """Return a field path such as `spec.containers[0].image`, with unusual keys in brackets."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier() or (step.isascii() and step.replace("-", "").isalnum()):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def type_problem(expected: str, got: str, value: object) -> tuple[str, str]:
    """Return the problem and the remedy for a value of the wrong type; type names are msgspec's."""
    if expected.startswith("int | float | str"):
        return "must be a quantity", "write a number with an optional suffix, such as 250m or 1.5Gi"
    wanted = " or ".join(dict.fromkeys(_NAMES.get(each, each) for each in expected.split(" | ") if each != "null"))
    shown = repr(value) if isinstance(value, str | int | float) else ""
    if isinstance(value, bool):
        shown = "true" if value else "false"
    if len(shown) > 60:
        shown = shown[:57] + "..."
    actual = f"{_NAMES.get(got, got)} ({shown})" if shown and got not in {"bool"} else shown or _NAMES.get(got, got)
    remedy = "put the value in quotes" if expected == "str" and got in {"int", "float", "bool"} else ""
    return f"must be {wanted}, not {actual}", remedy


def describe_error(error: msgspec.ValidationError, value: Any, cls: Any) -> Fault:
    """Describe an error of `msgspec.convert(value, cls)` in the terms of manifests."""
    steps, message = locate_error(error, value, cls)
    types = _EXPECTED.search(message)
    if types is None:
        return Fault(steps, message)
    for step in steps:
        value = value[step]
    return Fault(steps, *type_problem(types["expected"], types["got"], value))


def locate_error(error: msgspec.ValidationError, value: Any, cls: Any) -> tuple[tuple[Step, ...], str]:
    """Return the path of the field and msgspec's message for an error of `msgspec.convert(value, cls)`."""
    parts = _ERROR.fullmatch(str(error))
    if parts is None:
        return (), str(error)
    steps: tuple[Step, ...] = ()
    for name, index in _STEP.findall(parts["path"] or ""):
        if index == "...":
            key = _wrong_key(error, value, cls, steps)
            if key is None:
                break
            value = _with_one_key(value, steps, key)
            steps = (*steps, key)
        else:
            steps = (*steps, name or int(index))
    return steps, f"{parts['message']} for a key" if parts["key"] else parts["message"]


def _wrong_key(error: msgspec.ValidationError, value: Any, cls: Any, steps: tuple[Step, ...]) -> Step | None:
    """Return the key that causes the error, of the mapping at some steps."""
    mapping = value
    for step in steps:
        mapping = mapping[step]
    for key in mapping:
        try:
            msgspec.convert(_with_one_key(value, steps, key), cls)
        except msgspec.ValidationError as repeated:
            if str(repeated) == str(error):
                found: Step = key
                return found
    return None


def _with_one_key(value: Any, steps: tuple[Step, ...], key: Step) -> Any:
    """Return the value with only one key in the mapping at some steps."""
    if not steps:
        return {key: value[key]}
    first, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        return {**value, first: _with_one_key(value[first], rest, key)}
    return [_with_one_key(each, rest, key) if index == first else each for index, each in enumerate(value)]
