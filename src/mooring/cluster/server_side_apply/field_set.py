"""Sets of fields, as in `metadata.managedFields`.

A set is a tree. Each step is a string: `f:replicas` for a field, `k:{"name":"web"}` for the list element with that
key, and `v:"x"` for an element of a list that is a set.
"""

from collections.abc import Iterator
from typing import Any

import msgspec


class FieldSet:
    """A node of the tree: whether its own path is a member, and the sets below."""

    __slots__ = ("children", "member")

    def __init__(self, *, member: bool = False) -> None:
        self.member = member
        self.children: dict[str, FieldSet] = {}

    @classmethod
    def decode(cls, fields: dict[str, Any]) -> "FieldSet":
        """Decode `fieldsV1`."""
        root = _read(fields)
        root.member = "." in fields
        return root

    def encode(self) -> dict[str, Any]:
        """Encode as `fieldsV1`."""
        fields: dict[str, Any] = {".": {}} if self.member and self.children else {}
        fields.update((step, self.children[step].encode()) for step in sorted(self.children))
        return fields

    @property
    def is_empty(self) -> bool:
        """Whether the set has no members."""
        return not self.member and all(each.is_empty for each in self.children.values())

    def child(self, step: str) -> "FieldSet":
        """Return the set below a step, created if it is missing."""
        found = self.children.get(step)
        if found is None:
            found = self.children[step] = FieldSet()
        return found

    def union(self, other: "FieldSet | None") -> "FieldSet":
        """Return the members of either set."""
        result = FieldSet(member=self.member or (other is not None and other.member))
        for step, each in self.children.items():
            result.children[step] = each.union(other.children.get(step) if other else None)
        for step, each in (other.children if other else {}).items():
            if step not in result.children:
                result.children[step] = each
        return result

    def difference(self, other: "FieldSet | None") -> "FieldSet":
        """Return the members that are not in the other set."""
        if other is None:
            return self
        result = FieldSet(member=self.member and not other.member)
        for step, each in self.children.items():
            rest = each.difference(other.children.get(step))
            if not rest.is_empty:
                result.children[step] = rest
        return result

    def intersection(self, other: "FieldSet | None") -> "FieldSet":
        """Return the members of both sets."""
        result = FieldSet(member=self.member and other is not None and other.member)
        for step, each in self.children.items():
            below = other.children.get(step) if other else None
            if below is not None and not (shared := each.intersection(below)).is_empty:
                result.children[step] = shared
        return result

    def recursive_difference(self, other: "FieldSet | None") -> "FieldSet":
        """Return the set without the members of the other set and their descendants."""
        if other is None:
            return self
        result = FieldSet(member=self.member)
        for step, each in self.children.items():
            gone = other.children.get(step)
            if gone is not None and gone.member:
                continue
            rest = each.recursive_difference(gone)
            if not rest.is_empty:
                result.children[step] = rest
        return result

    def paths(self, prefix: str = "") -> Iterator[str]:
        """Yield the members as messages show them: `.spec.containers[name="web"].image`."""
        if self.member:
            yield prefix
        for step in sorted(self.children):
            yield from self.children[step].paths(prefix + _shown(step))


def _read(fields: dict[str, Any]) -> FieldSet:
    result = FieldSet(member=not fields or "." in fields)
    result.children = {step: _read(each) for step, each in fields.items() if step != "."}
    return result


def _shown(step: str) -> str:
    kind, _, rest = step.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = msgspec.json.decode(rest)
        return "[" + ",".join(f"{key}={msgspec.json.encode(keys[key]).decode()}" for key in sorted(keys)) + "]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"
