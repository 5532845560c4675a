"""The quality-of-service class of a pod that is still a document."""

from mooring.api.qos import Bounds, qos_of
from mooring.cluster.documents import Document


def qos_class(spec: Document) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`."""
    resources = spec.get("resources")
    if resources and (resources.get("requests") or resources.get("limits")):
        return qos_of([_bounds(resources)])
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    return qos_of([_bounds(each.get("resources") or {}) for each in containers])


def _bounds(resources: Document) -> Bounds:
    return resources.get("requests"), resources.get("limits")
