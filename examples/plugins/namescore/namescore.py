import numpy as np

from mooring.framework import Plugin, depends_on


class NameScore(Plugin):
    """Scores a node by the sum of the bytes of its name, modulo ten."""

    @depends_on("node")
    def score_nodes(self, state, pod, nodes):
        return np.array([sum(name.encode()) % 10 for name in nodes.names], dtype=np.int64)


class ScoreByNameLength(NameScore):
    """The same plugin with the name in the configuration of the original demo."""
