"""One node, as a plugin that works node by node sees it, and one pod on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mooring.api.affinity import Taint
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.templates import HostPort, PodTemplate

if TYPE_CHECKING:
    from mooring.columns.table import NodeTable

#: Where the table keeps amounts that have defaults.
_NONZERO = {"cpu": 0, "memory": 1}


class PodInfo:
    """A pod with its compiled template, and the node it is on (None while it has none)."""

    __slots__ = ("index", "node", "pod", "template")

    def __init__(self, pod: Pod, template: PodTemplate) -> None:
        self.pod = pod
        self.template = template
        self.node: NodeInfo | None = None
        #: Its place in the table's pod columns; -1 while it is on no known node.
        self.index = -1

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.pod.name

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.pod.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        """The pod's labels."""
        return self.pod.labels

    @property
    def priority(self) -> int:
        """The pod's priority."""
        return self.pod.priority

    def __repr__(self) -> str:
        return f"PodInfo({self.pod.namespace}/{self.pod.name})"


class NodeInfo:
    """A node of the table: the object itself, the pods on it, and its amounts.

    It is live: what it says is what the table says now.
    """

    __slots__ = ("_pods", "name", "node", "row", "sequence", "table")

    def __init__(self, table: NodeTable, row: int, node: Node, sequence: int) -> None:
        self.table = table
        self.row = row
        self.node = node
        #: The node's name: a plain attribute, since plugins that work node by node read it all the time.
        self.name = node.metadata.name
        #: Order of arrival, which rows lose when a node is removed.
        self.sequence = sequence
        self._pods: dict[str, PodInfo] = {}

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.node.metadata.labels

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return self.node.taints

    @property
    def pods(self) -> Iterable[PodInfo]:
        """The pods on the node, in order of arrival."""
        return self._pods.values()

    @property
    def pod_count(self) -> int:
        """How many pods are on the node."""
        return len(self._pods)

    def allocatable(self, resource: str) -> int:
        """How much of a resource the node offers (millicores for cpu)."""
        return self.table.amount(self.row, resource, "allocatable")

    def requested(self, resource: str) -> int:
        """How much of a resource the pods on the node ask for."""
        return self.table.amount(self.row, resource, "requested")

    def nonzero_requested(self, resource: str) -> int:
        """As ``requested``, but containers that ask for no cpu (memory) count as asking for 100m (200Mi)."""
        which = _NONZERO.get(resource)
        return self.requested(resource) if which is None else int(self.table.nonzero[which, self.row])

    def free(self, resource: str) -> int:
        """What is left of a resource."""
        return self.allocatable(resource) - self.requested(resource)

    def __repr__(self) -> str:
        return f"NodeInfo({self.name})"


class WhatIfNode(NodeInfo):
    """A node as it would be with some pods more or less; used for nominated pods and preemption."""

    __slots__ = ("_base", "_delta", "added", "freed_ports", "removed")

    def __init__(self, base: NodeInfo) -> None:
        super().__init__(base.table, base.row, base.node, base.sequence)
        self._base = base
        self._pods = dict(base._pods)
        self._delta: dict[str, int] = {}
        self.added: dict[str, PodInfo] = {}
        self.removed: dict[str, PodInfo] = {}
        #: Host ports of pods that went: free even if a pod that stayed uses them too, as kube-scheduler has it.
        self.freed_ports: set[HostPort] = set()

    def add_pod(self, info: PodInfo) -> None:
        """Pretend that a pod is here."""
        self._pods[info.pod.uid] = info
        if self.removed.pop(info.pod.uid, None) is None:
            self.added[info.pod.uid] = info
        self.freed_ports.difference_update(info.template.host_ports)
        self._shift(info, 1)

    def remove_pod(self, info: PodInfo) -> None:
        """Pretend that a pod is gone."""
        self._pods.pop(info.pod.uid, None)
        if self.added.pop(info.pod.uid, None) is None:
            self.removed[info.pod.uid] = info
        self.freed_ports.update(info.template.host_ports)
        self._shift(info, -1)

    def _shift(self, info: PodInfo, sign: int) -> None:
        for resource, amount in info.template.requests.items():
            self._delta[resource] = self._delta.get(resource, 0) + sign * amount

    def requested(self, resource: str) -> int:
        """How much of a resource the pods would ask for."""
        return super().requested(resource) + self._delta.get(resource, 0)

    def nonzero_requested(self, resource: str) -> int:
        """As ``requested``, with defaults for containers that ask for none."""
        which = _NONZERO.get(resource)
        if which is None:
            return self.requested(resource)
        more = sum(info.template.nonzero[which] for info in self.added.values())
        less = sum(info.template.nonzero[which] for info in self.removed.values())
        return super().nonzero_requested(resource) + more - less
