"""NodeInfo and PodInfo: one node and one pod, for plugins that evaluate nodes one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from mooring.api.affinity import Taint
from mooring.api.meta import ObjectMeta, plain_mapping
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.templates import HostPort, PodTemplate

if TYPE_CHECKING:
    from mooring.columns.table import NodeTable

_annotations = plain_mapping(ObjectMeta, "annotations")
#: Resources with default requests -> index in the table's ``nonzero``.
_NONZERO = {"cpu": 0, "memory": 1}


#: Sets an attribute of a PodInfo or a NodeInfo. Plugins share these objects, so a plain assignment is an error.
assign = object.__setattr__


class _ReadOnly:
    __slots__ = ()

    def __setattr__(self, name: str, _value: object) -> None:
        kind = type(self).__name__
        raise AttributeError(f"{kind}.{name} is read-only, because all plugins share the object; change a copy")


class PodInfo(_ReadOnly):
    """A pod on a node, with its compiled template.

    Attributes:
        pod: The pod.
        template: What the pod shares with equal pods: its requests, ports, selectors.
        node: The node that the pod is on; None if it is on none.
        index: The pod's index in ``handle.table.pod_columns``; -1 while it is on no node.
    """

    __slots__ = ("index", "node", "pod", "template")

    pod: Pod
    template: PodTemplate
    node: NodeInfo | None
    index: int

    def __init__(self, pod: Pod, template: PodTemplate, node: NodeInfo | None = None) -> None:
        _set_pod(self, pod)
        _set_template(self, template)
        _set_node(self, node)
        _set_index(self, -1)

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
        """The pod's priority; 0 if it has none."""
        return self.pod.priority

    def __repr__(self) -> str:
        return f"PodInfo({self.pod.namespace}/{self.pod.name})"


# Setters of the slots, which take half as long as ``assign``.
_set_pod, _set_template, _set_node, _set_index = (
    vars(PodInfo)[name].__set__ for name in ("pod", "template", "node", "index")
)


class PodListener(Protocol):
    """A listener for pods that are added to, or removed from, a node. Plugins use it for their own indexes.

    A plugin may be a listener itself: ``self.handle.listen(self)``. A class attribute ``volumes_only = True`` skips
    pods without volumes.
    """

    @property
    def volumes_only(self) -> bool:
        """Whether to skip pods without volumes."""
        return False

    def pod_added(self, info: PodInfo, row: int) -> None:
        """Handle a pod that was added to a row."""

    def pod_removed(self, info: PodInfo, row: int) -> None:
        """Handle a pod that was removed from a row."""


class NodeInfo(_ReadOnly):
    """A node: the object, the pods on it, and its resources.

    It always shows the current state, including pods whose bind is in progress.

    Attributes:
        name: The node's name.
        node: The Kubernetes object.
        table: The node table.
        row: The node's row in the table. It can change when a node is removed.
        sequence: A number that increases with every node that is added, and does not change.
    """

    __slots__ = ("_pods", "name", "node", "row", "sequence", "table")

    _pods: dict[str, PodInfo]
    name: str
    node: Node
    row: int
    sequence: int
    table: NodeTable

    def __init__(self, table: NodeTable, row: int, node: Node, sequence: int) -> None:
        assign(self, "table", table)
        assign(self, "row", row)
        assign(self, "node", node)
        assign(self, "name", node.metadata.name)
        assign(self, "sequence", sequence)
        assign(self, "_pods", {})

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
        """Return the node's allocatable amount of a resource.

        The unit is millicores for ``cpu``, bytes for ``memory`` and ``ephemeral-storage``, and pieces for the rest.
        ``pods`` is the maximum number of pods.
        """
        return self.table.amount(self.row, resource, "allocatable")

    def requested(self, resource: str) -> int:
        """Return the sum of the requests of the pods on the node, in the unit of ``allocatable``."""
        return self.table.amount(self.row, resource, "requested")

    def nonzero_requested(self, resource: str) -> int:
        """Return the same as ``requested``, with defaults of 100m cpu and 200Mi memory per container."""
        which = _NONZERO.get(resource)
        return self.requested(resource) if which is None else int(self.table.nonzero[which, self.row])

    def free(self, resource: str) -> int:
        """Return the allocatable amount of a resource minus the requests; negative if the node is overcommitted."""
        return self.allocatable(resource) - self.requested(resource)

    def __repr__(self) -> str:
        return f"NodeInfo({self.name})"


class WhatIfNode(NodeInfo):
    """A node as it would be with some pods added or removed, for nominated pods and preemption.

    Attributes:
        added: The pods that were added hypothetically, by uid.
        removed: The pods that were removed hypothetically, by uid.
        freed_ports: The host ports of removed pods.
    """

    __slots__ = ("_base", "_delta", "added", "freed_ports", "removed")

    __setattr__ = assign  # type: ignore[assignment]  # it is made for one search, and may change

    def __init__(self, base: NodeInfo) -> None:
        super().__init__(base.table, base.row, base.node, base.sequence)
        self._base = base
        self._pods = dict(base._pods)
        self._delta: dict[str, int] = {}
        self.added: dict[str, PodInfo] = {}
        self.removed: dict[str, PodInfo] = {}
        # Free even if a remaining pod uses them too, as in kube-scheduler.
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


def counts_alike(info: PodInfo, pod: Pod, node_name: str) -> bool:
    """Return whether a new version of a pod counts on its node as the current one does, apart from its template."""
    old, node = info.pod, info.node
    before, after = old.metadata, pod.metadata
    return (
        node is not None
        and node.name == node_name
        and (before.deletion_timestamp is None) == (after.deletion_timestamp is None)
        and (old.spec.priority or 0) == (pod.spec.priority or 0)
        and _annotations(before) == _annotations(after)
        and not pod.spec.volumes
    )
