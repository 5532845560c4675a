"""Node sampling: how many nodes an attempt examines, and in which order, as in kube-scheduler."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mooring.columns.table import NodeTable

_MIN_FEASIBLE = 100
_MIN_PERCENT = 5
_ZONE_KEYS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION_KEYS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


def nodes_to_find(total: int, percentage: int) -> int:
    """Return how many feasible nodes are enough; percentage 0 adapts to the size of the cluster."""
    if total < _MIN_FEASIBLE:
        return total
    if percentage == 0:
        percentage = max(50 - total // 125, _MIN_PERCENT)
    return min(max(total * percentage // 100, _MIN_FEASIBLE), total)


class Sampler:
    """The order in which nodes are examined: round robin over zones, starting where the last attempt stopped."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        #: Shared by all profiles, as in kube-scheduler.
        self.start = 0
        self._order: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._built_for = (-1, -1)

    def rotated(self) -> npt.NDArray[np.intp]:
        """Return all rows in the order of this attempt."""
        version = (self._table.structure, self._table.node_changes.position)
        if version != self._built_for:
            self._order = self._zone_order()
            self._built_for = version
        order = self._order
        start = self.start % len(order) if len(order) else 0
        return np.concatenate((order[start:], order[:start]))

    def advance(self, examined: int) -> None:
        """Start the next attempt after the nodes that this one examined."""
        if len(self._table):
            self.start = (self.start + examined) % len(self._table)

    def _zone_order(self) -> npt.NDArray[np.intp]:
        zones: dict[tuple[str, str], list[int]] = {}
        for info in sorted(self._table.nodes, key=lambda info: info.sequence):
            zones.setdefault(_zone(info.labels), []).append(info.row)
        order: list[int] = []
        queues = list(zones.values())
        for turn in range(max(map(len, queues), default=0)):
            order += [rows[turn] for rows in queues if turn < len(rows)]
        return np.array(order, dtype=np.intp)


def _zone(labels: Mapping[str, str]) -> tuple[str, str]:
    return _first(labels, _REGION_KEYS), _first(labels, _ZONE_KEYS)


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")
