"""TaintToleration: rejects nodes with taints that the pod does not tolerate, or prefers other nodes.

Nodes have few distinct sets of taints, so each set is evaluated once per list of tolerations, and nodes look up the
result of their set.

"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.affinity import Taint, Toleration
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.tolerations import PREFER_NO_SCHEDULE, tolerates, untolerated
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Hint,
    NodeInfo,
    Nodes,
    NodeTable,
    Plugin,
    PodTemplate,
    StateKey,
    Status,
    Verdicts,
    Victims,
    WhatIf,
    default_normalize,
    depends_on,
)

Ints = npt.NDArray[np.int64]
Tolerations = tuple[Toleration, ...]

_REJECTED = Status.unresolvable("node(s) had untolerated taint(s)")
_PRE_SCORED: StateKey[bool] = StateKey("PreScoreTaintToleration")
#: The maximum number of lists of tolerations whose results are cached.
_MAX_CACHED = 256


class TaintResults(msgspec.Struct, frozen=True):
    """The results of a list of tolerations for each set of taints, by code; the last entry is for no taints."""

    version: int
    rejects: npt.NDArray[np.bool_]
    rejects_any: bool
    dislikes: Ints
    dislikes_any: bool


class TaintToleration(Plugin):
    """Rejects nodes with untolerated NoSchedule or NoExecute taints; prefers those without PreferNoSchedule taints."""

    template_part = "constraints"

    def setup(self) -> None:
        """Create the cache."""
        self._cache: dict[Tolerations, TaintResults] = {}
        self._comparisons = self.handle.release.enabled("TaintTolerationComparisonOperators")

    def signature(self, template: PodTemplate) -> Hashable:
        """Return the tolerations."""
        return template.pod.spec.tolerations

    @depends_on("node")
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Filter the nodes; fast if no set of taints rejects the pod."""
        table = nodes.table
        if not table.taints.code_of:
            return None
        results = self._evaluate(table, pod.spec.tolerations)
        if not results.rejects_any:
            return None
        return Verdicts.reject(results.rejects.take(nodes.taint_codes), _REJECTED)

    @depends_on("node")
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node."""
        taints = node.taints
        return _REJECTED if taints and self._keeps_off(taints, pod.spec.tolerations) else None

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a constant model: the result does not depend on other pods."""
        return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)

    @depends_on("template")
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Mark that PreScore ran; Score fails without it, as in kube-scheduler."""
        state.write(_PRE_SCORED, True)
        return None

    @depends_on("node")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Count the PreferNoSchedule taints that the pod does not tolerate; ``normalize_scores`` inverts it."""
        state.read(_PRE_SCORED)
        table = nodes.table
        if not table.taints.code_of:
            return 0
        results = self._evaluate(table, pod.spec.tolerations)
        return results.dislikes.take(nodes.taint_codes) if results.dislikes_any else 0

    @depends_on("node")
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score one node."""
        state.read(_PRE_SCORED)
        return self._disliked(node.taints, pod.spec.tolerations) if node.taints else 0

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints | int:
        """Invert and scale the counts: 0 for the node with the most untolerated taints, 100 for a node with none."""
        return default_normalize(scores, reverse=True)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for nodes that are added or lose taints, and for the pod's tolerations."""
        return [
            ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT, self._tolerated_now),
            ClusterEvent("Pod", ActionType.UPDATE_POD_TOLERATION, _own_tolerations),
        ]

    def _evaluate(self, table: NodeTable, tolerations: Tolerations) -> TaintResults:
        known = self._cache.get(tolerations)
        column = table.taints
        if known is not None and known.version == column.version:
            return known
        rejects = np.zeros(column.size + 1, dtype=np.bool_)
        dislikes = np.zeros(column.size + 1, dtype=np.int64)
        for taints, code in column.code_of.items():
            rejects[code] = self._keeps_off(taints, tolerations)
            dislikes[code] = self._disliked(taints, tolerations)
        results = TaintResults(column.version, rejects, bool(rejects.any()), dislikes, bool(dislikes.any()))
        if len(self._cache) >= _MAX_CACHED:
            self._cache.pop(next(iter(self._cache)))
        self._cache[tolerations] = results
        return results

    def _keeps_off(self, taints: tuple[Taint, ...], tolerations: Tolerations) -> bool:
        return untolerated(taints, tolerations, comparisons=self._comparisons) is not None

    def _disliked(self, taints: tuple[Taint, ...], tolerations: Tolerations) -> int:
        return sum(
            taint.effect == PREFER_NO_SCHEDULE
            and not any(tolerates(each, taint, comparisons=self._comparisons) for each in tolerations)
            for taint in taints
        )

    def _tolerated_now(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        was_kept_off = old is None or self._keeps_off(old.taints, pod.spec.tolerations)
        is_kept_off = self._keeps_off(new.taints, pod.spec.tolerations)
        return Hint.QUEUE if was_kept_off and not is_kept_off else Hint.SKIP


def _own_tolerations(pod: Pod, _old: Pod | None, new: Pod) -> Hint:
    return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP
