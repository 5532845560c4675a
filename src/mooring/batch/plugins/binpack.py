"""binpack: prefers nodes with a high utilization."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.batch.plugin import BatchPlugin
from mooring.batch.plugins.weights import resource_weights
from mooring.batch.registrations import on_node_alone
from mooring.batch.resource import CPU, MEMORY
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.task import TaskInfo

Floats = npt.NDArray[np.float64]


class BinPack(BatchPlugin):
    """Scores by the weighted utilization of the requested resources."""

    name = "binpack"

    def on_session_open(self, session: Session) -> None:
        """Register the scorer unless its weight is 0."""
        self._weight = self.arguments.integer("binpack.weight", 1)
        self._weights = resource_weights(self.arguments, "binpack")
        if self._weight:
            session.add_node_order(self._score, columns=True, depends=on_node_alone)

    def _score(self, task: TaskInfo, nodes: SessionNodes) -> Floats:
        if len(nodes) == 1:  # the usual case: the node of the last task
            return np.array([self._score_node(task, nodes)])
        total, weights = np.zeros(len(nodes)), 0
        too_full = np.zeros(len(nodes), dtype=np.bool_)
        for resource in _in_order(task.request.names()):
            weight = self._weights.get(resource)
            if weight is None:
                continue
            weights += weight  # also where the node has none of it, as in Volcano
            if weight == 0:
                continue
            offered = nodes.allocatable(resource)
            in_use = nodes.used(resource) + task.request.get(resource)
            has = offered != 0
            too_full |= has & (in_use > offered)
            total += np.divide(in_use * float(weight), offered, out=np.zeros(len(nodes)), where=has)
        if weights > 0:
            total /= float(weights)
        total *= float(100 * self._weight)
        total[too_full] = 0.0
        return total

    def _score_node(self, task: TaskInfo, nodes: SessionNodes) -> float:
        """Return the score of the only node of a view: the same arithmetic without vectors."""
        total, weights = 0.0, 0
        for resource in _in_order(task.request.names()):
            weight = self._weights.get(resource)
            if weight is None:
                continue
            weights += weight
            offered = nodes.allocatable(resource).item(0)
            if weight == 0 or offered == 0:
                continue
            in_use = nodes.used(resource).item(0) + task.request.get(resource)
            if in_use > offered:
                return 0.0
            total += in_use * float(weight) / offered
        if weights > 0:
            total /= float(weights)
        return total * float(100 * self._weight)


def _in_order(names: list[str]) -> list[str]:
    """Return CPU, memory, then the others by name: sums of floating-point numbers depend on the order."""
    return names[:2] + sorted(names[2:]) if names[:2] == [CPU, MEMORY] else sorted(names)
