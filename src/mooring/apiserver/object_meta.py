"""Validation of object metadata."""

from collections.abc import Mapping
from typing import Any, Final

from mooring.api.label_validation import label_key_errors, label_value_errors
from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError, forbidden_field, go_value, invalid, required, too_long
from mooring.apiserver.object_names import NameRule

_MOST_ANNOTATION_BYTES: Final = 256 * 1024


def metadata_errors(document: Document, rule: NameRule, *, namespaced: bool) -> list[FieldError]:
    """Return the errors of the metadata of a new object."""
    metadata = document["metadata"]
    errors: list[FieldError] = []
    if not metadata.get("name"):
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += [invalid("metadata.name", metadata["name"], fault) for fault in rule(metadata["name"])]
    if namespaced and not metadata.get("namespace"):
        errors.append(required("metadata.namespace"))
    elif not namespaced and metadata.get("namespace"):
        errors.append(forbidden_field("metadata.namespace", "not allowed on this type"))
    return errors + labels_errors(metadata.get("labels", {}), "metadata.labels") + _other_errors(metadata)


def labels_errors(labels: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the errors of labels."""
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += [invalid(path, key, fault) for fault in label_key_errors(key)]
        errors += [invalid(path, value, fault) for fault in label_value_errors(value)]
    return errors


def annotations_errors(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    """Return the errors of annotations."""
    errors: list[FieldError] = []
    for key in annotations:
        errors += [invalid(path, key, fault) for fault in label_key_errors(key.lower())]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _MOST_ANNOTATION_BYTES:
        errors.append(too_long(path, _MOST_ANNOTATION_BYTES))
    return errors


def _other_errors(metadata: Document) -> list[FieldError]:
    errors = annotations_errors(metadata.get("annotations", {}), "metadata.annotations")
    controllers = 0
    for index, owner in enumerate(metadata.get("ownerReferences", ())):
        path = f"metadata.ownerReferences[{index}]"
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                errors.append(invalid(f"{path}.{key}", owner.get(key, ""), "must not be empty"))
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        shown = metadata["ownerReferences"]
        detail = "Only one reference can have Controller set to true."
        errors.append(invalid("metadata.ownerReferences", shown, detail))
    for each in metadata.get("finalizers", ()):
        errors += [invalid("metadata.finalizers", each, fault) for fault in label_key_errors(each)]
    return errors


def metadata_update_errors(new: Document, old: Document) -> list[FieldError]:
    """Return the errors of the metadata of a changed object."""
    fresh, before = new["metadata"], old["metadata"]
    errors = [
        invalid(f"metadata.{key}", fresh.get(key, ""), "field is immutable")
        for key in ("name", "namespace", "uid", "creationTimestamp")
        if fresh.get(key) != before.get(key)
    ]
    if before.get("deletionTimestamp"):
        added = [each for each in fresh.get("finalizers", ()) if each not in before.get("finalizers", ())]
        if added:
            shown = "[]string{" + ", ".join(go_value(each) for each in added) + "}"
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            errors.append(forbidden_field("metadata.finalizers", detail))
    if fresh.get("labels") != before.get("labels"):
        errors += labels_errors(fresh.get("labels", {}), "metadata.labels")
    return errors + _other_errors(fresh)
