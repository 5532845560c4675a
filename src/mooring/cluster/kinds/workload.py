"""Rules for all workloads: template validation, and the state of their pods."""

from typing import Any, Final

from mooring.api.label_selectors import parse_int
from mooring.apiserver.documents import Document, condition, nested_field, rfc3339, seconds_of
from mooring.apiserver.field_errors import FieldError, invalid, not_supported, required
from mooring.apiserver.field_rules import immutable, is_usable, label_selector
from mooring.cluster.kinds.pod_validation import pod_warnings, template_errors
from mooring.cluster.registry import Registry
from mooring.cluster.selectors import selector_of
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
