"""NodePorts: a host port can be used once per node."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import numpy as np

from mooring.api.pod import Pod
from mooring.api.resources import container_host_ports
from mooring.columns.counts import ANY_ADDRESS, ports_conflict
from mooring.columns.templates import HostPort
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Hint,
    NodeInfo,
    Nodes,
    Plugin,
    PodTemplate,
    StateKey,
    Status,
    Verdicts,
    Victims,
    WhatIf,
    WhatIfNode,
    depends_on,
)
from mooring.framework.what_if import Ints

_REJECTED = Status.unschedulable("node(s) didn't have free ports for the requested pod ports")
_PORTS: StateKey[tuple[HostPort, ...]] = StateKey("PreFilterNodePorts")
_UNPREPARED = Status.error('reading "PreFilterNodePorts" from cycleState: not found')


class NodePorts(Plugin):
    """Rejects nodes where a host port of the pod is in use."""

    template_part = "constraints"

    @depends_on("template")
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Skip pods without host ports."""
        ports = self.handle.template(pod).host_ports
        if not ports:
            return Status.skip(template=True)
        state.write(_PORTS, ports)
        return None

    def signature(self, template: PodTemplate) -> Hashable:
        """Return the host ports."""
        return template.host_ports

    @depends_on("node", "pods")
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Filter the nodes; does nothing if no pod uses such a port."""
        ports = state.get(_PORTS)
        if ports is None:
            return Verdicts.reject(np.ones(len(nodes), dtype=np.bool_), _UNPREPARED)
        taken = nodes.port_conflicts(ports)
        return None if taken is None else Verdicts.reject(taken, _REJECTED)

    @depends_on("node", "pods")
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node."""
        ports = state.get(_PORTS)
        if ports is None:
            return _UNPREPARED
        freed = node.freed_ports if isinstance(node, WhatIfNode) else ()
        for info in node.pods:
            for used in info.template.host_ports:
                if used not in freed and any(ports_conflict(wanted, used) for wanted in ports):
                    return _REJECTED
        return None

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Count the conflicting uses of ports.

        kube-scheduler stores a set of used ports, so that a victim frees its port even if a remaining pod uses it too:
        such a use counts only if no victim shares it.
        """
        nodes = victims.nodes
        shape = victims.index.shape
        conflicts: Ints = np.zeros(shape[0], dtype=np.int64)
        effects: Ints = np.zeros(shape, dtype=np.int64)
        ports = state.read(_PORTS)
        for used, counts in nodes.table.ports.conflicting(ports).items():
            has = victims.by_template(partial(_has_port, used))
            effects += has
            conflicts += nodes.take(counts.array(len(nodes.table.nodes)) > 0) & ~has.any(axis=1)
        return WhatIf((conflicts + effects.sum(axis=1))[None], effects[None], _verdicts)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for deleted pods, which may free a port, and for new nodes."""
        return [
            ClusterEvent("Pod", ActionType.DELETE, _port_left),
            ClusterEvent("Node", ActionType.ADD),
        ]


def _has_port(port: HostPort, template: PodTemplate) -> int:
    return int(port in template.host_ports)


def _verdicts(values: Ints) -> Verdicts | None:
    taken = values[0] > 0
    return Verdicts.reject(taken, _REJECTED) if taken.any() else None


def _port_left(pod: Pod, old: Pod, _new: None) -> Hint:
    if not old.node_name and not old.status.nominated_node_name:
        return Hint.SKIP
    left, wanted = _host_ports(old), _host_ports(pod)
    return Hint.QUEUE if any(ports_conflict(want, port) for port in left for want in wanted) else Hint.SKIP


def _host_ports(pod: Pod) -> list[HostPort]:
    return [(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port) for port in container_host_ports(pod)]
