"""NodeResourcesAllocatable: prefers small or large nodes by their allocatable resources, regardless of requests."""

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
    """A resource and its weight per unit: millicores for cpu, whole units for the rest."""

    name: str
    weight: int


_DEFAULTS = (Weighted(name="cpu", weight=1 << 20), Weighted(name="memory", weight=1))


class NodeResourcesAllocatableArgs(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The preference for small or large nodes, and the weights of resources."""

    mode: str = "Least"
    resources: tuple[Weighted, ...] = _DEFAULTS


class NodeResourcesAllocatable(Plugin[NodeResourcesAllocatableArgs]):
    """Scores nodes by the weighted mean of their allocatable resources, negated for ``Least``."""

    def setup(self) -> None:
        """Store the weights by name; the last of several entries for a name applies."""
        sign = 1 if self.args.mode == "Most" else -1
        weights = {each.name: each.weight for each in self.args.resources}
        self._total = sum(weights.values())
        self._weights = {name: sign * weight for name, weight in weights.items() if is_tracked(name)}

    def signature(self, template: PodTemplate) -> Hashable:
        """Return None: the scores do not depend on the pod."""
        return ()

    @depends_on("node")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return the weighted mean, rounded toward zero."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for name, weight in self._weights.items():
            total += nodes.allocatable(name) * np.int64(weight)
        return truncated_all(total, self._total)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints | int:
        """Scale the scores of the feasible nodes to 0..100; all are 0 if they are equal."""
        lowest = scores.min()
        span = int(scores.max() - lowest)
        return truncated_all((scores - lowest) * MAX_SCORE, span) if span else 0
