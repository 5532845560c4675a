"""NodeUnschedulable: cordoned nodes accept only pods that tolerate the unschedulable taint."""

from __future__ import annotations

from collections.abc import Hashable

from mooring.api.affinity import Taint
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.tolerations import NO_SCHEDULE, tolerates
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Hint,
    NodeInfo,
    Nodes,
    Plugin,
    PodTemplate,
    Status,
    Verdicts,
    Victims,
    WhatIf,
    depends_on,
)

#: The taint that corresponds to ``spec.unschedulable``.
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
_REJECTED = Status.unresolvable("node(s) were unschedulable")


class NodeUnschedulable(Plugin):
    """Rejects nodes with ``spec.unschedulable``."""

    template_part = "constraints"

    def signature(self, template: PodTemplate) -> Hashable:
        """Return the tolerations."""
        return template.pod.spec.tolerations

    @depends_on("node")
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Filter the nodes; fast if no node is cordoned."""
        if not nodes.table.cordoned or tolerates_cordon(pod):
            return None
        return Verdicts.reject(nodes.unschedulable.copy(), _REJECTED)

    @depends_on("node")
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node."""
        return _REJECTED if node.node.unschedulable and not tolerates_cordon(pod) else None

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a constant model: the result does not depend on other pods."""
        return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for nodes that are added or uncordoned, and for the pod's tolerations."""
        return [
            ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT, _uncordoned),
            ClusterEvent("Pod", ActionType.UPDATE_POD_TOLERATION, _tolerates_now),
        ]


def tolerates_cordon(pod: Pod) -> bool:
    """Return whether the pod tolerates cordoned nodes."""
    return any(tolerates(toleration, UNSCHEDULABLE) for toleration in pod.spec.tolerations)


def _uncordoned(_pod: Pod, old: Node | None, new: Node) -> Hint:
    came_open = (old is None or old.unschedulable) and not new.unschedulable
    return Hint.QUEUE if came_open else Hint.SKIP


def _tolerates_now(pod: Pod, _old: Pod | None, new: Pod) -> Hint:
    return Hint.QUEUE if new.uid == pod.uid and tolerates_cordon(new) else Hint.SKIP
