"""The resource requests of pods, their quality-of-service classes, and the names of resources.

The request of a pod is more than the sum of its containers. Init containers run before the others, so their maximum
counts; sidecars run with them; a pod can have pod-level requests; the runtime class adds overhead; and a pod that is
being resized counts with the maximum of allocated and requested resources. Quantities are added exactly and rounded up
at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from mooring.api.label_validation import is_label_key
from mooring.api.quantity import (
    ZERO,
    Quantity,
    QuantityError,
    QuantityLike,
    format_quantity,
    milli_value,
    parse_quantity,
    value,
)
from mooring.releases import Release
from mooring.unexpected_errors import shortened

if TYPE_CHECKING:
    from mooring.api.pod import Container, ContainerPort, ContainerStatus, Pod, ResourceRequirements

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

#: The assumed requests of a container without requests when nodes are scored (millicores; bytes).
DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 * 1024 * 1024

#: Requests and limits.
Bounds = tuple[Mapping[str, QuantityLike] | None, Mapping[str, QuantityLike] | None]

#: The maximum length of resource names in messages; longer names are truncated.
_MAX_NAME: Final = 100
_QOS_RESOURCES: Final = (CPU, MEMORY)
_HUGEPAGES: Final = "hugepages-"
_ATTACHABLE: Final = "attachable-volumes-"
_NONZERO_AMOUNTS: Final[dict[str, int]] = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY}
_NONZERO: Final[dict[str, Quantity]] = {CPU: Quantity(DEFAULT_MILLI_CPU, -3), MEMORY: Quantity(DEFAULT_MEMORY)}

_Amounts = dict[str, Quantity]


def is_native(name: str) -> bool:
    """Return whether the resource is native: without a domain, or in `kubernetes.io/`."""
    return "/" not in name or is_prefixed_native(name)


def is_prefixed_native(name: str) -> bool:
    """Return whether the resource has the domain of Kubernetes."""
    return "kubernetes.io/" in name


def is_hugepages(name: str) -> bool:
    """Return whether the resource is huge pages."""
    return name.startswith(_HUGEPAGES)


def is_attachable(name: str) -> bool:
    """Return whether the resource counts attached volumes."""
    return name.startswith(_ATTACHABLE)


@functools.lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Return whether the resource is an extended resource, such as `nvidia.com/gpu`."""
    if is_native(name) or name.startswith("requests."):
        return False
    return is_label_key(f"requests.{name}")


@functools.lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Return whether kube-scheduler counts the resource as a scalar resource."""
    return is_extended(name) or is_hugepages(name) or is_prefixed_native(name) or is_attachable(name)


@functools.lru_cache(maxsize=4096)
def is_tracked(name: str) -> bool:
    """Return whether kube-scheduler counts requests for the resource."""
    return name in {CPU, MEMORY, EPHEMERAL_STORAGE} or is_scalar(name)


@functools.lru_cache(maxsize=4096)
def is_pod_level(name: str) -> bool:
    """Return whether the resource is allowed in pod-level requests."""
    return name in {CPU, MEMORY} or is_hugepages(name)


def amount(name: str, quantity: QuantityLike) -> int:
    """Return a quantity in the unit of the resource: CPU in millicores, others in whole units, rounded up."""
    return milli_value(quantity) if name == CPU else value(quantity)


def amounts(resources: Mapping[str, QuantityLike]) -> dict[str, int]:
    """Return a resource list, such as a node's allocatable, in the units of a scheduler."""
    found = {}
    for name, quantity in resources.items():  # without a call of ``amount`` for each: every new template needs them
        found[name] = milli_value(quantity) if name == CPU else value(quantity)
    return found


def format_amount(resource: str, amount: int) -> str:
    """Return an amount in the unit of the resource as a Kubernetes quantity."""
    binary = resource in (MEMORY, EPHEMERAL_STORAGE) or is_hugepages(resource)
    return format_quantity(amount, binary=binary, milli=resource == CPU)


def check_amounts(field: str, amounts: Mapping[str, QuantityLike] | None) -> None:
    """Raise a QuantityError that names the field and the resource if a quantity cannot be parsed."""
    for name, quantity in (amounts or {}).items():
        try:
            parse_quantity(quantity)
        except QuantityError as error:
            raise QuantityError(f"{field}: {shortened(name, _MAX_NAME)}: {error}") from None


class RequestRules(NamedTuple):
    """What counts as a request of a pod, beside its containers and overhead. Releases and feature gates differ."""

    #: Whether pod-level requests count.
    pod_level: bool = True
    #: Whether pod-level resources in the status count, for pods on a node.
    pod_level_status: bool = True
    #: Whether a pod that is being resized counts with the maximum of sums over its containers, as since 1.37, instead
    #: of a sum of maxima.
    sums: bool = False
    #: Whether what the devices of its claims take from the node counts.
    claims: bool = False

    @classmethod
    def of(cls, release: Release, *, claims: bool = False) -> RequestRules:
        """Return the rules of a release with its gates. ``claims`` is whether those of the pod may count."""
        return cls(
            pod_level=release.enabled("PodLevelResources"),
            pod_level_status=release.enabled("InPlacePodLevelResourcesVerticalScaling"),
            sums=release.resized_requests_by_sum,
            claims=claims and release.enabled("DRANodeAllocatableResources"),
        )


DEFAULT_RULES: Final = RequestRules()


def pod_requests(pod: Pod, *, use_status: bool = False, rules: RequestRules = DEFAULT_RULES) -> dict[str, int]:
    """Return the requests of a pod: CPU in millicores, others in whole units, rounded up.

    `use_status` includes allocated resources, for pods on a node. A request of 0 is in the result; an absent one is
    not. A pod that is being resized counts with the maximum of requested, allocated and actual resources.
    """
    if _is_simple(pod, rules, use_status=use_status):
        return amounts(pod.spec.containers[0].resources.requests)
    return _rounded(_total(pod, rules, use_status=use_status, defaults={}))


def pod_requests_nonzero(pod: Pod, *, use_status: bool = False, rules: RequestRules = DEFAULT_RULES) -> dict[str, int]:
    """Return the requests with 100m CPU and 200Mi memory for each container without requests.

    A pod with pod-level requests gets the default only for resources that neither it nor a container requests.
    """
    if _is_simple(pod, rules, use_status=use_status):
        asked = amounts(pod.spec.containers[0].resources.requests)
        return {**_NONZERO_AMOUNTS, **asked}
    defaults = _NONZERO
    if rules.pod_level and has_pod_level_requests(pod):
        known = _total(pod, rules, use_status=use_status, defaults={})
        defaults = {name: default for name, default in _NONZERO.items() if name not in known}
    return _rounded(_total(pod, rules, use_status=use_status, defaults=defaults))


def placed_pod_requests(pod: Pod, rules: RequestRules) -> tuple[dict[str, int], dict[str, int]]:
    """Return what ``pod_requests`` and ``pod_requests_nonzero`` return for a pod on a node (``use_status``)."""
    if _is_simple(pod, rules, use_status=True):
        asked = amounts(pod.spec.containers[0].resources.requests)
        return asked, {**_NONZERO_AMOUNTS, **asked}
    return pod_requests(pod, use_status=True, rules=rules), pod_requests_nonzero(pod, use_status=True, rules=rules)


def pod_requests_for_score(pod: Pod, *, use_status: bool = True, rules: RequestRules = DEFAULT_RULES) -> dict[str, int]:
    """Return the requests as allocation scorers count them.

    Each container without requests has the defaults, even if the pod has pod-level requests.
    """
    return _rounded(_total(pod, rules, use_status=use_status, defaults=_NONZERO))


def claim_amounts(pod: Pod) -> dict[str, Quantity]:
    """Return what the devices of a pod's claims take from the resources of its node, by its status."""
    total: _Amounts = {}
    for claim in pod.status.node_allocatable_resource_claim_statuses:
        for mapped in claim.mapping:
            if mapped.quantity is not None:
                _add(total, {mapped.name: parse_quantity(mapped.quantity)})
        for overhead in claim.overhead:
            needed = ZERO if overhead.per_pod is None else parse_quantity(overhead.per_pod)
            if overhead.per_container is not None and claim.containers:
                needed = needed.plus(parse_quantity(overhead.per_container).times(Quantity(len(claim.containers))))
            _add(total, {overhead.name: needed})
    return total


def container_amounts(pod: Pod, *, limits: bool = False) -> dict[str, Quantity]:
    """Return the requests of all containers together, or their limits, without those of the pod."""
    if limits:
        return _added_up(pod, lambda container: _parsed(container.resources.limits))
    return _added_up(pod, lambda container: _parsed(container.resources.requests))


def has_pod_level_requests(pod: Pod) -> bool:
    """Return whether the pod has pod-level requests."""
    return pod.spec.resources is not None and any(is_pod_level(name) for name in pod.spec.resources.requests)


def is_resize_infeasible(pod: Pod) -> bool:
    """Return whether the node marked the resize as infeasible."""
    return _resize_reason(pod) == "Infeasible"


def container_host_ports(pod: Pod) -> list[ContainerPort]:
    """Return the host ports of sidecars and containers."""
    containers = pod.spec.containers
    if pod.spec.init_containers:
        containers = (*(each for each in pod.spec.init_containers if each.is_sidecar), *containers)
    return [port for container in containers for port in container.ports if port.host_port > 0]


def _resize_reason(pod: Pod) -> str | None:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason
    return None


def _is_simple(pod: Pod, rules: RequestRules, *, use_status: bool) -> bool:
    """Return whether the request of the pod is that of its only container, as for most pods."""
    spec, status = pod.spec, pod.status
    return (
        len(spec.containers) == 1
        and not spec.init_containers
        and not spec.overhead
        and spec.resources is None
        and not (use_status and status.container_statuses)
        and not (use_status and rules.sums and status.allocated_resources)
        and not (use_status and rules.sums and status.conditions and is_resize_infeasible(pod))
        and not (rules.claims and status.node_allocatable_resource_claim_statuses)
    )


def _rounded(total: _Amounts) -> dict[str, int]:
    return {name: quantity.scaled(-3 if name == CPU else 0) for name, quantity in total.items()}


def _total(pod: Pod, rules: RequestRules, *, use_status: bool, defaults: _Amounts) -> _Amounts:
    of_claims = claim_amounts(pod) if rules.claims else {}
    if use_status and rules.sums:
        total = _resized_total(pod, rules, defaults, of_claims)
    else:
        total = _containers_total(pod, use_status=use_status, defaults=defaults)
        _add(total, of_claims)
    if rules.pod_level and pod.spec.resources is not None:
        use_status = use_status and rules.pod_level_status
        total.update(_pod_level_requests(pod, pod.spec.resources, use_status=use_status, sums=rules.sums))
    _add(total, _parsed(pod.spec.overhead))
    return total


def _pod_level_requests(pod: Pod, asked: ResourceRequirements, *, use_status: bool, sums: bool) -> _Amounts:
    """Apply pod-level requests, which replace those of the containers."""
    spec = {name: quantity for name, quantity in _parsed(asked.requests).items() if is_pod_level(name)}
    given = pod.status.resources
    if not use_status or given is None:
        return spec
    effective = _effective(pod, asked.requests, given.requests, pod.status.allocated_resources)
    if sums:
        return {name: quantity for name, quantity in effective.items() if spec and is_pod_level(name)}
    return {name: effective.get(name, ZERO) for name in spec}


def _containers_total(pod: Pod, *, use_status: bool, defaults: _Amounts) -> _Amounts:
    statuses = _statuses(pod) if use_status else {}
    # The statuses of init containers that end are ignored.
    for container in pod.spec.init_containers if statuses else ():
        if not container.is_sidecar:
            statuses.pop(container.name, None)
    return _added_up(pod, lambda container: _container(pod, container, statuses, defaults))


def _resized_total(pod: Pod, rules: RequestRules, defaults: _Amounts, of_claims: _Amounts) -> _Amounts:
    """Return the maximum of requested, allocated and actual resources, each added up over the containers.

    What claims take is part of the actual resources, and of the allocated ones of the whole pod.
    """
    statuses, infeasible = _statuses(pod), is_resize_infeasible(pod)

    def added_up(choose: Callable[[ContainerStatus], Mapping[str, QuantityLike]] | None) -> _Amounts:
        def requests(container: Container) -> _Amounts:
            status = statuses.get(container.name)
            found = choose(status) if choose is not None and status is not None else None
            if not found:
                found = {} if choose is not None and infeasible else container.resources.requests
            return _with_defaults(_parsed(found), defaults)

        total = _added_up(pod, requests)
        if choose is not _actual:
            _add(total, of_claims)
        return total

    total: _Amounts = {} if infeasible else added_up(None)
    given = pod.status.resources
    if rules.pod_level_status and pod.status.allocated_resources and given is not None and given.requests:
        _raise(total, _parsed(given.requests))
        _raise(total, _parsed(pod.status.allocated_resources))
    else:
        _raise(total, added_up(lambda status: status.allocated_resources))
        _raise(total, added_up(_actual))
    return total


def _actual(status: ContainerStatus) -> Mapping[str, QuantityLike]:
    """Return the actual resources of a container; the allocated ones if the actual ones are not reported."""
    return (status.resources.requests if status.resources is not None else {}) or status.allocated_resources


def _added_up(pod: Pod, requests: Callable[[Container], _Amounts]) -> _Amounts:
    """Add up the requests of containers; init containers count with their maximum, and sidecars with both."""
    total: _Amounts = {}
    for container in pod.spec.containers:
        _add(total, requests(container))
    sidecars: _Amounts = {}
    peak: _Amounts = {}
    for container in pod.spec.init_containers:
        own = requests(container)
        if container.is_sidecar:
            _add(total, own)
            _add(sidecars, own)
            _raise(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise(peak, own)
    _raise(total, peak)
    return total


def _container(pod: Pod, container: Container, statuses: Mapping[str, ContainerStatus], defaults: _Amounts) -> _Amounts:
    """Return the requests of one container as a new dictionary."""
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        own = _parsed(container.resources.requests)
    else:
        own = _effective(pod, container.resources.requests, status.resources.requests, status.allocated_resources)
    return _with_defaults(own, defaults)


def _with_defaults(own: _Amounts, defaults: _Amounts) -> _Amounts:
    for name, default in defaults.items():
        own.setdefault(name, default)
    return own


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    return {each.name: each for each in (*status.container_statuses, *status.init_container_statuses)}


def _effective(
    pod: Pod,
    spec: Mapping[str, QuantityLike],
    given: Mapping[str, QuantityLike],
    allocated: Mapping[str, QuantityLike],
) -> _Amounts:
    """Return the maximum of requested, actual and allocated resources; an infeasible resize does not count."""
    result: _Amounts = {} if is_resize_infeasible(pod) else _parsed(spec)
    _raise(result, _parsed(given))
    _raise(result, _parsed(allocated))
    return result


def _parsed(resources: Mapping[str, QuantityLike]) -> _Amounts:
    return {name: parse_quantity(quantity) for name, quantity in resources.items()}


def _add(total: _Amounts, more: _Amounts) -> None:
    for name, quantity in more.items():
        known = total.get(name)
        total[name] = quantity if known is None else known.plus(quantity)


def _raise(total: _Amounts, other: _Amounts) -> None:
    for name, quantity in other.items():
        known = total.get(name)
        total[name] = quantity if known is None else known.larger(quantity)


def qos_class(pod: Pod) -> str:
    """Return the quality-of-service class: `Guaranteed`, `Burstable` or `BestEffort`."""
    spec, pod_level = pod.spec, pod.spec.resources
    if pod_level is not None and (pod_level.requests or pod_level.limits):
        return qos_of([(pod_level.requests, pod_level.limits)])
    containers = (*spec.containers, *spec.init_containers)
    return qos_of((each.resources.requests, each.resources.limits) for each in containers)


def qos_of(resources: Iterable[Bounds]) -> str:
    """Return the class for requests and limits of the containers, or of the pod."""
    requested = False
    guaranteed = True
    for given, bounds in resources:
        requests, limits = _positive(given), _positive(bounds)
        requested = requested or bool(requests) or bool(limits)
        same = all(name in requests and requests[name] == limits[name] for name in limits)
        if len(limits) != len(_QOS_RESOURCES) or not same:
            guaranteed = False
    if not requested:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(amounts: Mapping[str, QuantityLike] | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in _QOS_RESOURCES:
        if amounts and name in amounts:
            milli = parse_quantity(amounts[name]).scaled(-3)
            if milli > 0:
                found[name] = milli
    return found
