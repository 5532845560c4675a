"""NodeResourcesAllocatable: prefers small nodes, or big ones, by what they offer; how full they are does not count."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.resources import is_tracked
from mooring.framework import MAX_SCORE, CycleState, Nodes, Plugin, PodTemplate, depends_on
from mooring.framework.normalize import truncated_all

Ints = npt.NDArray[np.int64]


class Weighted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A resource, and how much a unit of it counts: cpu in thousandths, all else in whole units."""

    name: str
    weight: int


_DEFAULTS = (Weighted(name="cpu", weight=1 << 20), Weighted(name="memory", weight=1))


class NodeResourcesAllocatable(Plugin):
    """Scores nodes by the weighted mean of what they offer, negated for ``Least``."""

    class Args(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
        """Which nodes to prefer, by which resources."""

        mode: str = "Least"
        resources: tuple[Weighted, ...] = _DEFAULTS

    args: Args

    def setup(self) -> None:
        """Keep the weights by name; of several entries for one name the last counts."""
        sign = 1 if self.args.mode == "Most" else -1
        weights = {each.name: each.weight for each in self.args.resources}
        self._total = sum(weights.values())
        self._weights = {name: sign * weight for name, weight in weights.items() if is_tracked(name)}

    def signature(self, template: PodTemplate) -> Hashable:
        """The pod plays no part."""
        return ()

    @depends_on("node")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """The weighted mean, cut towards zero."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for name, weight in self._weights.items():
            total += nodes.allocatable(name) * np.int64(weight)
        return truncated_all(total, self._total)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints | int:
        """The best of the nodes that are left gets 100, the worst 0; all 0 where they are equal."""
        lowest = scores.min()
        span = int(scores.max() - lowest)
        return truncated_all((scores - lowest) * MAX_SCORE, span) if span else 0
