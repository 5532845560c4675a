"""NodeInfo and PodInfo: one node and one pod, for plugins that work node by node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mooring.api.affinity import Taint
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.templates import HostPort, PodTemplate

if TYPE_CHECKING:
    from mooring.columns.table import NodeTable

#: Resources with default requests -> index in the table's ``nonzero``.
_NONZERO = {"cpu": 0, "memory": 1}


class PodInfo:
    """A pod with its compiled template, and its node (None while it has none)."""

    __slots__ = ("index", "node", "pod", "template")

    def __init__(self, pod: Pod, template: PodTemplate) -> None:
        self.pod = pod
        self.template = template
        self.node: NodeInfo | None = None
        #: Its index in the table's pod columns; -1 while it is on no node of the table.
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
    """A node: the object, the pods on it, and its resources.

    It is live: it always shows the current state of the table.
    """

    __slots__ = ("_pods", "name", "node", "row", "sequence", "table")

    def __init__(self, table: NodeTable, row: int, node: Node, sequence: int) -> None:
        self.table = table
        self.row = row
        self.node = node
        #: The node's name: a plain attribute, since plugins read it often.
        self.name = node.metadata.name
        #: The order in which nodes were added; rows change when a node is removed.
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
        """The pods on the node, in the order in which they were added."""
        return self._pods.values()

    @property
    def pod_count(self) -> int:
        """The number of pods on the node."""
        return len(self._pods)

    def allocatable(self, resource: str) -> int:
        """Return the node's allocatable amount of a resource (millicores for cpu)."""
        return self.table.amount(self.row, resource, "allocatable")

    def requested(self, resource: str) -> int:
        """Return the sum of the requests of the pods on the node."""
        return self.table.amount(self.row, resource, "requested")

    def nonzero_requested(self, resource: str) -> int:
        """Return the same as ``requested``, with defaults of 100m cpu and 200Mi memory per container."""
        which = _NONZERO.get(resource)
        return self.requested(resource) if which is None else int(self.table.nonzero[which, self.row])

    def free(self, resource: str) -> int:
        """Return the allocatable amount minus the requests."""
        return self.allocatable(resource) - self.requested(resource)

    def __repr__(self) -> str:
        return f"NodeInfo({self.name})"


class WhatIfNode(NodeInfo):
    """A node with some pods added or removed; used for nominated pods and preemption."""

    __slots__ = ("_base", "_delta", "added", "freed_ports", "removed")

    def __init__(self, base: NodeInfo) -> None:
        super().__init__(base.table, base.row, base.node, base.sequence)
        self._base = base
        self._pods = dict(base._pods)
        self._delta: dict[str, int] = {}
        self.added: dict[str, PodInfo] = {}
        self.removed: dict[str, PodInfo] = {}
        #: Host ports of removed pods: free even if a remaining pod uses them too, as in kube-scheduler.
        self.freed_ports: set[HostPort] = set()

    def add_pod(self, info: PodInfo) -> None:
        """Add a pod hypothetically."""
        self._pods[info.pod.uid] = info
        if self.removed.pop(info.pod.uid, None) is None:
            self.added[info.pod.uid] = info
        self.freed_ports.difference_update(info.template.host_ports)
        self._shift(info, 1)

    def remove_pod(self, info: PodInfo) -> None:
        """Remove a pod hypothetically."""
        self._pods.pop(info.pod.uid, None)
        if self.added.pop(info.pod.uid, None) is None:
            self.removed[info.pod.uid] = info
        self.freed_ports.update(info.template.host_ports)
        self._shift(info, -1)

    def _shift(self, info: PodInfo, sign: int) -> None:
        for resource, amount in info.template.requests.items():
            self._delta[resource] = self._delta.get(resource, 0) + sign * amount

    def requested(self, resource: str) -> int:
        """Return the sum of the requests, including the hypothetical changes."""
        return super().requested(resource) + self._delta.get(resource, 0)

    def nonzero_requested(self, resource: str) -> int:
        """Return the same as ``requested``, with defaults for containers without requests."""
        which = _NONZERO.get(resource)
        if which is None:
            return self.requested(resource)
        more = sum(info.template.nonzero[which] for info in self.added.values())
        less = sum(info.template.nonzero[which] for info in self.removed.values())
        return super().nonzero_requested(resource) + more - less
