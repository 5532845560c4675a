"""NodeDeclaredFeatures: a pod that requires a feature is placed only on nodes that declare it."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from mooring.api.node import Node
from mooring.api.pod import Pod
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
    depends_on,
)

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"

_NOTHING: frozenset[str] = frozenset()
_REJECTED = Status.unresolvable("node(s) didn't match Pod's required features")
_NEEDED: StateKey[frozenset[str]] = StateKey("PreFilterNodeDeclaredFeatures")
_UNPREPARED = Status.error('error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found')


class NodeDeclaredFeatures(Plugin):
    """Rejects nodes that do not declare a feature that the pod requires."""

    template_part = "constraints"

    @depends_on("template")
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Skip pods that require no feature."""
        needed = self.handle.template(pod).kept(self, lambda: needed_features(pod))
        if not needed or not self.handle.release.enabled("NodeDeclaredFeatures"):
            return Status.skip(template=True)
        state.write(_NEEDED, needed)
        return None

    def signature(self, template: PodTemplate) -> Hashable:
        """Return the required features."""
        return template.kept(self, lambda: needed_features(template.pod))

    @depends_on("node")
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Evaluate each distinct set of features once."""
        needed = state.get(_NEEDED)
        if needed is None:
            return Verdicts.reject(np.ones(len(nodes), dtype=np.bool_), _UNPREPARED)
        lacking = nodes.table.features.lookup(lambda declared: not needed.issubset(declared), absent=True)
        return Verdicts.reject(lacking.take(nodes.feature_codes), _REJECTED)

    @depends_on("node")
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node."""
        needed = state.get(_NEEDED)
        if needed is None:
            return _UNPREPARED
        return None if needed.issubset(node.node.status.declared_features) else _REJECTED

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a constant model: the result does not depend on other pods."""
        return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for nodes that are added or declare more features, and for the pod's updates."""
        return [
            ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE, _features_changed),
            ClusterEvent("Pod", ActionType.UPDATE, _needs_changed),
        ]


def needed_features(pod: Pod) -> frozenset[str]:
    """Return the declared features that a pod requires, as in kube-scheduler with default feature gates."""
    needed = set()
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        rules = container.restart_policy_rules
        if rules and any(rule.action == "RestartAllContainers" for rule in rules):
            needed.add(RESTART_ALL_CONTAINERS)
    if pod.spec.host_network and pod.spec.host_users is False:
        needed.add(USER_NAMESPACES_HOST_NETWORK)
    return frozenset(needed) if needed else _NOTHING


def _features_changed(_pod: Pod, old: Node | None, new: Node) -> Hint:
    same = old is not None and old.status.declared_features == new.status.declared_features
    return Hint.SKIP if same else Hint.QUEUE


def _needs_changed(pod: Pod, old: Pod, new: Pod) -> Hint:
    changed = new.uid == pod.uid and needed_features(old) != needed_features(new)
    return Hint.QUEUE if changed else Hint.SKIP
