import numpy as np

from mooring.framework import Plugin, depends_on


class NameScore(Plugin):
    """Scores a node by its name: the sum of its bytes, modulo ten."""

    @depends_on("node")
    def score_nodes(self, state, pod, nodes):
        return np.array([sum(name.encode()) % 10 for name in nodes.names], dtype=np.int64)


class ScoreByNameLength(NameScore):
    """The same, under the name that the demo repository's own configuration gives it."""
