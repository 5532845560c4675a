"""LeastNUMANodes: the fewer zones a pod needs, and the nearer they are to each other, the better."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from mooring.framework import MAX_SCORE
from mooring.plugins.node_resource_topology.demand import Demand
from mooring.plugins.node_resource_topology.zones import Nanos, Topology, Zone

#: What an unknown distance counts as.
_FAR: Final = 255

#: The zones' places in the list, and whether no others of that number are nearer to each other.
Choice = tuple[tuple[int, ...], bool]


def least_zones(topology: Topology, demand: Demand) -> int:
    """The score of a node: by the container that needs most zones, or by the pod."""
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
    """Of so many zones that have room together, those that are nearest to each other."""
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
    """The mean over all ordered pairs, each zone with itself included."""
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
    """Charge zones for a container, the lowest number first.

    A list that is out of order is charged at the places that the numbers name, as the plugin we follow does it; a list
    with gaps, which is more than that one bears, by the numbers.
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
                amount -= taken  # noqa: PLW2901 - what is still wanted
