"""Zones in columns: whether pods fit into them and how well, for many nodes at once.

Hot path. A node with a usual topology (up to eight zones, unique numbers, amounts in thousandths of a cpu or whole
units) has a column of amounts by resource and zone. ``alignment.py`` and ``strategies.py`` evaluate the others.

"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from mooring.framework import MAX_SCORE, NodeTable
from mooring.plugins.node_resource_topology import alignment
from mooring.plugins.node_resource_topology.demand import Demand, is_host_level
from mooring.plugins.node_resource_topology.zones import UNIT, Nanos, Topology

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
Codes = npt.NDArray[np.int8]

_MOST_ZONES: Final = 8
#: The maximum number of obsolete topologies in ``_known``.
_MOST_KNOWN: Final = 1024
#: Larger amounts might overflow when they are weighted.
_MOST: Final = 2**53
_ALWAYS_OFFERED: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})
#: The kinds of rows: no topology, an unreliable one, one without constraints, and two with constraints.
NONE, STALE, LOOSE, POD_SCOPE, CONTAINER_SCOPE = range(5)


class ZoneColumns:
    """The zones of all rows. ``get`` returns a node's topology, and whether it is reliable."""

    def __init__(self, table: NodeTable, get: Callable[[str], tuple[Topology | None, bool]]) -> None:
        self._table = table
        self._get = get
        self._cursor = table.node_cursor()
        self._slots: dict[str, int] = {}
        #: [resource, zone, row]: free amounts; -1 if a zone does not list the resource. Zones by number.
        self._left: Ints = np.full((4, 2, 64), -1, dtype=np.int64)
        self.kinds: Codes = np.zeros(64, dtype=np.int8)
        self.usual: Mask = np.zeros(64, dtype=np.bool_)
        #: The number of zones of each usual row.
        self._counts: Codes = np.zeros(64, dtype=np.int8)
        self.topologies: list[Topology | None] = []
        #: Rows with an unusual topology.
        self.odd: set[int] = set()
        #: Equal for rows whose topologies are equal; 0 for those without one.
        self.contents: npt.NDArray[np.int32] = np.zeros(64, dtype=np.int32)
        self._known: dict[Hashable, int] = {}
        #: Resource -> (version, which rows offer it).
        self._offering: dict[str, tuple[int, Mask]] = {}

    def mark(self, node_name: str) -> None:
        """Mark a node whose topology changed."""
        self._cursor.mark(node_name)

    def refresh(self) -> None:
        """Update the columns."""
        table = self._table
        if len(self._known) > _MOST_KNOWN + 4 * len(table):
            self._cursor.reset()
        changed = self._cursor.changed(len(table))
        if changed is None:
            self._known.clear()
            self.odd.clear()
            self._grow(len(table))
            self.topologies = [None] * len(table)
            for row in range(len(table)):
                self._write(row)
        else:
            for row in changed:
                self._write(row)
        self._cursor.advance()

    def _grow(self, rows: int) -> None:
        if rows > len(self.kinds):
            size = max(rows, 2 * len(self.kinds))
            self.kinds = np.zeros(size, dtype=np.int8)
            self.usual = np.zeros(size, dtype=np.bool_)
            self._counts = np.zeros(size, dtype=np.int8)
            self.contents = np.zeros(size, dtype=np.int32)
            self._left = np.full((*self._left.shape[:2], size), -1, dtype=np.int64)

    def _write(self, row: int) -> None:
        topology, fresh = self._get(self._table.nodes[row].name)
        self.topologies[row] = topology
        self._left[:, :, row] = -1
        self.usual[row] = False
        self.contents[row] = 0
        self.odd.discard(row)
        if topology is None:
            self.kinds[row] = NONE if fresh else STALE
            return
        self.kinds[row] = LOOSE if not topology.single else POD_SCOPE if topology.pod_scope else CONTAINER_SCOPE
        self.contents[row] = self._known.setdefault(topology.content, len(self._known) + 1)
        self.odd.add(row)  # until it proves to be usual
        zones = sorted(topology.zones, key=lambda zone: zone.number)
        if len(zones) > _MOST_ZONES or len({zone.number for zone in zones}) != len(zones):
            return
        amounts = [
            (self._slot(name), place, left, _grid(name))
            for place, zone in enumerate(zones)
            for name, left in zone.left.items()
        ]
        if any(left % grid or not 0 <= left // grid < _MOST for _, _, left, grid in amounts):
            return
        if len(zones) > self._left.shape[1]:
            more = np.full((self._left.shape[0], _MOST_ZONES, self._left.shape[2]), -1, dtype=np.int64)
            more[:, : self._left.shape[1]] = self._left
            self._left = more
        for slot, place, left, grid in amounts:
            self._left[slot, place, row] = left // grid
        self.usual[row] = True
        self.odd.discard(row)
        self._counts[row] = len(zones)

    def _slot(self, resource: str) -> int:
        slot = self._slots.get(resource)
        if slot is None:
            slot = self._slots[resource] = len(self._slots)
            if slot >= len(self._left):
                self._left = np.concatenate((self._left, np.full_like(self._left, -1)))
        return slot

    def offers(self, row: int, resource: str) -> bool:
        """Return whether a node has a resource, even an amount of 0."""
        return resource in _ALWAYS_OFFERED or bool(self._offers(resource)[row])

    def _offers(self, resource: str) -> Mask:
        table = self._table
        version = table.nodes_version
        known = self._offering.get(resource)
        if known is None or known[0] != version:
            slot = table.slots.get(resource)
            if slot is None:  # a resource that is not tracked
                offered = np.zeros(len(table), dtype=np.bool_)
            else:
                offered = table.allocatable[slot, : len(table)] > 0
                for row in np.flatnonzero(~offered).tolist():
                    offered[row] = resource in table.nodes[row].node.status.allocatable
            known = self._offering[resource] = (version, offered)
        return known[1]

    # Filter

    def misfits(self, demand: Demand, rows: Rows) -> Codes:
        """Return the code of ``alignment.misfit`` for each row; 0 for unusual rows."""
        kinds = self.kinds[rows]
        codes: Codes = np.where(kinds == STALE, np.int8(alignment.STALE), np.int8(alignment.FITS))
        usual = self.usual[rows]
        places = np.flatnonzero(usual & (kinds == POD_SCOPE))
        if len(places):
            fits, _ = self._zones_for(self._taken(rows[places], (demand.whole,)), demand, demand.whole, rows[places])
            codes[places[~fits]] = alignment.POD
        places = np.flatnonzero(usual & (kinds == CONTAINER_SCOPE))
        if len(places):
            codes[places] = self._container_misfits(demand, rows[places])
        return codes

    def _container_misfits(self, demand: Demand, rows: Rows) -> Codes:
        requests = (*(request for _, request in demand.inits), *demand.containers)
        left = self._taken(rows, requests)
        codes = np.zeros(len(rows), dtype=np.int8)
        for sidecar, request in demand.inits:
            fits, _ = self._zones_for(left, demand, request, rows)
            codes[~fits & (codes == 0)] = alignment.SIDECAR if sidecar else alignment.INIT_CONTAINER
        for number, request in enumerate(demand.containers, start=1):
            fits, chosen = self._zones_for(left, demand, request, rows)
            codes[~fits & (codes == 0)] = alignment.CONTAINER
            if number < len(demand.containers):
                self._take(left, demand, request, chosen, fits)
        return codes

    def _taken(self, rows: Rows, requests: tuple[Nanos, ...]) -> dict[str, Ints]:
        """Return a copy of the columns of the requested resources: [zone, row]."""
        names = {name for request in requests for name in request}
        return {name: self._left[self._slots[name]][:, rows] for name in names if name in self._slots}

    def _zones_for(
        self, left: Mapping[str, Ints], demand: Demand, request: Nanos, rows: Rows
    ) -> tuple[Mask, npt.NDArray[np.intp]]:
        """Return which rows have a zone with room for a request, and the lowest such zone."""
        fitting: Mask = np.ones((self._left.shape[1], len(rows)), dtype=np.bool_)
        for name, amount in request.items():
            if not amount:
                continue
            if name not in _ALWAYS_OFFERED:
                fitting &= self._offers(name)[rows]
            column = left.get(name)
            if column is None:
                if not is_host_level(name):
                    fitting[:] = False
                continue
            wanted = -(-amount // _grid(name)) if demand.by_quantity(name) else 0
            enough: Mask = column >= min(wanted, _MOST)
            if is_host_level(name):
                enough = enough | ~(column >= 0).any(axis=0)
            fitting &= enough
        fits: Mask = np.logical_or.reduce(fitting, axis=0)
        return fits, fitting.argmax(axis=0)

    def _take(
        self, left: Mapping[str, Ints], demand: Demand, request: Nanos, chosen: npt.NDArray[np.intp], fits: Mask
    ) -> None:
        places = np.flatnonzero(fits)
        zones = chosen[places]
        for name, amount in request.items():
            column = left.get(name)
            if column is None or not amount or not demand.by_quantity(name):
                continue
            room = column[zones, places]
            column[zones, places] = np.where(room < 0, room, np.maximum(0, room - amount // _grid(name)))

    # Score

    def scores(self, demand: Demand, strategy: str, weights: Mapping[str, int], rows: Rows) -> Ints:
        """Return the scores of usual rows where a pod must fit into one zone; 0 for all others."""
        kinds, usual = self.kinds[rows], self.usual[rows]
        scores = np.zeros(len(rows), dtype=np.int64)
        places = np.flatnonzero(usual & (kinds == POD_SCOPE))
        if len(places):
            scores[places] = self._combined(demand.whole, strategy, weights, rows[places])
        places = np.flatnonzero(usual & (kinds == CONTAINER_SCOPE))
        requests = [request for request in (*(init for _, init in demand.inits), *demand.containers) if request]
        if len(places) and requests:
            each = [self._combined(request, strategy, weights, rows[places]) for request in requests]
            scores[places] = sum(each) // len(requests)
        return scores

    def _combined(self, request: Nanos, strategy: str, weights: Mapping[str, int], rows: Rows) -> Ints:
        """Return the lowest non-zero score of a zone."""
        if not request:
            return np.zeros(len(rows), dtype=np.int64)
        if strategy == "BalancedAllocation":
            by_zone = self._balanced(request, rows)
        else:
            by_zone = self._weighted(request, weights, rows, most=strategy == "MostAllocated")
        # A zone that does not exist lists nothing and is ignored.
        by_zone = by_zone * (np.arange(len(by_zone))[:, None] < self._counts[rows])
        lowest = np.where(by_zone == 0, np.iinfo(np.int64).max, by_zone).min(axis=0)
        return np.where(lowest == np.iinfo(np.int64).max, 0, lowest)

    def _weighted(self, request: Nanos, weights: Mapping[str, int], rows: Rows, *, most: bool) -> Ints:
        total = np.zeros((self._left.shape[1], len(rows)), dtype=np.int64)
        weight_sum = 0
        for name, amount in request.items():
            weight = weights.get(name, 1)
            weight_sum += weight
            if name not in self._slots:
                continue
            column = self._left[self._slots[name]][:, rows]
            grid = _grid(name)
            room = _whole(column, grid)
            asked = -(-amount // UNIT)
            fits = (column > 0) & (column >= min(-(-amount // grid), _MOST))
            share = (asked if most else room - asked) * MAX_SCORE // np.where(room > 0, room, 1)
            total += np.where(fits, weight * share, 0)
        found: Ints = total // weight_sum
        return found

    def _balanced(self, request: Nanos, rows: Rows) -> Ints:
        shares = []
        for name, amount in request.items():
            room: npt.NDArray[np.float64] = np.zeros((self._left.shape[1], len(rows)))
            if name in self._slots:
                room = _whole(np.maximum(self._left[self._slots[name]][:, rows], 0), _grid(name)).astype(np.float64)
            asked = float(-(-amount // UNIT))
            shares.append(np.where(room == 0, 1.0, asked / np.where(room == 0, 1.0, room)))
        values = np.stack(shares)
        exceeds = (values > 1).any(axis=0)
        values = np.minimum(values, 1.0)
        count = len(shares)
        if count == 1:
            variance = np.zeros(values.shape[1:])
        else:
            offsets = values - values.sum(axis=0) / count
            variance = ((offsets**2).sum(axis=0) - offsets.sum(axis=0) ** 2 / count) / (count - 1)
        scores = ((1 - variance) * MAX_SCORE).astype(np.int64)
        return np.where(exceeds, 0, scores)


def _grid(resource: str) -> int:
    """Return the unit of a column, in billionths."""
    return UNIT // 1000 if resource == CPU else UNIT


def _whole(column: Ints, grid: int) -> Ints:
    """Return the amounts of a column in whole units, rounded up."""
    return column if grid == UNIT else -(-column // (UNIT // grid))
