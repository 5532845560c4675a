"""Errors in manifests and their messages."""

from collections.abc import Iterable
from typing import Final

from mooring.api.yaml_nodes import Step

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
