"""TaintToleration: taints keep pods off, or make a node less liked, unless the pod tolerates them.

Nodes share few distinct sets of taints, so each set is judged once for each list of tolerations, and the nodes look
their set up.
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
#: Lists of tolerations that judgements are kept for.
_KEEP = 256


class Judgement(msgspec.Struct, frozen=True):
    """What some tolerations make of every set of taints in the cluster; indexed by code, the last entry is for none."""

    version: int
    rejects: npt.NDArray[np.bool_]
    rejects_any: bool
    dislikes: Ints
    dislikes_any: bool


class TaintToleration(Plugin):
    """Rejects nodes with untolerated NoSchedule or NoExecute taints; likes those with PreferNoSchedule taints less."""

    def setup(self) -> None:
        """Begin with nothing judged."""
        self._judgements: dict[Tolerations, Judgement] = {}

    def signature(self, template: PodTemplate) -> Hashable:
        """Only the tolerations matter."""
        return template.pod.spec.tolerations

    @depends_on("node")
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Free as long as no set of taints rejects the pod."""
        table = nodes.table
        if not table.taints.code_of:
            return None
        judgement = self._judge(table, pod.spec.tolerations)
        if not judgement.rejects_any:
            return None
        return Verdicts.reject(judgement.rejects.take(nodes.taint_codes), _REJECTED)

    @depends_on("node")
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same for one node."""
        taints = node.taints
        return _REJECTED if taints and untolerated(taints, pod.spec.tolerations) is not None else None

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Other pods make no difference."""
        return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)

    @depends_on("template")
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Say that Score may be asked."""
        state.write(_PRE_SCORED, True)
        return None

    @depends_on("node")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """How many PreferNoSchedule taints the pod does not tolerate (the fewer the better, see normalize_scores)."""
        state.read(_PRE_SCORED)
        table = nodes.table
        if not table.taints.code_of:
            return 0
        judgement = self._judge(table, pod.spec.tolerations)
        return judgement.dislikes.take(nodes.taint_codes) if judgement.dislikes_any else 0

    @depends_on("node")
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The same for one node."""
        state.read(_PRE_SCORED)
        return _disliked(node.taints, pod.spec.tolerations) if node.taints else 0

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints | int:
        """The node with the most disliked taints gets 0, one with none 100."""
        return default_normalize(scores, reverse=True)

    def events_to_register(self) -> list[ClusterEvent]:
        """Nodes that come or lose taints, and the pod's own tolerations."""
        return [
            ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT, _tolerated_now),
            ClusterEvent("Pod", ActionType.UPDATE_POD_TOLERATION, _own_tolerations),
        ]

    def _judge(self, table: NodeTable, tolerations: Tolerations) -> Judgement:
        known = self._judgements.get(tolerations)
        column = table.taints
        if known is not None and known.version == column.version:
            return known
        rejects = np.zeros(column.size + 1, dtype=np.bool_)
        dislikes = np.zeros(column.size + 1, dtype=np.int64)
        for taints, code in column.code_of.items():
            rejects[code] = untolerated(taints, tolerations) is not None
            dislikes[code] = _disliked(taints, tolerations)
        judgement = Judgement(column.version, rejects, bool(rejects.any()), dislikes, bool(dislikes.any()))
        if len(self._judgements) >= _KEEP:
            self._judgements.pop(next(iter(self._judgements)))
        self._judgements[tolerations] = judgement
        return judgement


def _disliked(taints: tuple[Taint, ...], tolerations: Tolerations) -> int:
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def _tolerated_now(pod: Pod, old: Node | None, new: Node) -> Hint:
    was_kept_off = old is None or untolerated(old.taints, pod.spec.tolerations) is not None
    is_kept_off = untolerated(new.taints, pod.spec.tolerations) is not None
    return Hint.QUEUE if was_kept_off and not is_kept_off else Hint.SKIP


def _own_tolerations(pod: Pod, _old: Pod | None, new: Pod) -> Hint:
    return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP
