"""What a pod asks for, as Volcano adds it up: its peak, its overhead, and one of ``pods``."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.pod import Container, ContainerStatus, Pod
from mooring.api.quantity import QuantityLike, parse_quantity
from mooring.batch.resource import CPU, MEMORY, PODS, Resource

#: What a pod may ask for as a whole.
_POD_LEVEL = (CPU, MEMORY)
_HUGEPAGES = "hugepages-"


def pod_request(pod: Pod) -> Resource:
    """The pod's request: the most that its containers, or one of its init containers, need at a time."""
    statuses = {status.name: status for status in pod.status.container_statuses}
    result = Resource()
    for container in pod.spec.containers:
        result.add(Resource.of(_requests(pod, container, statuses.get(container.name))))
    _count_init_containers(pod, result)
    result.add_scalar(PODS, 1.0)
    _apply_pod_level(pod, result)
    if pod.spec.overhead:
        result.add(Resource.of(pod.spec.overhead))
    return result


def _count_init_containers(pod: Pod, result: Resource) -> None:
    statuses = {status.name: status for status in pod.status.init_container_statuses}
    beside, peak = Resource(), Resource()
    for container in pod.spec.init_containers:
        if container.is_sidecar:
            own = Resource.of(_requests(pod, container, statuses.get(container.name)))
            result.add(own)
            beside.add(own)
            peak.raise_to(beside)
        else:
            peak.raise_to(Resource.of(container.resources.requests).add(beside))
    result.raise_to(peak)


def _requests(pod: Pod, container: Container, status: ContainerStatus | None) -> Mapping[str, QuantityLike]:
    """The container's requests; while it is resized, what it has and what it wants, whichever is more."""
    asked = container.resources.requests
    if status is None or status.resources is None:
        return asked
    infeasible = any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible" for condition in pod.status.conditions
    )
    given = [status.resources.requests, status.allocated_resources]
    amounts: dict[str, QuantityLike] = {} if infeasible else dict(asked)
    for other in given:
        for name, quantity in other.items():
            if name not in amounts or parse_quantity(quantity).exceeds(parse_quantity(amounts[name])):
                amounts[name] = quantity
    return amounts


def _apply_pod_level(pod: Pod, result: Resource) -> None:
    if pod.spec.resources is None:
        return
    asked = Resource.of(pod.spec.resources.requests)
    for name in pod.spec.resources.requests:
        if name == CPU:
            result.cpu = asked.cpu
        elif name == MEMORY:
            result.memory = asked.memory
        elif name.startswith(_HUGEPAGES):
            result.add_scalar(name, asked.get(name) - result.get(name))
