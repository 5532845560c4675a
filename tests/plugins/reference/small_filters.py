"""The filters that fit in a line each."""

from __future__ import annotations

from typing import Any

from mooring.api.affinity import Taint
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import Status
from tests.plugins.reference.cluster import Cluster
from tests.plugins.reference.taint_toleration import tolerated


class NodeNameReference:
    @staticmethod
    def filter(cluster: Cluster, pod: Pod, node: Node, args: Any) -> Status | None:
        if pod.spec.node_name in ("", node.name):
            return None
        return Status.unresolvable("node(s) didn't match the requested node name")


class NodeUnschedulableReference:
    @staticmethod
    def filter(cluster: Cluster, pod: Pod, node: Node, args: Any) -> Status | None:
        cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
        if not node.spec.unschedulable or tolerated(pod, cordon):
            return None
        return Status.unresolvable("node(s) were unschedulable")


class NodeDeclaredFeaturesReference:
    @staticmethod
    def filter(cluster: Cluster, pod: Pod, node: Node, args: Any) -> Status | None:
        needed = []
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        if any(rule.action == "RestartAllContainers" for each in containers for rule in each.restart_policy_rules):
            needed.append("RestartAllContainersOnContainerExits")
        if pod.spec.host_network and pod.spec.host_users is False:
            needed.append("UserNamespacesHostNetworkSupport")
        if all(feature in node.status.declared_features for feature in needed):
            return None
        return Status.unresolvable("node(s) didn't match Pod's required features")
