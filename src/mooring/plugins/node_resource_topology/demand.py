"""A pod's requests from zones: in total, and container by container."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.pod import Container, Pod
from mooring.api.quantity import QuantityLike
from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages, is_native, qos_class
from mooring.plugins.node_resource_topology.zones import UNIT, Nanos, nanos

_STORAGE: Final = "storage"


class Demand(msgspec.Struct, frozen=True):
    """A pod's requests in billionths, including requests of 0."""

    #: Whether cpu, memory and huge pages are exclusive: only then zones must have enough of them.
    guaranteed: bool
    #: Whether zones are evaluated; not for best-effort pods without devices.
    matters: bool
    #: The total: the sum of the containers or the largest init container, plus overhead.
    whole: Nanos
    #: Init containers, and whether each is a sidecar.
    inits: tuple[tuple[bool, Nanos], ...]
    containers: tuple[Nanos, ...]

    def by_quantity(self, resource: str) -> bool:
        """Return whether a zone must have enough of a resource, not only some."""
        return self.guaranteed or not is_numa_affine(resource)

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for pods with equal requests."""
        requests = (self.whole, *(request for _, request in self.inits), *self.containers)
        sidecars = tuple(sidecar for sidecar, _ in self.inits)
        return (self.guaranteed, self.matters, sidecars, *(tuple(sorted(each.items())) for each in requests))


def is_numa_affine(resource: str) -> bool:
    """Return whether a resource always belongs to a zone."""
    return resource in (CPU, MEMORY) or is_hugepages(resource)


def is_host_level(resource: str) -> bool:
    """Return whether a resource may belong to the whole node: it does if no zone lists it."""
    return resource in (EPHEMERAL_STORAGE, _STORAGE) or not is_native(resource)


def demand_of(pod: Pod) -> Demand:
    """Return a pod's requests. Sidecars count like other init containers."""
    spec, qos = pod.spec, qos_class(pod)
    return Demand(
        guaranteed=qos == "Guaranteed",
        matters=qos != "BestEffort" or any(not is_native(name) for name in _asked(pod)),
        whole=effective(pod),
        inits=tuple((container.is_sidecar, _nanos(container.resources.requests)) for container in spec.init_containers),
        containers=tuple(_nanos(container.resources.requests) for container in spec.containers),
    )


def effective(pod: Pod) -> Nanos:
    """Return a pod's total requests."""
    total: Nanos = {}
    for container in pod.spec.containers:
        _add(total, container.resources.requests)
    for container in pod.spec.init_containers:
        for name, amount in _nanos(container.resources.requests).items():
            total[name] = max(total.get(name, amount), amount)
    _add(total, pod.spec.overhead)
    return total


def is_exclusive(pod: Pod) -> bool:
    """Return whether a pod uses exclusive resources: a device, whole cpus, or guaranteed memory."""
    guaranteed = qos_class(pod) == "Guaranteed"
    for container in _containers(pod):
        for name, amount in _nanos(container.resources.requests).items():
            if not is_native(name):
                return True
            if guaranteed and amount > 0 and (is_numa_affine(name) and (name != CPU or amount % UNIT == 0)):
                return True
    return False


def _containers(pod: Pod) -> Iterable[Container]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _asked(pod: Pod) -> Iterable[str]:
    return (name for container in _containers(pod) for name in container.resources.requests)


def _nanos(requests: Mapping[str, QuantityLike]) -> Nanos:
    return {name: nanos(quantity) for name, quantity in requests.items()}


def _add(total: Nanos, requests: Mapping[str, QuantityLike]) -> None:
    for name, amount in _nanos(requests).items():
        total[name] = total.get(name, 0) + amount
