"""The quality-of-service class of a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from mooring.api.quantity import QuantityLike, parse_quantity

if TYPE_CHECKING:
    from mooring.api.pod import Pod

#: Requests and limits.
Bounds = tuple[Mapping[str, QuantityLike] | None, Mapping[str, QuantityLike] | None]

_COUNTED: Final = ("cpu", "memory")


def qos_class(pod: Pod) -> str:
    """Return `Guaranteed`, `Burstable` or `BestEffort`."""
    spec, whole = pod.spec, pod.spec.resources
    if whole is not None and (whole.requests or whole.limits):
        return qos_of([(whole.requests, whole.limits)])
    containers = (*spec.containers, *spec.init_containers)
    return qos_of((each.resources.requests, each.resources.limits) for each in containers)


def qos_of(resources: Iterable[Bounds]) -> str:
    """Return the class for requests and limits of the containers, or of the pod."""
    asked = False
    guaranteed = True
    for given, bounds in resources:
        requests, limits = _positive(given), _positive(bounds)
        asked = asked or bool(requests) or bool(limits)
        same = all(name in requests and requests[name] == limits[name] for name in limits)
        if len(limits) != len(_COUNTED) or not same:
            guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(amounts: Mapping[str, QuantityLike] | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in _COUNTED:
        if amounts and name in amounts:
            milli = parse_quantity(amounts[name]).scaled(-3)
            if milli > 0:
                found[name] = milli
    return found
