"""`metadata.managedFields`: the fields that each manager owns, and server-side apply."""

from collections.abc import Iterable
from typing import Any

from mooring.apiserver.documents import Document, deep_copy
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import apply_conflict
from mooring.cluster.schema.shape import ANY, LIST, MAP, OBJECT, UNKNOWN, Shape
from mooring.cluster.server_side_apply.comparison import (
    compare,
    element_step,
    elements,
    encode_fields,
    owned_part,
    set_of,
)
from mooring.cluster.server_side_apply.field_set import FieldSet

APPLY = "Apply"
UPDATE = "Update"
#: The manager of existing fields when an object without `managedFields` is first applied.
BEFORE_FIRST_APPLY = "before-first-apply"


class Manager:
    """A manager and the fields that it owns."""

    __slots__ = ("api_version", "fields", "name", "operation", "subresource", "time")

    def __init__(self, name: str, operation: str, api_version: str, subresource: str, fields: FieldSet) -> None:
        self.name = name
        self.operation = operation
        self.api_version = api_version
        self.subresource = subresource
        self.fields = fields
        self.time = ""

    @classmethod
    def decode(cls, entry: Document) -> "Manager":
        """Decode an entry of `managedFields`."""
        fields = FieldSet.decode(entry.get("fieldsV1") or {})
        found = cls(entry.get("manager", ""), entry.get("operation", UPDATE), entry.get("apiVersion", ""),
                    entry.get("subresource", ""), fields)  # fmt: skip
        found.time = entry.get("time", "")
        return found

    def encode(self) -> Document:
        """Encode an entry of `managedFields`."""
        entry: Document = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.encode(),
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry

    def is_for(self, name: str, operation: str, subresource: str) -> bool:
        """Return whether the entry is for a manager, an operation and a subresource."""
        return self.name == name and self.operation == operation and self.subresource == subresource

    @property
    def shown(self) -> str:
        """The name of the manager in conflict messages."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


def previous_entries(old: Document, metadata: Document) -> list[Any]:
    """Return the entries before a write: those that the client sent, if any, or the stored ones."""
    given = metadata.get("managedFields")
    if given is None:
        return list(old["metadata"].get("managedFields", ()))
    return [each for each in given if each.get("manager") or each.get("operation")]


def track(
    old: Document | None, new: Document, resource: Resource, manager: str, now: str, *, subresource: str = ""
) -> None:
    """Assign the fields that a write changes to its manager, in place in `new`."""
    if old is None:
        _track_new(new, resource, manager, now)
        return
    managers = [Manager.decode(each) for each in new["metadata"].get("managedFields", ())]
    shape, has_status = resource.shape, "status" in resource.subresources
    after = owned_part(new, subresource=subresource, has_status=has_status)
    before = owned_part(old, subresource=subresource, has_status=has_status)
    difference = compare(before, after, shape)
    difference.changed.member = False
    for each in managers:
        each.fields = each.fields.difference(difference.changed).recursive_difference(difference.removed)
    if not difference.changed.is_empty:
        mine = _found(managers, manager, UPDATE, subresource, resource)
        mine.fields = mine.fields.union(difference.changed)
        mine.time = now
    _write(new, managers)


def _track_new(new: Document, resource: Resource, manager: str, now: str) -> None:
    """Assign all fields of a new object to its manager."""
    part = owned_part(new, has_status="status" in resource.subresources)
    new["metadata"]["managedFields"] = [
        {
            "manager": manager,
            "operation": UPDATE,
            "apiVersion": resource.group_version,
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode_fields(part, resource.shape),
        }
    ]


def _found(managers: list[Manager], name: str, operation: str, subresource: str, resource: Resource) -> Manager:
    for each in managers:
        if each.is_for(name, operation, subresource):
            each.api_version = resource.group_version
            return each
    mine = Manager(name, operation, resource.group_version, subresource, FieldSet())
    managers.append(mine)
    return mine


def _write(document: Document, managers: Iterable[Manager]) -> None:
    entries = [each.encode() for each in managers if not each.fields.is_empty]
    if entries:
        document["metadata"]["managedFields"] = entries
    else:
        document["metadata"].pop("managedFields", None)


def apply(
    live: Document | None,
    config: Document,
    resource: Resource,
    manager: str,
    now: str,
    *,
    force: bool,
    subresource: str,
) -> Document:
    """Return the object after a server-side apply. Raises ApiError if other managers own changed fields."""
    shape, has_status = resource.shape, "status" in resource.subresources
    base: Document = deep_copy(live) if live else {"metadata": {}}
    managers = [Manager.decode(each) for each in base["metadata"].get("managedFields", ())]
    if live is not None and not managers:
        everything = set_of(owned_part(live, has_status=has_status), shape)
        managers.append(Manager(BEFORE_FIRST_APPLY, UPDATE, resource.group_version, "", everything))
        managers[0].time = live["metadata"].get("creationTimestamp", "")
    wanted = owned_part(config, subresource=subresource, has_status=has_status)
    applied = set_of(wanted, shape)
    applied.member = False
    mine = _found(managers, manager, APPLY, subresource, resource)
    before, mine.fields = mine.fields, applied
    result: Document = merged(base, wanted, shape)
    others = [each for each in managers if each is not mine]
    _resolve_conflicts(
        others, owned_part(base, has_status=False), owned_part(result, has_status=False), resource, force=force
    )
    kept = applied
    for each in others:
        kept = kept.union(each.fields)
    result = pruned(result, before.difference(kept), kept, shape)
    result.setdefault("metadata", base["metadata"])
    for key, value in base["metadata"].items():
        if key not in result["metadata"] and key not in {"labels", "annotations", "finalizers", "ownerReferences"}:
            result["metadata"][key] = value
    unchanged = live is not None and owned_part(result, has_status=False) == owned_part(live, has_status=False)
    if not (unchanged and mine.fields.encode() == before.encode() and mine.time):
        mine.time = now
    _write(result, managers)
    return result


def _resolve_conflicts(
    others: list[Manager], before: Document, after: Document, resource: Resource, *, force: bool
) -> None:
    """Find conflicts with other managers, and take their fields if forced."""
    changed = compare(before, after, resource.shape).changed
    conflicts = [(each, each.fields.intersection(changed)) for each in others]
    conflicts = [(each, shared) for each, shared in conflicts if not shared.is_empty]
    if not conflicts:
        return
    if force:
        for each, shared in conflicts:
            each.fields = each.fields.difference(shared)
        return
    found = [(each.shown, path) for each, shared in conflicts for path in shared.paths()]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {shown}", "field": path} for shown, path in found
    ]
    if len(found) == 1:
        raise apply_conflict(causes, f"Apply failed with 1 conflict: conflict with {found[0][0]}: {found[0][1]}")
    lines: list[str] = []
    for shown in sorted({shown for shown, _ in found}):
        lines += [f"conflicts with {shown}:", *(f"- {path}" for each, path in found if each == shown)]
    raise apply_conflict(causes, f"Apply failed with {len(found)} conflicts: " + "\n".join(lines))


def merged(live: Any, config: Any, shape: Shape) -> Any:
    """Return the live value merged with the applied one. Neither is changed."""
    if isinstance(config, dict) and isinstance(live, dict) and shape.kind in {OBJECT, MAP, ANY} and not shape.atomic:
        result = dict(live)
        for key, value in config.items():
            result[key] = merged(live[key], value, shape.child(key)) if key in live else value
        return result
    if isinstance(config, list) and isinstance(live, list) and shape.kind == LIST and shape.list_type != "atomic":
        return _merged_lists(live, config, shape)
    return config


def _merged_lists(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Return the applied elements in order, with other live elements at their relative positions."""
    wanted, present = elements(config, shape), elements(live, shape)
    item = shape.item or UNKNOWN
    result: list[Any] = []
    waiting = [step for step in present if step in wanted]
    pending = list(wanted)
    for step, value in present.items():
        if step not in wanted:
            result.append(value)
            continue
        if waiting and step == waiting[0]:
            while pending:
                following = pending.pop(0)
                known = following in present
                predicate = merged(present[following], wanted[following], item) if known else wanted[following]
                result.append(predicate)
                if following == step:
                    break
        waiting = [each for each in waiting if each in pending]
    rest = (merged(present[step], wanted[step], item) if step in present else wanted[step] for step in pending)
    return [*result, *rest]


def pruned(value: Any, gone: FieldSet, kept: FieldSet | None, shape: Shape) -> Any:
    """Return a value without the fields of a set, except those with owned fields below (`kept`)."""
    if isinstance(value, dict):
        return _pruned_fields(value, gone, kept, shape)
    if not isinstance(value, list):
        return value
    result = []
    for each in value:
        step = element_step(each, shape)
        inner, owned = gone.children.get(step), kept.children.get(step) if kept else None
        if inner is None:
            result.append(each)
        elif not (inner.member and owned is None):
            result.append(pruned(each, inner, owned, shape.item or UNKNOWN))
    return result


def _pruned_fields(value: dict[str, Any], gone: FieldSet, kept: FieldSet | None, shape: Shape) -> dict[str, Any]:
    result = {}
    for key, each in value.items():
        step = f"f:{key}"
        inner, owned = gone.children.get(step), kept.children.get(step) if kept else None
        if inner is None:
            result[key] = each
        elif not (inner.member and owned is None):
            rest = pruned(each, inner, owned, shape.child(key))
            if rest not in ({}, []) or owned is not None:
                result[key] = rest
    return result
