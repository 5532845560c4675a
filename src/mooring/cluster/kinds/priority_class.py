"""PriorityClasses."""

from typing import Any, Final

from mooring.apiserver.admission import SYSTEM_PRIORITY_CLASSES
from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError, forbidden_field
from mooring.apiserver.field_rules import choice, immutable
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import Target, forbidden
from mooring.cluster.kind import Kind
from mooring.cluster.store import Store
from mooring.cluster.table_printer import age, columns

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_HIGHEST: Final = 1_000_000_000


def _set_priority_class_defaults(document: Document) -> None:
    document.setdefault("value", 0)
    document.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _admit(store: Store, document: Document) -> None:
    if not document.get("globalDefault"):
        return
    for each in store.objects(PRIORITY_CLASSES):
        if each.document.get("globalDefault") and each.document["metadata"]["name"] != document["metadata"].get("name"):
            raise forbidden(
                Target("scheduling.k8s.io", "priorityclasses", document["metadata"].get("name", "")),
                f"PriorityClass {each.document['metadata']['name']} is already marked as default."
                " Only one default can exist",
            )


def _priority_class_errors(document: Document) -> list[FieldError]:
    name, value = document["metadata"].get("name", ""), document.get("value", 0)
    errors = choice(document.get("preemptionPolicy"), "preemptionPolicy", _PREEMPTION)
    if name.startswith("system-"):
        if SYSTEM_PRIORITY_CLASSES.get(name) != value:
            why = (
                f"{name} is not a known system priority class"
                if name not in SYSTEM_PRIORITY_CLASSES
                else (f"value of {name} PriorityClass must be {SYSTEM_PRIORITY_CLASSES[name]}")
            )
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            errors.append(forbidden_field("metadata.name", detail))
    elif value > _HIGHEST:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        errors.append(forbidden_field("value", detail))
    return errors


def _priority_class_update_errors(new: Document, old: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    if new.get("value") != old.get("value"):
        errors.append(forbidden_field("value", "may not be changed in an update."))
    return errors + immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")


def _priority_class_row(document: Document, now: float) -> list[Any]:
    return [
        document["metadata"]["name"],
        document.get("value", 0),
        document.get("globalDefault", False),
        age(document, now),
        document.get("preemptionPolicy", ""),
    ]


def _check_deletion(document: Document) -> None:
    name = document["metadata"]["name"]
    if name.startswith("system-"):
        target = Target("scheduling.k8s.io", "priorityclasses", name)
        raise forbidden(target, "this is a system priority class and cannot be deleted")


PRIORITY_CLASS: Final = Kind(
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short_names=("pc",)),
    set_defaults=_set_priority_class_defaults,
    admit=_admit,
    validate=_priority_class_errors,
    validate_update=_priority_class_update_errors,
    check_deletion=_check_deletion,
    columns=columns("Name Value:integer Global-Default:boolean Age PreemptionPolicy", _priority_class_row),
    counts_generation=True,
)
