"""The exact alignment check of a pod with the NUMA zones of one node.

``zone_columns.py`` computes the same result for many nodes at once, for usual topologies.

"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mooring.plugins.node_resource_topology.demand import Demand, is_host_level
from mooring.plugins.node_resource_topology.zones import Nanos, Topology

#: Whether a node has a resource.
Offers = Callable[[str], bool]
#: A zone's number and its free amounts.
Room = tuple[int, Nanos]

FITS: Final = 0
STALE: Final = 1
POD: Final = 2
CONTAINER: Final = 3
INIT_CONTAINER: Final = 4
SIDECAR: Final = 5
#: The reasons of the codes.
REASONS: Final = {
    STALE: "invalid node topology data",
    POD: "cannot align pod",
    CONTAINER: "cannot align container",
    INIT_CONTAINER: "cannot align init container",
    SIDECAR: "cannot align sidecar container",
}


def misfit(topology: Topology, demand: Demand, offers: Offers) -> int:
    """Return the code of the first part of the pod that does not fit into one zone; FITS if there is none."""
    if not topology.single:
        return FITS
    rooms: list[Room] = [(zone.number, zone.left) for zone in topology.zones]
    if topology.pod_scope:
        return FITS if _zone_for(rooms, demand, demand.whole, offers) is not None else POD
    for sidecar, request in demand.inits:
        if _zone_for(rooms, demand, request, offers) is None:
            return SIDECAR if sidecar else INIT_CONTAINER
    rooms = [(number, dict(left)) for number, left in rooms]
    for request in demand.containers:
        chosen = _zone_for(rooms, demand, request, offers)
        if chosen is None:
            return CONTAINER
        _take((left for number, left in rooms if number == chosen), demand, request)
    return FITS


def _zone_for(rooms: list[Room], demand: Demand, request: Nanos, offers: Offers) -> int | None:
    """Return the lowest zone that has room for a request; None if there is none."""
    fitting: set[int] | None = None
    for name, amount in request.items():
        if not amount:
            continue
        if not offers(name):
            return None
        listing = [(number, left[name]) for number, left in rooms if name in left]
        if not listing and is_host_level(name):
            continue
        by_quantity = demand.by_quantity(name)
        enough = {number for number, left in listing if left >= amount or not by_quantity}
        fitting = enough if fitting is None else fitting & enough
        if not fitting:
            return None
    return min(fitting) if fitting is not None else 0


def _take(rooms: Iterable[Nanos], demand: Demand, request: Nanos) -> None:
    """Subtract a container's request from a zone."""
    for left in rooms:
        for name, amount in request.items():
            if name in left and demand.by_quantity(name):
                left[name] = max(0, left[name] - amount)
