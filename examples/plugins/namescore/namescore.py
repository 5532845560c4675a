import numpy as np
import numpy.typing as npt

from mooring.framework import CycleState, Nodes, Plugin, Pod, depends_on


class NameScore(Plugin):
    """Scores a node by the sum of the bytes of its name, modulo ten."""

    @depends_on("node")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> npt.NDArray[np.int64]:
        return np.array([sum(name.encode()) % 10 for name in nodes.names], dtype=np.int64)


class ScoreByNameLength(NameScore):
    """The same plugin with the name in the configuration of the original demo."""
