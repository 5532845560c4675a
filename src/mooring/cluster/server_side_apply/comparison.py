"""The fields of a document, and the differences between two documents."""

from typing import Any, Final, NamedTuple

import msgspec

from mooring.apiserver.documents import Document
from mooring.cluster.schema.shape import ANY, LIST, MAP, OBJECT, UNKNOWN, Shape
from mooring.cluster.server_side_apply.field_set import FieldSet

_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Difference(NamedTuple):
    """The fields that differ from an earlier document."""

    changed: FieldSet
    removed: FieldSet


def is_leaf(value: Any, shape: Shape) -> bool:
    """Return whether a value is owned as a unit, without separate owners of its parts."""
    if isinstance(value, dict):
        return shape.atomic or not value or shape.kind not in {OBJECT, MAP, ANY}
    if isinstance(value, list):
        return shape.kind != LIST or shape.list_type == "atomic" or not value
    return True


def element_step(element: Any, shape: Shape) -> str:
    """Return the step to an element of a list that is a set or a map."""
    if shape.list_type == "set" or not isinstance(element, dict):
        return "v:" + _encode(element).decode()
    item = shape.item or UNKNOWN
    keys = {}
    for key in shape.list_keys:
        value = element.get(key)
        if value is None and key in item.fields:
            value = item.fields[key].default
        if value is not None:
            keys[key] = value
    return "k:" + _encode(keys).decode()


def elements(value: list[Any], shape: Shape) -> dict[str, Any]:
    """Return the elements of a list that is a set or a map by their steps, in order."""
    return {element_step(each, shape): each for each in value}


def set_of(value: Any, shape: Shape) -> FieldSet:
    """Return all fields of a value."""
    result = FieldSet()
    if is_leaf(value, shape):
        result.member = True
    elif isinstance(value, dict):
        for key, each in value.items():
            result.children[f"f:{key}"] = set_of(each, shape.child(key))
    else:
        for step, each in elements(value, shape).items():
            inner = set_of(each, shape.item or UNKNOWN)
            inner.member = True
            result.children[step] = inner
    return result


def encode_fields(value: Any, shape: Shape) -> dict[str, Any]:
    """Return all fields of a value as in `managedFields`.

    This is faster than `set_of(...).written()`, because it runs for every created object.
    """
    if is_leaf(value, shape):
        return {}
    fields: dict[str, Any] = {}
    if isinstance(value, dict):
        known, item = shape.fields, shape.item or UNKNOWN
        for key, each in value.items():
            if type(each) is str or type(each) is int:
                fields["f:" + key] = {}
                continue
            inner = encode_fields(each, known.get(key) or item)
            fields["f:" + key] = inner
        return fields
    for step, each in elements(value, shape).items():
        inner = encode_fields(each, shape.item or UNKNOWN)
        fields[step] = {".": {}, **inner} if inner else inner
    return fields


def compare(old: Any, new: Any, shape: Shape) -> Difference:
    """Return the fields that were added or changed, and those that were removed."""
    changed, removed = FieldSet(), FieldSet()
    _compare(old, new, shape, changed, removed)
    return Difference(changed, removed)


def _compare(old: Any, new: Any, shape: Shape, changed: FieldSet, removed: FieldSet) -> None:
    if old == new:
        return
    if is_leaf(new, shape) or type(old) is not type(new) or is_leaf(old, shape):
        changed.member = changed.member or is_leaf(new, shape)
        if not is_leaf(new, shape):
            _adopt(changed, set_of(new, shape))
        if isinstance(old, (dict, list)) and not is_leaf(old, shape):
            removed.children.update(set_of(old, shape).children)
        return
    if isinstance(new, dict):
        _compare_parts(
            {f"f:{key}": (each, shape.child(key)) for key, each in old.items()},
            {f"f:{key}": (each, shape.child(key)) for key, each in new.items()},
            changed,
            removed,
        )
        return
    item = shape.item or UNKNOWN
    _compare_parts(
        {step: (each, item) for step, each in elements(old, shape).items()},
        {step: (each, item) for step, each in elements(new, shape).items()},
        changed,
        removed,
    )


def _compare_parts(
    old: dict[str, tuple[Any, Shape]], new: dict[str, tuple[Any, Shape]], changed: FieldSet, removed: FieldSet
) -> None:
    for step, (value, shape) in new.items():
        if step not in old:
            added = set_of(value, shape)
            added.member = added.member or shape.kind in {MAP, OBJECT} or not step.startswith("f:")
            changed.children[step] = added
        elif old[step][0] != value:
            _compare(old[step][0], value, shape, changed.child(step), removed.child(step))
    for step in old:
        if step not in new:
            removed.children[step] = FieldSet(member=True)
    for tree in (changed, removed):
        for step in [step for step, each in tree.children.items() if each.is_empty]:
            del tree.children[step]


def _adopt(target: FieldSet, source: FieldSet) -> None:
    target.member = target.member or source.member
    target.children.update(source.children)


#: Metadata that no manager owns.
_UNOWNED: Final = frozenset(
    {
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion",
        "deletionTimestamp", "deletionGracePeriodSeconds",
    }
)  # fmt: skip


def owned_part(document: Document, *, subresource: str = "", has_status: bool = True) -> Document:
    """Return the part of an object that managers can own when it is written through an endpoint."""
    part = {key: value for key, value in document.items() if key not in {"apiVersion", "kind", "metadata"}}
    if subresource == "status":
        part = {"status": part["status"]} if "status" in part else {}
    elif has_status:
        part.pop("status", None)
    metadata = {key: value for key, value in document.get("metadata", {}).items() if key not in _UNOWNED}
    if metadata:
        part["metadata"] = metadata
    return part
