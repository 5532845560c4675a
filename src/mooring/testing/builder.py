"""What all builders share: a frozen object inside, and methods that return a builder of a changed copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, Self, TypeVar

import msgspec

from mooring.api.affinity import NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.meta import KubeObject, LabelSelector, LabelSelectorRequirement, OwnerReference
from mooring.api.quantity import QuantityLike

T = TypeVar("T", bound=KubeObject)

#: A moment long past, for objects that were told to go.
LONG_AGO = "2026-01-01T00:00:00Z"

#: Labels as a mapping (``{"app": "web"}``), a whole selector, or None for a selector that is absent.
SelectorLike = Mapping[str, str] | LabelSelector | None
#: ``("zone", "In", "a", "b")``: key, operator, values.
Expression = tuple[str, ...]


class Builder(Generic[T]):
    """Holds an object that is never changed: each method gives a new builder, so a base can be used many times."""

    __slots__ = ("_object",)

    def __init__(self, item: T) -> None:
        self._object = item

    def obj(self) -> T:
        """The object, with a uid made of kind, namespace and name unless one was given."""
        item = self._object
        if item.metadata.uid:
            return item
        place = f"{item.metadata.namespace}-" if item.metadata.namespace else ""
        return self._with_meta(uid=f"{item.kind.lower()}-{place}{item.name}")._object

    def named(self, name: str) -> Self:
        """The same under another name."""
        return self._with_meta(name=name)

    def uid(self, uid: str) -> Self:
        """Give it a uid of its own."""
        return self._with_meta(uid=uid)

    def label(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Add labels, by keyword or (names with a slash) as a mapping."""
        return self._with_meta(labels={**self._object.labels, **(labels or {}), **more})

    def annotation(self, annotations: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Add annotations."""
        return self._with_meta(annotations={**self._object.annotations, **(annotations or {}), **more})

    def owner(self, kind: str, name: str, *, api_version: str = "apps/v1", uid: str = "") -> Self:
        """Say which controller made it."""
        owner = OwnerReference(
            api_version=api_version, kind=kind, name=name, uid=uid or f"{kind}-{name}", controller=True
        )
        return self._with_meta(owner_references=(*self._object.metadata.owner_references, owner))

    def created(self, time: str) -> Self:
        """When it was made."""
        return self._with_meta(creation_timestamp=time)

    def terminating(self, time: str = LONG_AGO) -> Self:
        """It was told to go."""
        return self._with_meta(deletion_timestamp=time)

    def _with(self, **changes: object) -> Self:
        return type(self)(msgspec.structs.replace(self._object, **changes))

    def _with_meta(self, **changes: object) -> Self:
        return self._with(metadata=msgspec.structs.replace(self._object.metadata, **changes))


def amounts_of(given: Mapping[str, QuantityLike] | None, more: Mapping[str, QuantityLike]) -> dict[str, QuantityLike]:
    """Resource amounts written by keyword (``ephemeral_storage``) or as a mapping (``{"nvidia.com/gpu": 1}``)."""
    return {**(given or {}), **{name.replace("_", "-"): amount for name, amount in more.items()}}


def selector(labels: Mapping[str, str] | None = None, *expressions: Expression) -> LabelSelector:
    """A label selector: ``selector({"app": "web"}, ("tier", "In", "a", "b"))``; empty selects everything."""
    return LabelSelector(
        match_labels=dict(labels or {}),
        match_expressions=tuple(
            LabelSelectorRequirement(key=key, operator=operator, values=tuple(values))
            for key, operator, *values in expressions
        ),
    )


def as_selector(given: SelectorLike) -> LabelSelector | None:
    """What a test wrote as a selector, as a selector."""
    return given if given is None or isinstance(given, LabelSelector) else selector(given)


def node_term(expressions: Iterable[Expression], fields: Iterable[Expression] = ()) -> NodeSelectorTerm:
    """A node selector term of ``(key, operator, *values)`` tuples."""
    return NodeSelectorTerm(match_expressions=_requirements(expressions), match_fields=_requirements(fields))


def _requirements(expressions: Iterable[Expression]) -> tuple[NodeSelectorRequirement, ...]:
    return tuple(
        NodeSelectorRequirement(key=key, operator=operator, values=tuple(values))
        for key, operator, *values in expressions
    )
