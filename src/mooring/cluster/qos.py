"""The quality-of-service class of a pod, from what its containers ask for and are held to."""

from typing import Final

from mooring.api.quantity import parse_quantity
from mooring.cluster.documents import Document

_COUNTED: Final = ("cpu", "memory")


def qos_class(spec: Document) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`."""
    resources = spec.get("resources")
    if resources and (resources.get("requests") or resources.get("limits")):
        return _class_of([resources])
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    return _class_of([each.get("resources") or {} for each in containers])


def _class_of(resources: list[Document]) -> str:
    asked = False
    guaranteed = True
    for each in resources:
        requests, limits = _positive(each.get("requests")), _positive(each.get("limits"))
        asked = asked or bool(requests) or bool(limits)
        same = all(name in requests and requests[name] == limits[name] for name in limits)
        if len(limits) != len(_COUNTED) or not same:
            guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(amounts: Document | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in _COUNTED:
        if amounts and name in amounts:
            milli = parse_quantity(amounts[name]).scaled(-3)
            if milli > 0:
                found[name] = milli
    return found
