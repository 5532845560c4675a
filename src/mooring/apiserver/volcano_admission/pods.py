"""Validation of the disruption budgets of pods, the settings of resource groups, and the gate of queue admission."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.volcano import QUEUE_GATE
from mooring.apiserver.documents import Document, deep_copy, nested_field

MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
_BUDGETS: Final = (MIN_AVAILABLE, MAX_UNAVAILABLE)
#: The annotation with the resource group of a pod, for groups that do not say whose pods they are for.
_GROUP_ANNOTATION: Final = "volcano.sh/resource-group"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


class ResourceGroupObject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose pods a resource group is for: those in namespaces, or with annotations."""

    key: str = ""
    value: tuple[str, ...] = ()


class ResourceGroup(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Settings that are added to the pods of a group, as in Volcano's volcano-admission.conf."""

    resource_group: str = ""
    object: ResourceGroupObject = ResourceGroupObject()
    scheduler_name: str = ""
    tolerations: tuple[dict[str, Any], ...] = ()
    labels: dict[str, str] = {}
    #: JSON.
    affinity: str = ""


def set_pod_defaults_of_group(document: Document, namespace: str, groups: Iterable[ResourceGroup]) -> None:
    """Add the settings of the first resource group of a new pod, in place."""
    group = next((each for each in groups if _belongs(document, namespace, each)), None)
    spec = document.get("spec")
    if group is None or not isinstance(spec, dict):
        return
    if group.labels:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **group.labels}
    if group.affinity and spec.get("affinity") is None:
        spec["affinity"] = msgspec.json.decode(group.affinity)
    if group.tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *deep_copy(list(group.tolerations))]
    if group.scheduler_name:
        spec["schedulerName"] = group.scheduler_name


def set_queue_gate(document: Document, scheduler_names: Collection[str]) -> None:
    """Add the scheduling gate of queue admission to a new pod of Volcano's scheduler that requests it, in place.

    Volcano also adds it to pods of other schedulers, from which nothing removes it, and to pods with a node, which the
    API server then refuses.
    """
    annotations = nested_field(document, "metadata", "annotations") or {}
    spec = document.get("spec")
    if annotations.get(QUEUE_GATE) != "true" or not isinstance(spec, dict):
        return
    if spec.get("schedulerName") not in scheduler_names or spec.get("nodeName"):
        return
    gates = spec.get("schedulingGates") or []
    if all(each.get("name") != QUEUE_GATE for each in gates):
        spec["schedulingGates"] = [*gates, {"name": QUEUE_GATE}]


def _belongs(document: Document, namespace: str, group: ResourceGroup) -> bool:
    if group.object.key == "namespace":
        return namespace in group.object.value
    annotations = nested_field(document, "metadata", "annotations") or {}
    wanted = [each.partition(":") for each in group.object.value]
    if any(annotations.get(key.strip()) == value.strip().strip("'\"") for key, separator, value in wanted if separator):
        return True
    return not group.object.key and annotations.get(_GROUP_ANNOTATION) == group.resource_group


def pod_errors(document: Document, scheduler_names: Iterable[str]) -> list[str]:
    """Return the errors of a new pod of Volcano's scheduler."""
    if nested_field(document, "spec", "schedulerName") not in scheduler_names:
        return []
    annotations = nested_field(document, "metadata", "annotations") or {}
    return budget_errors(annotations)


def budget_errors(annotations: Mapping[str, str]) -> list[str]:
    """Return the errors of the annotations with a job's disruption budget."""
    given = [key for key in _BUDGETS if key in annotations]
    for key in given:
        if error := _budget_error(key, annotations[key]):
            return [error]
    if len(given) > 1:
        return [f"not allow configure multiple annotations <[{' '.join(_BUDGETS)}]> at same time"]
    return []


def _budget_error(key: str, text: str) -> str:
    if _INTEGER.fullmatch(text):
        return "" if int(text[:20]) > 0 else f'invalid value <"{text}"> for {key}, it must be a positive integer'
    number = text.replace("%", "")
    if not _INTEGER.fullmatch(number):
        return f'invalid value strconv.Atoi: parsing "{number}": invalid syntax for {key}'
    if not 0 < int(number[:20]) < 100:
        return f'invalid value <"{text}"> for {key}, it must be a valid percentage which between 1% ~ 99%'
    return ""
