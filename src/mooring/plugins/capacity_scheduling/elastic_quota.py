"""ElasticQuota objects and arithmetic with amounts of resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

from mooring.api.pod import Pod
from mooring.api.quantity import QuantityLike
from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, amount, is_scalar
from mooring.framework import CustomResource, Meta


class ElasticQuota(CustomResource, group="scheduling.x-k8s.io", version="v1alpha1", short_names=("eq", "eqs")):
    """The guaranteed and the maximum resources of a namespace. A namespace has at most one."""

    class Spec:
        """The guaranteed and the maximum amounts."""

        min: Annotated[
            dict[str, QuantityLike] | None,
            Meta(description="The guaranteed amounts. Others may use idle ones.", examples=[{"cpu": "4"}]),
        ] = None
        max: Annotated[
            dict[str, QuantityLike] | None,
            Meta(
                description="The maximum amounts; unlisted resources are not allowed. Unset: no limit.",
                examples=[{"cpu": "8", "memory": "16Gi"}],
            ),
        ] = None

    class Status:
        """The current use. The controller writes it."""

        used: dict[str, QuantityLike] | None = None

    spec: Spec = Spec()
    status: Status = Status()


#: Millicores for cpu, whole units for the rest.
Amounts = dict[str, int]

BASE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
#: The limit if no maximum is set.
UNLIMITED: Final = 2**63 - 1


def amounts_of(resources: Mapping[str, QuantityLike]) -> Amounts:
    """Return the counted resources of a list. The number of pods is not counted."""
    return {name: amount(name, given) for name, given in resources.items() if name in BASE or is_scalar(name)}


def add(total: Amounts, more: Mapping[str, int], sign: int = 1) -> None:
    """Add ``sign`` times the amounts in place."""
    for name, value in more.items():
        total[name] = total.get(name, 0) + sign * value


def sum_of(parts: Iterable[Mapping[str, int]]) -> Amounts:
    """Return the sum of amounts."""
    total: Amounts = {}
    for part in parts:
        add(total, part)
    return total


def request_of(pod: Pod) -> Amounts:
    """Return a pod's charge: the sum of its containers or its largest init container, plus overhead.

    Sidecars count like other init containers. Pod-level requests do not count.
    """
    total = sum_of(amounts_of(container.resources.requests) for container in pod.spec.containers)
    for container in pod.spec.init_containers:
        for name, value in amounts_of(container.resources.requests).items():
            total[name] = max(total.get(name, 0), value)
    add(total, amounts_of(pod.spec.overhead))
    return total


def over(asked: Mapping[str, int], used: Mapping[str, int], limit: Mapping[str, int], otherwise: int) -> bool:
    """Return whether the sum of two amounts exceeds a limit in any resource.

    Resources other than cpu, memory and storage count only if ``asked`` contains them. Resources that the limit does
    not contain are limited to ``otherwise``; cpu, memory and storage to 0.
    """
    for name in BASE:
        if asked.get(name, 0) + used.get(name, 0) > limit.get(name, 0):
            return True
    for name, value in asked.items():
        if name not in BASE and value + used.get(name, 0) > limit.get(name, otherwise):
            return True
    return False
