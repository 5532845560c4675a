import numpy as np

from mooring.framework import Plugin, Status, Verdicts, depends_on

EXPENSIVE = Status.unresolvable("node(s) were too expensive")


class CheapestNode(Plugin):
    """Prefers cheap nodes, and rejects those above a limit. Evaluates all nodes at once."""

    class Args:
        label: str = "example.com/price"
        limit: float | None = None

    @depends_on("node")
    def filter_nodes(self, state, pod, nodes):
        if self.args.limit is None:
            return None
        return Verdicts.reject(self._prices(nodes) > self.args.limit, EXPENSIVE)

    @depends_on("node")
    def score_nodes(self, state, pod, nodes):
        return (1000 * self._prices(nodes)).astype(np.int64)

    def normalize_scores(self, state, pod, scores):
        lowest, highest = scores.min(), scores.max()
        return 100 * (highest - scores) // max(highest - lowest, 1)

    def _prices(self, nodes):
        """Return the price of each node. Each distinct label value is parsed once."""
        column = nodes.label(self.args.label)
        prices = np.zeros(column.size + 1)  # the last entry, index -1, is for nodes without the label
        for text, code in column.code_of.items():
            prices[code] = float(text)
        return prices[nodes.codes(column)]
