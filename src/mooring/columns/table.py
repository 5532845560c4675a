"""NodeTable: one row per node, one column per property that decisions read.

Rows are dense (0 to len - 1): removing a node moves the last row into its place. All changes go through ``add_node``,
``update_node``, ``remove_node``, ``add_pod`` and ``remove_pod``. They change single rows and log them, so that cached
results for the other rows stay valid. ``check`` compares the table with one built from scratch.

"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from mooring.api.affinity import Taint
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.quantity import milli_value, value
from mooring.api.resources import is_scalar
from mooring.columns.counters import CounterRegistry
from mooring.columns.counts import ImageIndex, PortIndex
from mooring.columns.interned import CodeColumn, LabelColumn
from mooring.columns.node_info import NodeInfo, PodInfo
from mooring.columns.pod_columns import PodColumns
from mooring.columns.row_cursor import ChangeLog, RowCursor
from mooring.columns.table_check import differences
from mooring.columns.templates import PodTemplate, TemplateRegistry

Ints = npt.NDArray[np.int64]
CPU, MEMORY, EPHEMERAL = 0, 1, 2
BASE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_ROWS, _SLOTS = 64, 8


class PodListener:
    """Notified of pods that are added to, or removed from, a row of the table; for a plugin's own indexes."""

    #: Whether to skip pods without volumes; most pods have none, and every call costs time.
    volumes_only = False

    def pod_added(self, info: PodInfo, row: int) -> None:
        """Handle a pod that was added to a row."""

    def pod_removed(self, info: PodInfo, row: int) -> None:
        """Handle a pod that was removed from a row."""


class NodeTable:
    """The cluster's nodes and the pods on them, in columns."""

    def __init__(self) -> None:
        self.nodes: list[NodeInfo] = []
        self.row_of: dict[str, int] = {}
        #: Resource name -> slot of the amount columns.
        self.slots: dict[str, int] = {name: slot for slot, name in enumerate(BASE_RESOURCES)}
        self.allocatable: Ints = np.zeros((_SLOTS, _ROWS), dtype=np.int64)
        self.requested: Ints = np.zeros((_SLOTS, _ROWS), dtype=np.int64)
        #: Requested cpu and memory, with defaults for containers without requests.
        self.nonzero: Ints = np.zeros((2, _ROWS), dtype=np.int64)
        self.pod_count: Ints = np.zeros(_ROWS, dtype=np.int64)
        self.allowed_pods: Ints = np.zeros(_ROWS, dtype=np.int64)
        self.unschedulable: npt.NDArray[np.bool_] = np.zeros(_ROWS, dtype=np.bool_)
        #: The number of unschedulable nodes.
        self.cordoned = 0
        self.taints: CodeColumn[tuple[Taint, ...]] = CodeColumn(_ROWS)
        self.features: CodeColumn[tuple[str, ...]] = CodeColumn(_ROWS)
        self._labels: dict[str, LabelColumn] = {}
        self.images = ImageIndex()
        self.ports = PortIndex()
        #: Namespace -> its labels.
        self.namespaces: dict[str, dict[str, str]] = {}
        self.counters = CounterRegistry(self.label, self.namespaces)
        self.templates = TemplateRegistry(self._prepare)
        self.pods: dict[str, PodInfo] = {}
        #: Pods, by uid, whose binding was decided but not observed yet, and pods whose eviction is in flight.
        self.assumed: set[str] = set()
        self.evicting: set[str] = set()
        self.pod_columns = PodColumns(_SLOTS)
        #: Pods whose node is not in the table: they are not counted until the node is added.
        self._orphans: dict[str, dict[str, PodInfo]] = {}
        self._listeners: list[PodListener] = []
        #: Those of them that are notified of pods without volumes.
        self._listeners_for_all: list[PodListener] = []
        #: Rows whose node changed, and rows whose node or pods changed.
        self.node_changes = ChangeLog()
        self.changes = ChangeLog()
        #: Increases when rows are added or removed: data computed for all rows is then stale.
        self.structure = 0
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self.nodes)

    # Changes

    @property
    def nodes_version(self) -> int:
        """A number that increases when a node is added, removed or changed; pods do not matter."""
        return self.structure + self.node_changes.position

    def cursor(self) -> RowCursor:
        """Return a cursor over the rows whose node or pods change."""
        return RowCursor(self, self.changes)

    def node_cursor(self, *, survives_resize: bool = False) -> RowCursor:
        """Return a cursor over the rows whose node changes; pods do not matter."""
        return RowCursor(self, self.node_changes, survives_resize=survives_resize)

    # Nodes

    def add_node(self, node: Node) -> NodeInfo:
        """Add a node, or replace one of the same name."""
        row = self.row_of.get(node.name)
        if row is not None:
            self.update_node(node)
            return self.nodes[row]
        row = len(self.nodes)
        if row >= len(self.pod_count):
            self._grow_rows(2 * len(self.pod_count))
        self._arrivals += 1
        info = NodeInfo(self, row, node, self._arrivals)
        self.nodes.append(info)
        self.row_of[node.name] = row
        self.structure += 1
        self._write_node(row, node)
        for pod in self._orphans.pop(node.name, {}).values():
            self._attach(pod, info)
        self._node_changed(row)
        return info

    def update_node(self, node: Node) -> None:
        """Replace a node object; its pods stay."""
        row = self.row_of[node.name]
        info = self.nodes[row]
        old = info.node
        if old.spec == node.spec and old.status == node.status and _same_metadata(old, node):
            info.node = node  # a heartbeat: no column changes
            return
        moved = old.labels != node.labels
        pods = list(info.pods) if moved else []
        for pod in pods:  # counters group pods by the labels of their node
            self._detach(pod)
        self.images.remove_node(row, info.node)
        info.node = node
        self._write_node(row, node)
        for pod in pods:
            self._attach(pod, info)
        self._node_changed(row)

    def remove_node(self, name: str) -> None:
        """Remove a node; pods that are still on it are kept until a node of that name is added."""
        row = self.row_of.pop(name)
        info = self.nodes[row]
        orphans = {pod.pod.uid: pod for pod in info.pods}
        for pod in list(orphans.values()):
            self._detach(pod)
        if orphans:
            self._orphans[name] = orphans
        self._clear_row(row, info)
        last = len(self.nodes) - 1
        mover = self.nodes.pop()
        self.structure += 1
        if row != last:
            self._move_row(mover, row)
            self._node_changed(row)

    def _move_row(self, info: NodeInfo, row: int) -> None:
        pods = list(info.pods)
        for pod in pods:
            self._detach(pod)
        self._clear_row(info.row, info)
        info.row = row
        self.nodes[row] = info
        self.row_of[info.name] = row
        self._write_node(row, info.node)
        for pod in pods:
            self._attach(pod, info)

    def _write_node(self, row: int, node: Node) -> None:
        self.allocatable[:, row] = 0
        self.allowed_pods[row] = 0
        for resource, quantity in node.status.allocatable.items():
            if resource == "pods":
                self.allowed_pods[row] = value(quantity)
            elif resource == "cpu":
                self.allocatable[CPU, row] = milli_value(quantity)
            elif resource in self.slots or is_scalar(resource):
                slot = self.slot(resource)  # may replace the columns by larger ones
                self.allocatable[slot, row] = value(quantity)
        self.cordoned += int(node.unschedulable) - int(self.unschedulable[row])
        self.unschedulable[row] = node.unschedulable
        self.taints.set(row, node.taints or None)
        self.features.set(row, tuple(sorted(node.status.declared_features)) or None)
        labels = node.labels
        for key, column in self._labels.items():
            column.set(row, labels.get(key))
        self.images.add_node(row, node)

    def _clear_row(self, row: int, info: NodeInfo) -> None:
        self.images.remove_node(row, info.node)
        self.cordoned -= int(self.unschedulable[row])
        self.unschedulable[row] = False
        self.taints.set(row, None)
        self.features.set(row, None)
        for column in self._labels.values():
            column.set(row, None)

    def _node_changed(self, row: int) -> None:
        self.node_changes.mark(row)
        self.changes.mark(row)

    def touch(self, name: str) -> None:
        """Log a change of a node, made in an object other than the Node that results about it depend on."""
        row = self.row_of.get(name)
        if row is not None:
            self._node_changed(row)

    # Pods

    def template(self, pod: Pod) -> PodTemplate:
        """Return the pod's compiled template."""
        return self.templates.of(pod)

    def add_pod(self, pod: Pod, node_name: str | None = None) -> PodInfo:
        """Add a pod to a node (by default the one in its spec), or replace the pod with that uid."""
        uid, name, template = pod.uid, node_name or pod.node_name, self.templates.of(pod)
        known = self.pods.get(uid)
        if known is not None:
            if _counts_alike(known, pod, template, name):
                # Most updates (a confirmed binding, a status report by the kubelet) do not affect scheduling.
                known.pod = pod
                self.pod_columns.restart(known)
                return known
            self.remove_pod(uid)
        info = PodInfo(pod, template)
        self.pods[uid] = info
        row = self.row_of.get(name)
        if row is None:
            self._orphans.setdefault(name, {})[uid] = info
        else:
            self._attach(info, self.nodes[row])
        return info

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Remove a pod; return None if it is not in the table."""
        info = self.pods.pop(uid, None)
        if info is None:
            return None
        if info.node is not None:
            self._detach(info)
            return info
        for name, orphans in self._orphans.items():
            if orphans.pop(uid, None) is not None:
                if not orphans:
                    del self._orphans[name]
                break
        return info

    def _attach(self, info: PodInfo, node: NodeInfo) -> None:
        row, template, pod = node.row, info.template, info.pod
        info.node = node
        node._pods[pod.uid] = info
        self._count_amounts(template, row, 1)
        self.pod_columns.add(info, row)
        if template.host_ports:
            self.ports.add(template.host_ports, row, 1)
        self.counters.pods_changed(template, row, 1, terminating=pod.is_terminating)
        for listener in self._listeners_for(template):
            listener.pod_added(info, row)
        self.changes.mark(row)

    def _detach(self, info: PodInfo) -> None:
        node = info.node
        if node is None:
            return
        row, template, pod = node.row, info.template, info.pod
        for listener in self._listeners_for(template):
            listener.pod_removed(info, row)
        self.counters.pods_changed(template, row, -1, terminating=pod.is_terminating)
        if template.host_ports:
            self.ports.add(template.host_ports, row, -1)
        self.pod_columns.remove(info)
        self._count_amounts(template, row, -1)
        del node._pods[pod.uid]
        info.node = None
        self.changes.mark(row)

    def _count_amounts(self, template: PodTemplate, row: int, sign: int) -> None:
        requested = self.requested
        for slot, amount in template.scalars:
            requested[slot, row] += sign * amount
        cpu, memory = template.nonzero
        self.nonzero[0, row] += sign * cpu
        self.nonzero[1, row] += sign * memory
        self.pod_count[row] += sign

    def _prepare(self, template: PodTemplate) -> None:
        """Assign slots to the resources that a new template requests."""
        template.scalars = tuple(
            (self.slot(resource), amount)
            for resource, amount in template.requests.items()
            if amount and (resource in self.slots or is_scalar(resource))
        )

    # Namespaces

    def set_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        """Set a namespace's labels; None removes the namespace."""
        if self.namespaces.get(name) == labels:
            return
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        self.counters.namespace_changed()

    # Columns

    def slot(self, resource: str) -> int:
        """Return the slot of a resource; it is assigned on first use."""
        slot = self.slots.get(resource)
        if slot is None:
            slot = self.slots[resource] = len(self.slots)
            if slot >= len(self.allocatable):
                self._grow_slots(2 * len(self.allocatable))
        return slot

    def label(self, key: str) -> LabelColumn:
        """Return the codes of a label; the column is created on first use."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn(len(self.pod_count))
            for row, info in enumerate(self.nodes):
                column.set(row, info.labels.get(key))
        return column

    def amount(self, row: int, resource: str, of: Literal["allocatable", "requested"]) -> int:
        """Return one amount of one row."""
        if resource == "pods":
            return int((self.allowed_pods if of == "allocatable" else self.pod_count)[row])
        slot = self.slots.get(resource)
        if slot is None:
            return 0
        return int((self.allocatable if of == "allocatable" else self.requested)[slot, row])

    def subscribe(self, listener: PodListener) -> Callable[[], None]:
        """Notify a listener of all pods, present ones first; return a function that ends the subscription."""
        for info in self.pods.values():
            if info.node is not None and (info.pod.spec.volumes or not listener.volumes_only):
                listener.pod_added(info, info.node.row)
        self._set_listeners([*self._listeners, listener])

        def unsubscribe() -> None:
            self._set_listeners([each for each in self._listeners if each is not listener])

        return unsubscribe

    def _set_listeners(self, listeners: list[PodListener]) -> None:
        self._listeners = listeners
        self._listeners_for_all = [listener for listener in listeners if not listener.volumes_only]

    def _listeners_for(self, template: PodTemplate) -> list[PodListener]:
        return self._listeners if template.pod.spec.volumes else self._listeners_for_all

    def _grow_rows(self, capacity: int) -> None:
        def grown(column: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
            bigger = np.zeros((*column.shape[:-1], capacity), dtype=column.dtype)
            bigger[..., : column.shape[-1]] = column
            return bigger

        for name in ("allocatable", "requested", "nonzero", "pod_count", "allowed_pods", "unschedulable"):
            setattr(self, name, grown(getattr(self, name)))
        self.taints.grow(capacity)
        self.features.grow(capacity)
        for column in self._labels.values():
            column.grow(capacity)

    def _grow_slots(self, capacity: int) -> None:
        for name in ("allocatable", "requested"):
            column = getattr(self, name)
            bigger = np.zeros((capacity, column.shape[1]), dtype=np.int64)
            bigger[: len(column)] = column
            setattr(self, name, bigger)
        self.pod_columns.grow_slots(capacity)

    def label_keys(self) -> list[str]:
        """Return the label keys that have a column."""
        return list(self._labels)

    # Consistency checks

    def rebuilt(self) -> NodeTable:
        """Return a table with the same nodes, pods and namespaces, built from scratch."""
        fresh = NodeTable()
        for name, labels in self.namespaces.items():
            fresh.set_namespace(name, labels)
        for info in sorted(self.nodes, key=lambda info: info.sequence):
            fresh.add_node(info.node)
        for pod in self.pods.values():
            home = pod.node.name if pod.node is not None else pod.pod.node_name
            fresh.add_pod(pod.pod, home)
        return fresh

    def check(self) -> list[str]:
        """Return the differences from a table built from scratch: empty, unless there is a bug."""
        return differences(self, self.rebuilt())


def _counts_alike(known: PodInfo, pod: Pod, template: PodTemplate, node_name: str) -> bool:
    """Whether a new version of a pod counts on its node exactly as the current one does."""
    old, node = known.pod, known.node
    return (
        known.template is template
        and node is not None
        and node.name == node_name
        and old.is_terminating == pod.is_terminating
        and old.priority == pod.priority
        and old.annotations == pod.annotations
        and not pod.spec.volumes
    )


def _same_metadata(old: Node, new: Node) -> bool:
    return old.labels == new.labels and old.annotations == new.annotations
