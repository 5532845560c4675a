"""How well a pod fits into the zones of one node: the formulas, node by node and exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mooring.framework import MAX_SCORE
from mooring.plugins.node_resource_topology.demand import Demand
from mooring.plugins.node_resource_topology.least_zones import least_zones
from mooring.plugins.node_resource_topology.zones import Nanos, Topology, whole

#: Request, what a zone has left, weights of resources -> score.
ZoneScore = Callable[[Nanos, Nanos, Mapping[str, int]], int]

LEAST_NUMA_NODES: Final = "LeastNUMANodes"


def score(topology: Topology, demand: Demand, strategy: str, weights: Mapping[str, int]) -> int:
    """The score of a node for a pod whose resources are its own."""
    if strategy == LEAST_NUMA_NODES:
        return least_zones(topology, demand)
    if not topology.single:
        return 0
    of_zone = _STRATEGIES[strategy]
    if topology.pod_scope:
        return _combined(topology, demand.whole, of_zone, weights)
    requests = [request for request in (*(init for _, init in demand.inits), *demand.containers) if request]
    total = sum(_combined(topology, request, of_zone, weights) for request in requests)
    return total // len(requests) if requests else 0


def _combined(topology: Topology, request: Nanos, of_zone: ZoneScore, weights: Mapping[str, int]) -> int:
    """The lowest score of a zone that is not 0."""
    if not request:
        return 0
    scores = (of_zone(request, zone.left, weights) for zone in topology.zones)
    return min((each for each in scores if each), default=0)


def _weighted(of_resource: Callable[[int, int], int], request: Nanos, left: Nanos, weights: Mapping[str, int]) -> int:
    total = weight_sum = 0
    for name, amount in request.items():
        weight = weights.get(name, 1)
        weight_sum += weight
        room = left.get(name, 0)
        if room > 0 and amount <= room:
            total += weight * of_resource(whole(amount), whole(room))
    return total // weight_sum


def _least_allocated(request: Nanos, left: Nanos, weights: Mapping[str, int]) -> int:
    return _weighted(lambda amount, room: (room - amount) * MAX_SCORE // room, request, left, weights)


def _most_allocated(request: Nanos, left: Nanos, weights: Mapping[str, int]) -> int:
    return _weighted(lambda amount, room: amount * MAX_SCORE // room, request, left, weights)


def _balanced_allocation(request: Nanos, left: Nanos, _weights: Mapping[str, int]) -> int:
    shares = []
    for name, amount in request.items():
        room = whole(left.get(name, 0))
        share = whole(amount) / room if room else 1.0
        if share > 1:
            return 0
        shares.append(share)
    return int((1 - variance(shares)) * MAX_SCORE)


def variance(values: list[float]) -> float:
    """The sample variance, with the usual correction for rounding; 0 for a single value."""
    count = len(values)
    if count < 2:
        return 0.0
    mean = sum(values) / count
    offsets = [value - mean for value in values]
    return (sum(each * each for each in offsets) - sum(offsets) ** 2 / count) / (count - 1)


_STRATEGIES: Final[dict[str, ZoneScore]] = {
    "LeastAllocated": _least_allocated,
    "MostAllocated": _most_allocated,
    "BalancedAllocation": _balanced_allocation,
}
