"""NodeName: a pod with ``spec.nodeName`` is placed only on that node."""

from __future__ import annotations

import numpy as np

from mooring.api.pod import Pod
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    NodeInfo,
    Nodes,
    Plugin,
    PreFilterResult,
    Status,
    Verdicts,
    Victims,
    WhatIf,
    depends_on,
)

_REJECTED = Status.unresolvable("node(s) didn't match the requested node name")


class NodeName(Plugin):
    """Rejects all nodes except the one in ``spec.nodeName``.

    A pod's node is not part of its template, so the result is not cached: only that of PreFilter, which is called for
    all pods that name a node.
    """

    template_part = "constraints"

    @depends_on("template")
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Restrict the nodes to the one in ``spec.nodeName``, since 1.37."""
        if not self.handle.release.node_name_narrows:
            return None
        return PreFilterResult(frozenset({pod.node_name})) if pod.node_name else None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Filter the nodes; does nothing for pods without ``spec.nodeName``."""
        wanted = pod.node_name
        if not wanted:
            return None
        rejected = np.ones(len(nodes), dtype=np.bool_)
        row = nodes.table.row_of.get(wanted)
        if row is not None:
            if nodes.rows is None:
                rejected[row] = False
            else:
                rejected[nodes.rows == row] = False
        return Verdicts.reject(rejected, _REJECTED)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node."""
        return _REJECTED if pod.node_name and pod.node_name != node.name else None

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a constant model: the result does not depend on other pods."""
        return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for new nodes."""
        return [ClusterEvent("Node", ActionType.ADD)]
