"""Validation of changes through the `resize` and `ephemeralcontainers` subresources of pods."""

from mooring.apiserver.documents import Document
from mooring.cluster.errors import FieldError, forbidden_field


def subresource_errors(subresource: str, new: Document, old: Document) -> list[FieldError]:
    """Return errors for changes that a subresource does not allow."""
    if subresource == "resize":
        if _without_resources(new) == _without_resources(old):
            return []
        return [forbidden_field("spec", "only cpu and memory resources for containers are mutable")]
    fresh, before = new.get("ephemeralContainers") or [], old.get("ephemeralContainers") or []
    errors: list[FieldError] = []
    if {**new, "ephemeralContainers": None} != {**old, "ephemeralContainers": None}:
        errors.append(forbidden_field("spec", "only ephemeral containers may be added here"))
    if fresh[: len(before)] != before:
        detail = "existing ephemeral containers may not be changed or removed"
        errors.append(forbidden_field("spec.ephemeralContainers", detail))
    return errors


def _without_resources(spec: Document) -> Document:
    kinds = [kind for kind in ("containers", "initContainers") if spec.get(kind)]
    return {**spec, **{kind: [{**each, "resources": None} for each in spec[kind]] for kind in kinds}}
