import numpy as np
import numpy.typing as npt

from mooring.framework import CycleState, NodeInfo, Nodes, Plugin, Pod

RESOURCES = ("cpu", "memory")


class HeadroomPerNode(Plugin):
    """Prefers the node with the most free of its scarcest resource. Scores one node at a time."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        wanted = self.handle.template(pod).requests
        left = 100
        for resource in RESOURCES:
            has = max(node.allocatable(resource), 1)
            used = node.requested(resource) + wanted.get(resource, 0)
            left = min(left, max(100 * (has - used) // has, 0))
        return left


class HeadroomInColumns(Plugin):
    """The same for all nodes at once, with NumPy."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> npt.NDArray[np.int64]:
        wanted = self.handle.template(pod).requests
        left = np.full(len(nodes), 100)
        for resource in RESOURCES:
            has = np.maximum(nodes.allocatable(resource), 1)
            used = nodes.requested(resource) + wanted.get(resource, 0)
            left = np.minimum(left, np.maximum(100 * (has - used) // has, 0))
        return left
