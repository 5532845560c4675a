import numpy as np
import numpy.typing as npt

from mooring.framework import CycleState, Nodes, Plugin, Pod, Status, Verdicts, depends_on

Ints = npt.NDArray[np.int64]

EXPENSIVE = Status.unresolvable("node(s) were too expensive")


class CheapestNodeArgs:
    label: str = "example.com/price"
    limit: float | None = None


class CheapestNode(Plugin[CheapestNodeArgs]):
    """Prefers cheap nodes, and rejects those above a limit. Evaluates all nodes at once."""

    @depends_on("node")
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        if self.args.limit is None:
            return None
        return Verdicts.reject(self._prices(nodes) > self.args.limit, EXPENSIVE)

    @depends_on("node")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        return (1000 * self._prices(nodes)).astype(np.int64)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        lowest, highest = int(scores.min()), int(scores.max())
        return 100 * (highest - scores) // max(highest - lowest, 1)

    def _prices(self, nodes: Nodes) -> npt.NDArray[np.float64]:
        """Return the price of each node. Each distinct label value is parsed once."""
        column = nodes.label(self.args.label)
        prices = np.zeros(column.size + 1)  # the last entry, index -1, is for nodes without the label
        for text, code in column.code_of.items():
            prices[code] = float(text)
        return prices[nodes.codes(column)]
