"""Scoring strategies of NodeResourceTopologyMatch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mooring.framework import MAX_SCORE
from mooring.plugins.node_resource_topology.demand import Demand
from mooring.plugins.node_resource_topology.zones import Nanos, Topology, Zone, whole

#: The value of an unknown distance.
_FAR: Final = 255

#: The zones' positions in the list, and whether they have the smallest possible distance.
Choice = tuple[tuple[int, ...], bool]


def least_zones(topology: Topology, demand: Demand) -> int:
    """Return the score of a node: by the container that needs the most zones, or by the pod."""
    zones = topology.zones
    left = [dict(zone.left) for zone in zones]
    if topology.pod_scope:
        requests: Sequence[Nanos] = (demand.whole,)
    else:
        requests = (*(request for _, request in demand.inits), *demand.containers)
    most, nearest = 0, True
    for request in requests:
        if not any(name in room for name in request for room in left):
            continue
        found = _required(zones, left, demand, request)
        if found is None:
            return 0
        chosen, is_nearest = found
        nearest = nearest and is_nearest
        most = max(most, len({zones[place].number for place in chosen}))
        _take(zones, left, request, chosen)
    if not most:
        return MAX_SCORE
    step = MAX_SCORE // topology.most_zones
    return max(0, MAX_SCORE - most * step + (step // 2 if nearest else 0))


def _required(zones: Sequence[Zone], left: Sequence[Nanos], demand: Demand, request: Nanos) -> Choice | None:
    for count in range(1, len(zones) + 1):
        found = _nearest(zones, left, demand, request, count)
        if found is not None:
            return found
    return None


def _nearest(zones: Sequence[Zone], left: Sequence[Nanos], demand: Demand, request: Nanos, count: int) -> Choice | None:
    """Return the zones with the smallest distance, of the sets of this size that have enough room."""
    combinations = list(itertools.combinations(range(len(zones)), count))
    distances = [_distance(zones, combination) for combination in combinations]
    best = min(_FAR, *distances)
    chosen, shortest = None, float(_FAR + 1)
    for combination, distance in zip(combinations, distances, strict=True):
        if not _has_room([left[place] for place in combination], demand, request):
            continue
        if distance == best:
            return combination, True
        if distance < shortest:
            chosen, shortest = combination, distance
    return (chosen, False) if chosen is not None else None


def _distance(zones: Sequence[Zone], combination: Sequence[int]) -> float:
    """Return the mean distance over all ordered pairs, including each zone with itself."""
    pairs = itertools.product(combination, repeat=2)
    total = sum(zones[here].costs.get(zones[there].number, _FAR) for here, there in pairs)
    return total / len(combination) ** 2


def _has_room(rooms: Sequence[Nanos], demand: Demand, request: Nanos) -> bool:
    for name, amount in request.items():
        if not all(name in room for room in rooms):
            return False
        if amount and demand.by_quantity(name) and sum(room[name] for room in rooms) < amount:
            return False
    return True


def _take(zones: Sequence[Zone], left: Sequence[Nanos], request: Nanos, chosen: Sequence[int]) -> None:
    """Subtract a container's request from zones, the lowest number first.

    A list that is not in order is charged by position, as upstream does; a list with gaps, on which upstream fails, by
    number.
    """
    places = sorted(chosen, key=lambda place: zones[place].number)
    numbers = [zone.number for zone in zones]
    if sorted(numbers) == list(range(len(zones))):
        places = [numbers[place] for place in places]
    for name, amount in request.items():
        for place in places:
            if not amount:
                break
            room = left[place].get(name)
            if room is not None:
                taken = min(amount, room)
                left[place][name] = room - taken
                amount -= taken  # noqa: PLW2901 - the remaining amount


#: Request, a zone's free amounts, weights of resources -> score.
ZoneScore = Callable[[Nanos, Nanos, Mapping[str, int]], int]

LEAST_NUMA_NODES: Final = "LeastNUMANodes"


def score(topology: Topology, demand: Demand, strategy: str, weights: Mapping[str, int]) -> int:
    """Return the score of a node for a pod with exclusive resources."""
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
    """Return the lowest non-zero score of a zone."""
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
    """Return the sample variance, corrected for rounding; 0 for a single value."""
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
