"""The rule of all plugins: reject nodes whose name ends in 0, and score others with ten times the last digit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.framework import CycleState, NodeInfo, Nodes, Plugin, Status, Verdicts

REASON = "node(s) ended in a zero"


class PerNode(Plugin):
    """The rule for one node at a time."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str | None:
        """Reject nodes that end in 0."""
        return REASON if node.name[-1] == "0" else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Prefer high digits."""
        return 10 * int(node.name[-1])


class Columns(Plugin):
    """The rule for all nodes in one call."""

    def setup(self) -> None:
        """Create an empty cache."""
        self._made_of = -1
        self._by_row = np.zeros(0, dtype=np.int64)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Reject nodes that end in 0."""
        return Verdicts.reject(self._digits(nodes) == 0, Status.unschedulable(REASON))

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Prefer high digits."""
        return 10 * self._digits(nodes)

    def _digits(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        table = self.handle.table
        if table.structure != self._made_of:
            self._by_row = np.array([int(node.name[-1]) for node in table.nodes], dtype=np.int64)
            self._made_of = table.structure
        return nodes.take(self._by_row)
