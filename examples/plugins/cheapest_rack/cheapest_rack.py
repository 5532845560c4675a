from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mooring.framework import (
    NativePodGroup,
    Nodes,
    PlacementProgress,
    Placements,
    Plugin,
    Pod,
    ProposedPlacements,
    Status,
)


class CheapestRackArgs:
    rack: str = "example.com/rack"
    price: str = "example.com/price"
    leader: str = "leader"


class CheapestRack(Plugin[CheapestRackArgs]):
    """Runs all pods of a PodGroup in one rack, the cheapest with room, and never without the leader."""

    def generate_placements(
        self, group: NativePodGroup, scheduled: Sequence[Pod], nodes: Nodes
    ) -> Placements | str | None:
        racks = Placements.by_label(nodes, self.args.rack)
        used = {info.labels.get(self.args.rack) for pod in scheduled if (info := nodes.get(pod.node_name)) is not None}
        if not used:
            return racks if len(racks) else f"no node has the label {self.args.rack}"
        return racks.some(np.array([index for index, name in enumerate(racks.names) if name in used], dtype=np.intp))

    def placement_feasible(self, group: NativePodGroup, progress: PlacementProgress) -> Status | str | None:
        running = progress.scheduled - len(progress.placed)
        if running or any(pod.labels.get("role") == self.args.leader for pod in progress.placed):
            return None
        return Status.wait("the leader has no node") if progress.remaining else "the leader fits in no such rack"

    def score_placements(self, proposed: ProposedPlacements) -> npt.NDArray[np.int64]:
        racks = proposed.placements
        cents = np.array([int(100 * float(node.labels.get(self.args.price, "1"))) for node in racks.nodes])
        means = np.maximum(racks.sums(cents) / racks.sums(np.ones_like(cents)), 1)
        scores: npt.NDArray[np.int64] = (100 * means.min() / means).astype(np.int64)
        return scores
