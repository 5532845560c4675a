"""Admission of pods and claims: priorities, tolerations, merged label selectors, default storage classes."""

from collections.abc import Iterable
from typing import Final

from mooring.apiserver.documents import Document, nested_field

#: The built-in priority classes.
SYSTEM_PRIORITY_CLASSES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
DEFAULT_STORAGE_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
#: The fields that only admission sets, with their names in messages.
_COMPUTED: Final = {"priority": "integer value of priority", "preemptionPolicy": "string value of PreemptionPolicy"}
_TOLERATED_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS: Final = 300


class AdmissionError(Exception):
    """An error for an object that admission rejects. `field` is the invalid field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def assign_priority(spec: Document, classes: Iterable[Document]) -> None:
    """Set the priority and the preemption policy of a new pod from its PriorityClass. Raises AdmissionError."""
    name = spec.get("priorityClassName", "")
    if name:
        chosen = next((each for each in classes if each["metadata"]["name"] == name), None)
        if chosen is None:
            raise AdmissionError("spec.priorityClassName", f"no PriorityClass with name {name} was found")
    else:
        defaults = [each for each in classes if each.get("globalDefault")]
        chosen = min(defaults, key=lambda each: int(each.get("value", 0)), default=None)
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    computed = {
        "priority": (chosen or {}).get("value", 0),
        "preemptionPolicy": (chosen or {}).get("preemptionPolicy") or "PreemptLowerPriority",
    }
    for field, shown in _COMPUTED.items():
        if spec.get(field, computed[field]) != computed[field]:
            raise AdmissionError(
                f"spec.{field}",
                f"the {shown} ({spec[field]}) must not be provided in pod spec;"
                f" priority admission controller computed {computed[field]} from the given PriorityClass name",
            )
    spec.update(computed)


def add_tolerations(spec: Document) -> None:
    """Add five-minute tolerations for not-ready and unreachable nodes, unless the pod tolerates these taints."""
    tolerations = spec.setdefault("tolerations", [])
    for key in _TOLERATED_TAINTS:
        if not any(_covers(each, key) for each in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            )


def _covers(toleration: Document, key: str) -> bool:
    return toleration.get("key", "") in {key, ""} and toleration.get("effect", "") in {"NoExecute", ""}


def merge_label_keys(pod: Document) -> None:
    """Merge `matchLabelKeys` and `mismatchLabelKeys` of a new pod into the label selectors of its terms."""
    labels, spec = pod["metadata"].get("labels") or {}, pod["spec"]
    terms = list(spec.get("topologySpreadConstraints") or ())
    for kind in ("podAffinity", "podAntiAffinity"):
        given = nested_field(spec, "affinity", kind) or {}
        terms += given.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = given.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [each["podAffinityTerm"] for each in preferred if "podAffinityTerm" in each]
    for term in terms:
        if term.get("labelSelector") is None:
            continue
        for kind, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in term.get(kind) or ():
                if key in labels:
                    added = {"key": key, "operator": operator, "values": [labels[key]]}
                    term["labelSelector"].setdefault("matchExpressions", []).append(added)


def default_storage_class(classes: Iterable[Document]) -> str | None:
    """Return the name of the newest default storage class, or None."""
    marked = [
        each["metadata"]
        for each in classes
        if (each["metadata"].get("annotations") or {}).get(DEFAULT_STORAGE_CLASS) == "true"
    ]
    newest = max((str(each.get("creationTimestamp") or "") for each in marked), default="")
    return min((each["name"] for each in marked if str(each.get("creationTimestamp") or "") == newest), default=None)
