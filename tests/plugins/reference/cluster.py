"""A cluster as plain objects, for reference implementations that look at nodes and pods one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.api.core import ReplicationController, Service
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.workloads import ReplicaSet, StatefulSet


@dataclass
class Cluster:
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    services: list[Service] = field(default_factory=list)
    controllers: list[ReplicationController] = field(default_factory=list)
    replica_sets: list[ReplicaSet] = field(default_factory=list)
    stateful_sets: list[StatefulSet] = field(default_factory=list)

    def on(self, node: Node) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node_name == node.name]

    def placed(self) -> list[tuple[Pod, Node]]:
        return [(pod, self.nodes[pod.node_name]) for pod in self.pods.values() if pod.node_name in self.nodes]
