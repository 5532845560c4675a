"""NodePorts, plainly: every port of every pod on a node."""

from __future__ import annotations

from typing import Any

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import Status
from tests.plugins.reference.cluster import Cluster


def ports(pod: Pod) -> list[tuple[str, str, int]]:
    found = []
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        if container in pod.spec.init_containers and container.restart_policy != "Always":
            continue
        found += [port for port in container.ports if port.host_port > 0]
    return [(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port) for port in found]


def conflict(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or "0.0.0.0" in (one[0], other[0]))


class NodePortsReference:
    @staticmethod
    def filter(cluster: Cluster, pod: Pod, node: Node, args: Any) -> Status | None:
        for wanted in ports(pod):
            for other in cluster.on(node):
                if any(conflict(wanted, used) for used in ports(other)):
                    return Status.unschedulable("node(s) didn't have free ports for the requested pod ports")
        return None
