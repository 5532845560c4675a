"""Node allocatable resources: what the devices of a pod's claims take from the resources of its node.

A slice can say that a device is a part of the node's CPU or memory, or that its use needs some. With the feature gate
DRANodeAllocatableResources, these amounts count as requests of the pod. They depend on the devices, so they are known
only when Filter has found some, and differ between nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.devices import (
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableMapping,
    ResourceClaim,
    ResourceSliceSpec,
)
from mooring.api.node_selectors import compile_node_selector
from mooring.api.pod import (
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from mooring.api.quantity import Quantity, QuantityLike, format_like, parse_quantity
from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, RequestRules, is_hugepages, pod_requests
from mooring.framework import NodeInfo, Nodes, Status
from mooring.plugins.dynamic_resources.device_index import DeviceIndex
from mooring.plugins.dynamic_resources.pod_level_coverage import uncovered_by_pod_level
from mooring.releases import Release

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]

GATE: Final = "DRANodeAllocatableResources"
_ONE: Final = Quantity(1)
_ALWAYS_COUNTED: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class NodeAllocatableError(ValueError):
    """The devices of a claim cannot be evaluated. The text is kube-scheduler's."""


class ClaimDevices(NamedTuple):
    """An allocated claim, and its devices as a node knows them; a text is why a device is unknown."""

    claim: ResourceClaim
    results: Sequence[DeviceRequestAllocationResult]
    devices: Sequence[Device | str]

    @property
    def is_metered(self) -> bool:
        """Whether a device takes resources of the node."""
        return any(isinstance(each, Device) and each.node_allocatable_resources for each in self.devices)


class Demand(NamedTuple):
    """What a pod needs of a node with the devices that it would get there."""

    #: What the pod's status will say about its claims.
    statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    #: The resources that have to be free.
    requests: tuple[tuple[str, int], ...] = ()
    #: Why the pod cannot use the devices on any node.
    status: Status | None = None


#: The demand of a pod whose devices take nothing from the node.
NO_DEMAND: Final = Demand()
#: The demand, and the places of its nodes in a view.
DemandGroup = tuple[Demand, npt.NDArray[np.intp]]


class NodeAllocatable:
    """Computes demands, and compares them with the free resources of nodes."""

    def __init__(self, index: DeviceIndex, release: Release) -> None:
        self._index = index
        self._rules = RequestRules.of(release, claims=True)

    # Claims that other pods use

    def has_mapped_device(self, claim: ResourceClaim) -> bool:
        """Return whether a device of an allocated claim is itself a part of a node's resources."""
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            found = self._device(result, None)
            if isinstance(found, Device) and any(each.mapping for each in found.node_allocatable_resources.values()):
                return True
        return False

    # Devices of allocated claims

    def may_be_metered(self, claim: ResourceClaim) -> bool:
        """Return whether a device of an allocated claim takes resources of some node."""
        allocation = claim.status.allocation
        return allocation is not None and any(
            device.node_allocatable_resources
            for result in allocation.devices.results
            for each in self._index.slices_of_pool((result.driver, result.pool))
            for device in each.spec.devices
            if device.name == result.device
        )

    def on_node(self, claim: ResourceClaim, node: NodeInfo) -> ClaimDevices:
        """Return an allocated claim with its devices as a node knows them."""
        allocation = claim.status.allocation
        results = allocation.devices.results if allocation is not None else ()
        return ClaimDevices(claim, results, [self._device(each, node) for each in results])

    def _device(self, result: DeviceRequestAllocationResult, node: NodeInfo | None) -> Device | str:
        """Return the device of a result; a text if a node does not know it. Without a node, any slice counts."""
        for each in self._index.slices_of_pool((result.driver, result.pool)):
            if node is not None and not _reaches(each.spec, node):
                continue
            for device in each.spec.devices:
                if device.name != result.device:
                    continue
                if node is not None and each.spec.per_device_node_selection and not _is_of_node(device, node):
                    return f"device {result.device} does not match node"
                return device
        return f"device {result.device} not found in pool {result.pool} for driver {result.driver}"

    # Demands

    def demand(self, pod: Pod, names: Mapping[str, str], claims: Iterable[ClaimDevices]) -> Demand:
        """Return the demand of a pod; ``names`` are the uids of its claims by their names in the pod.

        A device of the claims takes something. Raises NodeAllocatableError.
        """
        found: dict[str, NodeAllocatableResourceClaimStatus] = {}
        for each in claims:
            if each.is_metered and (status := _claim_status(each)) is not None:
                containers = tuple(
                    container.name
                    for container in (*pod.spec.init_containers, *pod.spec.containers)
                    for use in container.resources.claims
                    if names.get(use.name) == each.claim.uid
                )
                found[each.claim.uid] = msgspec.structs.replace(status, containers=containers)
        return self._demand(pod, tuple(sorted(found.values(), key=lambda status: status.resource_claim_name)))

    def _demand(self, pod: Pod, statuses: tuple[NodeAllocatableResourceClaimStatus, ...]) -> Demand:
        status = msgspec.structs.replace(pod.status, node_allocatable_resource_claim_statuses=statuses)
        with_claims = msgspec.structs.replace(pod, status=status)
        if self._rules.pod_level and statuses and (problem := uncovered_by_pod_level(with_claims)):
            return Demand(status=Status.unresolvable(problem))
        requests = pod_requests(with_claims, rules=self._rules)
        counted = [(name, requests[name]) for name in _ALWAYS_COUNTED if requests.get(name, 0) > 0]
        counted += [(name, amount) for name, amount in requests.items() if is_hugepages(name)]
        return Demand(statuses, tuple(counted))


class Rejections:
    """Rejects nodes whose free resources do not suffice: sets codes, and adds the statuses that they stand for."""

    def __init__(self, codes: Codes, statuses: list[Status], first: int) -> None:
        """The code of the first of ``statuses`` is ``first``."""
        self._codes = codes
        self._statuses = statuses
        self._first = first

    def add(self, places: npt.NDArray[np.intp] | Mask, status: Status) -> None:
        """Reject some nodes with a status."""
        self._codes[places] = self._first + len(self._statuses)
        self._statuses.append(status)

    def compare(self, groups: Iterable[DemandGroup], nodes: Nodes, requested: Callable[[str], Ints]) -> None:
        """Reject the nodes without room; ``requested`` returns what is in use of a resource."""
        for demand, places in groups:
            if demand.status is not None:
                self.add(places, demand.status)
                continue
            masks = []
            for name, wanted in demand.requests:
                offered = nodes.allocatable(name)[places]
                lacking = wanted > offered - requested(name)[places]
                masks += [lacking, lacking & (wanted > offered)]
            if any(map(np.any, masks)):
                self._add_lacking(demand, places, np.stack(masks))

    def _add_lacking(self, demand: Demand, places: npt.NDArray[np.intp], masks: Mask) -> None:
        combinations, which = np.unique(masks, axis=1, return_inverse=True)
        for number in range(combinations.shape[1]):
            lacking, hopeless = combinations[::2, number], combinations[1::2, number]
            if lacking.any():
                make = Status.unresolvable if hopeless.any() else Status.unschedulable
                names = [name for (name, _), lacks in zip(demand.requests, lacking.tolist(), strict=True) if lacks]
                self.add(places[which.reshape(-1) == number], make(*(f"Insufficient {name}" for name in names)))


def resources_of(groups: Iterable[DemandGroup]) -> Iterator[str]:
    """Return the resources that demands need, each once."""
    yield from dict.fromkeys(name for demand, _ in groups for name, _ in demand.requests)


def _claim_status(allocated: ClaimDevices) -> NodeAllocatableResourceClaimStatus | None:
    """Add up what the devices of a claim take; None if nothing. Raises NodeAllocatableError."""
    claim = allocated.claim
    mapped: dict[str, _Total] = {}
    for_pod: dict[str, _Total] = {}
    for_container: dict[str, _Total] = {}
    for result, device in zip(allocated.results, allocated.devices, strict=True):
        if isinstance(device, str):
            where = f"claim {claim.key}, device {result.device}, driver {result.driver}"
            raise NodeAllocatableError(f"{where}: {device}")
        for resource, given in device.node_allocatable_resources.items():
            if given.mapping is not None:
                amount = _mapped_amount(given.mapping, result, resource, claim)
                if amount is not None:
                    _add(mapped, resource, amount)
            if given.overhead is not None and given.overhead.per_pod is not None:
                _add(for_pod, resource, _Total.of(given.overhead.per_pod))
            if given.overhead is not None and given.overhead.per_container is not None:
                _add(for_container, resource, _Total.of(given.overhead.per_container))
    if not (mapped or for_pod or for_container):
        return None
    return NodeAllocatableResourceClaimStatus(
        resource_claim_name=claim.name,
        mapping=tuple(NodeAllocatableMappedResources(name=name, quantity=mapped[name].text) for name in sorted(mapped)),
        overhead=tuple(
            NodeAllocatableOverheadResources(
                name=name,
                per_pod=for_pod[name].text if name in for_pod else None,
                per_container=for_container[name].text if name in for_container else None,
            )
            for name in sorted({*for_pod, *for_container})
        ),
    )


class _Total(NamedTuple):
    """An amount, and a quantity in whose form it is written."""

    amount: Quantity
    like: QuantityLike

    @classmethod
    def of(cls, quantity: QuantityLike) -> _Total:
        return cls(parse_quantity(quantity), quantity)

    @property
    def text(self) -> str:
        return format_like(self.amount, self.like)


def _add(totals: dict[str, _Total], name: str, more: _Total) -> None:
    known = totals.get(name)
    if known is not None:
        like = known.like if known.amount.unscaled else more.like
        more = _Total(known.amount.plus(more.amount), like)
    totals[name] = more


def _mapped_amount(
    mapping: NodeAllocatableMapping, result: DeviceRequestAllocationResult, resource: str, claim: ResourceClaim
) -> _Total | None:
    """Return which amount of a resource a device, or its consumed capacity, is; None if the mapping does not apply."""
    key = mapping.capacity_key
    if not key:
        return None if mapping.device_multiplier is None else _Total.of(mapping.device_multiplier)
    if result.consumed_capacity is None:
        raise NodeAllocatableError(
            f"claim {claim.key}, device {result.device}: ConsumedCapacity is nil, but Capacity key '{key}' is set in "
            f"NodeAllocatableResources for resource {resource}"
        )
    if key not in result.consumed_capacity:
        return None
    consumed = _Total.of(result.consumed_capacity[key])
    factor = _ONE if mapping.capacity_multiplier is None else parse_quantity(mapping.capacity_multiplier)
    return _Total(consumed.amount.times(factor), consumed.like)


def _reaches(spec: ResourceSliceSpec, node: NodeInfo) -> bool:
    if spec.node_name == node.name or spec.all_nodes:
        return True
    if spec.node_selector is not None:
        matcher = compile_node_selector(spec.node_selector)
        return matcher.error is None and matcher.matches(node.labels, node.name)
    return bool(spec.per_device_node_selection)


def _is_of_node(device: Device, node: NodeInfo) -> bool:
    if device.node_name == node.name or device.all_nodes:
        return True
    if device.node_selector is None:
        return False
    matcher = compile_node_selector(device.node_selector)
    return matcher.error is None and matcher.matches(node.labels, node.name)
