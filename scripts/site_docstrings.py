"""An extension of griffe, which reads the source for the reference, with support for Mooring's documentation style.

Attributes are documented by comments `#: ...` before them, as in Sphinx, and examples are doctests. The fields of
Kubernetes objects become a table.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^[ ]*>>> .*\n?(?:^[ ]*(?:\.\.\.|>>>).*\n?)*)+", re.MULTILINE)

_MODELS = ("Model", "KubeObject", "NamespacedObject")


class MooringDocstrings(griffe.Extension):
    """An extension that reads comments before attributes as docstrings, and shows doctests as Python code."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Read the comment before an attribute."""
        if attr.docstring is None and attr.lineno is not None:
            text = comment_before(attr.lines_collection[attr.filepath], attr.lineno)  # type: ignore[index]
            if text:
                attr.docstring = griffe.Docstring(text, lineno=attr.lineno, parent=attr)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """List the fields of a Kubernetes object."""
        if any(str(base) in _MODELS for base in cls.bases):
            rows = [f"| `{each.name}` | `{each.annotation}` |" for each in cls.attributes.values() if is_field(each)]
            if rows and cls.docstring is not None:
                cls.docstring.value += "\n".join(["\n", "| Field | Type |", "|---|---|", *rows, ""])

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Show doctests as code."""
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = _DOCTEST.sub(_fenced, obj.docstring.value)


def is_field(attribute: griffe.Attribute) -> bool:
    """Return whether an attribute of a Kubernetes object is a field of the object."""
    return (
        attribute.annotation is not None and "property" not in attribute.labels and not attribute.name.startswith("_")
    )


def comment_before(lines: list[str], line: int) -> str:
    """Return the comment `#: ...` that ends above a line."""
    found: list[str] = []
    place = line - 2
    while place >= 0 and lines[place].strip().startswith("#:"):
        found.append(lines[place].strip().removeprefix("#:").strip())
        place -= 1
    return " ".join(reversed(found))


def _fenced(match: re.Match[str]) -> str:
    code = [re.sub(r"^[ ]*(?:>>>|\.\.\.) ?", "", line) for line in match[0].rstrip().splitlines()]
    return "\n".join(["```python", *code, "```", ""])
