"""Rules for all workloads: template validation, and the state of their pods."""

from collections.abc import Callable
from typing import Any, Final

from mooring.api.label_selectors import Selector, parse_int
from mooring.apiserver.documents import (
    Document,
    condition,
    controller_of,
    nested_field,
    rfc3339,
    seconds_of,
    with_metadata,
)
from mooring.apiserver.field_errors import FieldError, invalid, not_supported, required
from mooring.apiserver.field_rules import immutable, is_usable, label_selector
from mooring.apiserver.pod_validation import pod_warnings, template_errors
from mooring.apiserver.workloads import owner_reference
from mooring.cluster.controllers.controller import Key, Tools
from mooring.cluster.registry import Registry
from mooring.cluster.selectors import selector_of
from mooring.cluster.store import DELETED, Change
from mooring.cluster.table_printer import container_cells

WORKLOAD_COLUMNS: Final = "+Containers +Images +Selector"
TEMPLATE: Final = "spec.template"
SELECTOR_MISMATCH: Final = "`selector` does not match template `labels`"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def selected_template_errors(spec: Document, *, restarts: tuple[str, ...] = ("Always",)) -> list[FieldError]:
    """Return the errors of a pod template and its selector."""
    selector = spec.get("selector")
    template = spec.get("template") or {}
    labels = nested_field(template, "metadata", "labels") or {}
    errors: list[FieldError] = []
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += label_selector(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(invalid("spec.selector", selector, "empty selector is invalid for deployment"))
        elif is_usable(selector) and not selector_of(selector).matches(labels):
            errors.append(invalid(f"{TEMPLATE}.metadata.labels", dict(sorted(labels.items())), SELECTOR_MISMATCH))
    if selector is None and labels:
        errors.append(invalid(f"{TEMPLATE}.metadata.labels", dict(sorted(labels.items())), SELECTOR_MISMATCH))
    errors += template_errors(template, TEMPLATE)
    policy = nested_field(template, "spec", "restartPolicy")
    if policy == "Always" and "Always" not in restarts:
        # `Always` is the default, so the field is most likely missing in the manifest.
        shown = ", ".join(f'"{each}"' for each in restarts)
        errors.append(required(f"{TEMPLATE}.spec.restartPolicy", f"valid values: {shown}"))
    elif policy and policy not in restarts:
        errors.append(not_supported(f"{TEMPLATE}.spec.restartPolicy", policy, restarts))
    return errors


def selector_update_errors(new: Document, old: Document) -> list[FieldError]:
    """Return an error if the selector changes."""
    return immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def template_warnings(document: Document) -> list[str]:
    """Return the warnings about the pod template of a workload."""
    return pod_warnings(document["spec"]["template"]["spec"], "spec.template.spec")


def is_active(pod: Document) -> bool:
    """Return whether a pod counts as a replica: it has not finished and is not terminating."""
    phase = pod.get("status", {}).get("phase")
    return phase not in {"Succeeded", "Failed"} and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: Document) -> bool:
    """Return whether a pod is ready."""
    ready = condition(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def is_available(pod: Document, after: int, now: float) -> bool:
    """Return whether a pod has been ready for a number of seconds."""
    if not is_ready(pod):
        return False
    if not after:
        return True
    ready = condition(pod, "Ready") or {}
    return now - seconds_of(ready["lastTransitionTime"]) >= after


def mark_disrupted(registry: Registry, pod: Document, reason: str, message: str) -> None:
    """Add the DisruptionTarget condition to a pod that is about to be deleted."""
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(registry.clock()),
        "reason": reason,
        "message": message,
    }

    def change(each: Document) -> Document:
        status = each.get("status", {})
        others = [old for old in status.get("conditions", ()) if old["type"] != "DisruptionTarget"]
        return {**each, "status": {**status, "conditions": [*others, target]}}

    registry.modify("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], change)


def affected_owners(
    tools: Tools, storage: str, change: Change, owners: str, selector: Callable[[Document], Selector]
) -> list[Key]:
    """Return the keys of the owners that a change affects: of an owner itself, of a dependent, or of an orphan.

    `owners` is the resource of the owners. Owners whose selector matches an object without a controller can adopt it.
    """
    metadata = change.stored.document["metadata"]
    namespace = metadata["namespace"]
    if storage == owners:
        return [(namespace, metadata["name"])]
    kind = tools.registry.mapper.of(owners).kind
    references = [controller_of(change.stored.document)]
    if change.previous is not None:
        references.append(controller_of(change.previous.document))
    found = [(namespace, str(each["name"])) for each in references if each is not None and each["kind"] == kind]
    if references[0] is None and change.kind != DELETED and _can_be_adopted(change):
        labels = metadata.get("labels") or {}
        found += [
            (namespace, stored.document["metadata"]["name"])
            for stored in tools.store.objects(owners, namespace)
            if selector(stored.document).matches(labels)
        ]
    return found


def _can_be_adopted(change: Change) -> bool:
    """Return whether a new or changed object without a controller can match other selectors than before."""
    if change.previous is None:
        return True
    before, after = change.previous.document["metadata"], change.stored.document["metadata"]
    return any(before.get(key) != after.get(key) for key in ("labels", "ownerReferences"))


def adopt_and_release(
    tools: Tools,
    owner: Document,
    storage: str,
    selector: Selector,
    *,
    may_adopt: Callable[[Document], bool] = lambda _: True,
    finalizer: str = "",
) -> None:
    """Adopt objects that the selector matches and that have no controller, and release those that it does not match.

    Adopted objects get a finalizer, which released objects lose.
    """
    uid, namespace = owner["metadata"]["uid"], owner["metadata"]["namespace"]
    for document in tools.index.orphans(storage, namespace, selector):
        metadata = document["metadata"]
        if not metadata.get("deletionTimestamp") and may_adopt(document):
            owners = [*metadata.get("ownerReferences", ()), owner_reference(owner)]
            finalizers = [*metadata.get("finalizers", ()), *([finalizer] if finalizer else ())]
            adopted = with_metadata(document, ownerReferences=owners)
            if finalizers:
                adopted = with_metadata(adopted, finalizers=finalizers)
            tools.store.put(storage, namespace, metadata["name"], adopted)
    for document in tools.index.controlled(uid, storage):
        metadata = document["metadata"]
        if not selector.matches(metadata.get("labels") or {}) and not metadata.get("deletionTimestamp"):
            owners = [each for each in metadata["ownerReferences"] if each["uid"] != uid]
            finalizers = [each for each in metadata.get("finalizers", ()) if each != finalizer]
            released = with_metadata(document, ownerReferences=owners or None)
            if "finalizers" in metadata:
                released = with_metadata(released, finalizers=finalizers or None)
            tools.store.put(storage, namespace, metadata["name"], released)


def other_conditions(document: Document, *own: str) -> list[Document]:
    """Return the conditions that a controller does not write itself, which it must keep."""
    return [each for each in nested_field(document, "status", "conditions") or () if each["type"] not in own]


def workload_selector(document: Document) -> Selector:
    """Return the selector of a workload."""
    return selector_of(document["spec"].get("selector"))


def deletion_order(pod: Document) -> tuple[Any, ...]:
    """Return a sort key for scaling down: the pods to delete come first."""
    metadata, spec = pod["metadata"], pod["spec"]
    ready = condition(pod, "Ready") or {}
    since = ready.get("lastTransitionTime", "") if is_ready(pod) else ""
    annotations = metadata.get("annotations") or {}
    return (
        bool(spec.get("nodeName")),
        _PHASES.get(pod.get("status", {}).get("phase", ""), 0),
        is_ready(pod),
        _cost(annotations.get(_COST, "0")),
        _newest_first(since),
        _newest_first(metadata["creationTimestamp"]),
    )


def _cost(text: str) -> int:
    return parse_int(text) or 0


def _newest_first(timestamp: str) -> float:
    return -seconds_of(timestamp) if timestamp else 0.0


def container_names(document: Document) -> list[str]:
    """Return the cells with the names and the images of the containers of a template."""
    names, images = container_cells(nested_field(document, "spec", "template", "spec", "containers") or ())
    return [names, images]
