"""NodeTable: one row per node, one column per property that decisions read.

Rows are dense (0 to len - 1): removing a node moves the last row into its place. All changes go through ``add_node``,
``update_node``, ``remove_node``, ``add_pod`` and ``remove_pod``. They change single rows and log them, so that cached
results for the other rows stay valid. ``check`` compares the table with one built from scratch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Literal
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from mooring.api.affinity import Taint
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.quantity import QuantityLike, milli_value, value
from mooring.api.resources import is_scalar
from mooring.columns.counters import CounterRegistry
from mooring.columns.counts import ImageIndex, PortIndex
from mooring.columns.interned import ABSENT, CodeColumn, LabelColumn, absent_codes
from mooring.columns.node_info import NodeInfo, PodInfo, PodListener, assign, counts_alike
from mooring.columns.node_share import NodeShare
from mooring.columns.pod_columns import PodColumns, TemplatePods, starts_of
from mooring.columns.row_cursor import ChangeLog, RowCursor
from mooring.columns.table_check import differences
from mooring.columns.templates import PodTemplate, TemplateRegistry
from mooring.releases import NEWEST, Release

Ints = npt.NDArray[np.int64]
CPU, MEMORY, EPHEMERAL = 0, 1, 2
#: The slot of all resources that no node offers: always 0. Tenants can invent any number of names.
NOT_OFFERED = 3
BASE_RESOURCES = ("cpu", "memory", "ephemeral-storage", "")
_ROWS, _SLOTS = 64, 8


class NodeTable:
    """The cluster's nodes and the pods on them, in columns."""

    def __init__(self, release: Release = NEWEST) -> None:
        #: The release of kube-scheduler that is emulated: it determines what the columns count.
        self.release = release
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
        #: The columns of label keys, and how many nodes have each key.
        self._labels: dict[str, LabelColumn] = {}
        self._label_uses: dict[str, int] = {}
        #: Columns of keys that no node has. They share their codes, and exist only while something refers to them,
        #: because tenants can name any number of keys.
        self._unused_labels: WeakValueDictionary[str, LabelColumn] = WeakValueDictionary()
        self._no_codes = absent_codes(_ROWS)
        self.images = ImageIndex()
        self.ports = PortIndex()
        #: Namespace -> its labels.
        self.namespaces: dict[str, dict[str, str]] = {}
        self.counters = CounterRegistry(self, self.namespaces)
        self.templates = TemplateRegistry(self._prepare, release)
        self.pods: dict[str, PodInfo] = {}
        #: Pods, by uid, whose binding was decided but not observed yet, and pods whose eviction is in progress.
        self.assumed: set[str] = set()
        self.evicting: set[str] = set()
        self.pod_columns = PodColumns(_SLOTS)
        #: Pods whose node is not in the table. They are not counted until the node is added.
        self._orphans: dict[str, dict[str, PodInfo]] = {}
        self._listeners: list[PodListener] = []
        #: The listeners that are also notified of pods without volumes.
        self._listeners_for_all: list[PodListener] = []
        #: Rows whose node changed, and rows whose node or pods changed.
        self.node_changes = ChangeLog()
        self.changes = ChangeLog()
        #: Whether other labels of a pod change its row too: users' plugins may read them, the built-in ones count pods.
        self.marks_labels = True
        #: Increases when rows are added or removed: data computed for all rows is then stale.
        self.structure = 0
        self._arrivals = 0
        #: The nodes and pods of this scheduler, if there are several; None if all are its own.
        self.share: NodeShare | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    # Changes

    @property
    def nodes_version(self) -> int:
        """A number that increases when a node, but not a pod, is added, removed or changed."""
        return self.structure + self.node_changes.position

    def cursor(self) -> RowCursor:
        """Return a cursor over the rows whose node or pods change."""
        return RowCursor(self, self.changes)

    def node_cursor(self, *, survives_resize: bool = False) -> RowCursor:
        """Return a cursor over the rows whose node changes; changes of pods are ignored."""
        return RowCursor(self, self.node_changes, survives_resize=survives_resize)

    # Nodes

    def add_node(self, node: Node) -> NodeInfo:
        """Add a node, or replace one of the same name."""
        row = self.row_of.get(node.name)
        if row is not None:
            self.update_node(node)
            return self.nodes[row]
        row = len(self.nodes)
        self.reserve_rows(row + 1)
        info = NodeInfo(self, row, node, self.next_arrival())
        self.nodes.append(info)
        self.row_of[node.name] = row
        self.structure += 1
        for key in node.labels:
            self.label_key_added(key)
        self._write_node(row, node)
        self.attach_orphans((info,))
        self._node_changed(row)
        return info

    def attach_orphans(self, infos: Iterable[NodeInfo]) -> None:
        """Count the pods whose nodes have arrived."""
        for info in infos:
            for pod in self._orphans.pop(info.name, {}).values():
                self._attach(pod, info)

    def next_arrival(self) -> int:
        """Return the sequence number of a new node."""
        self._arrivals += 1
        return self._arrivals

    def update_node(self, node: Node) -> None:
        """Replace a node object; its pods remain."""
        row = self.row_of[node.name]
        info = self.nodes[row]
        old = info.node
        same_metadata = old.labels == node.labels and old.annotations == node.annotations
        if old.spec == node.spec and old.status == node.status and same_metadata:
            assign(info, "node", node)  # a heartbeat: no column changes
            return
        moved = old.labels != node.labels
        pods = list(info.pods) if moved else []
        for pod in pods:  # counters group pods by the labels of their node
            self._detach(pod)
        self.images.remove_node(row, info.node)
        assign(info, "node", node)
        if moved:
            for key in node.labels:
                self.label_key_added(key)
        self._write_node(row, node)
        if moved:
            self._label_keys_removed(old)
        for pod in pods:
            self._attach(pod, info)
        self._node_changed(row)

    def remove_node(self, name: str) -> None:
        """Remove a node. Pods that are still on it are kept until a node with that name is added."""
        row = self.row_of.pop(name)
        info = self.nodes[row]
        orphans = {pod.pod.uid: pod for pod in info.pods}
        for pod in list(orphans.values()):
            self._detach(pod)
        if orphans:
            self._orphans[name] = orphans
        self._clear_row(row, info)
        self._label_keys_removed(info.node)
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
        assign(info, "row", row)
        self.nodes[row] = info
        self.row_of[info.name] = row
        self._write_node(row, info.node)
        for pod in pods:
            self._attach(pod, info)

    def amounts_of(self, allocatable: Mapping[str, QuantityLike]) -> tuple[list[tuple[int, int]], int]:
        """Return the amounts of a node by slot, and the number of its pods. The columns may be reallocated."""
        found: list[tuple[int, int]] = []
        pods = 0
        for resource, quantity in allocatable.items():
            if resource == "pods":
                pods = value(quantity)
            elif resource == "cpu":
                found.append((CPU, milli_value(quantity)))
            elif resource in self.slots or is_scalar(resource):
                found.append((self.slot(resource), value(quantity)))
        return found, pods

    def _write_node(self, row: int, node: Node) -> None:
        by_slot, self.allowed_pods[row] = self.amounts_of(node.status.allocatable)
        self.allocatable[:, row] = 0
        for slot, amount in by_slot:
            self.allocatable[slot, row] = amount
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
        """Mark a node as changed, because an object that results about the node depend on has changed."""
        if (row := self.row_of.get(name)) is not None:
            self._node_changed(row)

    # Pods

    def template(self, pod: Pod) -> PodTemplate:
        """Return the pod's compiled template."""
        return self.templates.of(pod)

    def add_pod(self, pod: Pod, node_name: str | None = None) -> PodInfo:
        """Add a pod to a node (by default the one in its spec), or replace the pod with that uid."""
        uid, name = pod.metadata.uid, node_name or pod.spec.node_name
        known = self.pods.get(uid)
        template = self.templates.of(pod) if known is None else self.templates.of_update(known.pod, pod)
        if known is not None:
            if counts_alike(known, pod, name):
                # Most updates (a confirmed binding, a status report by the kubelet) do not affect scheduling.
                if template is known.template:
                    assign(known, "pod", pod)
                    self.pod_columns.update(known)
                    return known
                if self._relabel(known, pod, template):
                    return known
            template.share_affinity(known.template)
            with self.counters.held(known.template):
                self.remove_pod(uid)
                return self._add_new(pod, template, name)
        return self._add_new(pod, template, name)

    def _relabel(self, info: PodInfo, pod: Pod, template: PodTemplate) -> bool:
        """Replace a pod by a version that differs by its labels; return False if it must be removed and added.

        The API server labels every pod with the zone of its node when it is bound.
        """
        old, node = info.template, info.node
        assert node is not None
        if self._listeners_for(old) or not old.differs_by_labels(template):
            return False
        template.share_affinity(old)
        terminating = pod.metadata.deletion_timestamp is not None
        if not self.counters.pod_relabelled(old, template, node.row, terminating=terminating):
            return False
        assign(info, "pod", pod)
        assign(info, "template", template)
        self.pod_columns.update(info)
        if self.marks_labels:
            self.changes.mark(node.row)
        return True

    def add_pods(self, pods: Iterable[Pod]) -> list[Pod]:
        """Add pods that are not in the table, in fewer steps than one by one: at start-up, most pods run on a node.

        Return those that are not added, because they have host ports or a plugin listens. If a pod is invalid, this
        raises before any of them is added.
        """
        others: list[Pod] = []
        groups: dict[PodTemplate, TemplatePods] = {}
        pods = list(pods)
        templates = list(map(self.templates.of, pods))
        for pod, template, start in zip(pods, templates, starts_of(pods), strict=True):
            name = pod.spec.node_name
            row = self.row_of.get(name)
            if template.host_ports or self._listeners_for(template):
                others.append(pod)
            elif row is None:
                self._add_new(pod, template, name)
            else:
                info = self.pods[pod.metadata.uid] = PodInfo(pod, template, self.nodes[row])
                group = groups.get(template)
                if group is None:
                    group = groups[template] = TemplatePods([], [], [])
                group.infos.append(info)
                group.rows.append(row)
                group.starts.append(start)
        if groups:
            self._attach_all(groups)
        return others

    def _attach_all(self, groups: dict[PodTemplate, TemplatePods]) -> None:
        """Attach pods without host ports, to which no plugin listens."""
        self._count_all(groups)
        for template, (infos, rows, _) in groups.items():
            for info, row in zip(infos, rows, strict=True):
                self.nodes[row]._pods[info.pod.metadata.uid] = info
            terminating = [info.pod.metadata.deletion_timestamp is not None for info in infos]
            self.counters.pods_added(template, rows, terminating)
            self.changes.mark_all(rows)
        self.pod_columns.add_all(groups)

    def _count_all(self, groups: dict[PodTemplate, TemplatePods]) -> None:
        """Count the amounts of pods of several templates, each column in one step."""
        columns: dict[int, tuple[list[int], list[int]]] = {}
        everywhere: list[int] = []
        cpus: list[int] = []
        memories: list[int] = []
        for template, (_, rows, _) in groups.items():
            for slot, amount in template.scalars.items():
                column = columns.setdefault(slot, ([], []))
                column[0].extend(rows)
                column[1].extend(itertools.repeat(amount, len(rows)))
            cpu, memory = template.nonzero
            everywhere += rows
            cpus += itertools.repeat(cpu, len(rows))
            memories += itertools.repeat(memory, len(rows))
        for slot, (rows, amounts) in columns.items():
            np.add.at(self.requested[slot], rows, amounts)
        np.add.at(self.nonzero[0], everywhere, cpus)
        np.add.at(self.nonzero[1], everywhere, memories)
        np.add.at(self.pod_count, everywhere, 1)

    def _add_new(self, pod: Pod, template: PodTemplate, name: str) -> PodInfo:
        info = PodInfo(pod, template)
        self.pods[pod.metadata.uid] = info
        row = self.row_of.get(name)
        if row is None:
            self._orphans.setdefault(name, {})[pod.metadata.uid] = info
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
        row, template, metadata = node.row, info.template, info.pod.metadata
        assign(info, "node", node)
        node._pods[metadata.uid] = info
        self._count_amounts(template, row, 1)
        self.pod_columns.add(info, row)
        if template.host_ports:
            self.ports.add(template.host_ports, row, 1)
        self.counters.pods_changed(template, row, 1, terminating=metadata.deletion_timestamp is not None)
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
        assign(info, "node", None)
        self.changes.mark(row)

    def suppose(self, template: PodTemplate, rows: npt.NDArray[np.intp], counts: Ints | int) -> None:
        """Count the requests of pods that are not added, on several different rows; negative counts undo it.

        Only the amounts change. Undo it before anything else reads the table, and use it only for templates and
        plugins to which nothing but the amounts matters.
        """
        self._count_amounts(template, rows, counts)
        self.changes.mark_all(rows.tolist())

    def _count_amounts(self, template: PodTemplate, row: int | npt.NDArray[np.intp], sign: int | Ints) -> None:
        requested = self.requested
        for slot, amount in template.scalars.items():
            requested[slot, row] += sign * amount
        cpu, memory = template.nonzero
        self.nonzero[0, row] += sign * cpu
        self.nonzero[1, row] += sign * memory
        self.pod_count[row] += sign

    def _prepare(self, template: PodTemplate) -> None:
        """Find the slots of the resources that a template requests, except those that no node offers."""
        slots = self.slots
        template.scalars = scalars = {}
        for resource, amount in template.requests.items():
            slot = slots.get(resource)
            if amount and slot is not None:
                scalars[slot] = amount

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
        """Return the slot of a resource that a node offers or the configuration names; it is assigned on first use."""
        slot = self.slots.get(resource)
        return self._add_slot(resource) if slot is None else slot

    def _add_slot(self, resource: str) -> int:
        slot = self.slots[resource] = len(self.slots)
        if slot >= len(self.allocatable):
            self._grow_slots(2 * len(self.allocatable))
        self.templates.renew()
        for info in self.pods.values():  # pods may have requested the resource before a node offered it
            amount = info.template.requests.get(resource)
            if amount and info.node is not None:
                self._prepare(info.template)
                self.requested[slot, info.node.row] += amount
                self.pod_columns.amounts[info.index, slot] = amount
                self.changes.mark(info.node.row)
        return slot

    def requested_by_row(self, resource: str) -> Ints:
        """Return the requests for a resource on all rows, whether or not a node offers it. Do not modify it."""
        found: Ints
        slot = self.slots.get(resource)
        if slot is not None:
            found = self.requested[slot]
            return found
        found = np.zeros(len(self.pod_count), dtype=np.int64)
        for info in self.pods.values():
            if info.node is not None:
                found[info.node.row] += info.template.requests.get(resource, 0)
        return found

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label; it is created on first use."""
        column = self._labels.get(key)
        if column is not None:
            return column
        if key not in self._label_uses:
            column = self._unused_labels.get(key)
            if column is None:
                column = self._unused_labels[key] = LabelColumn(0, self._no_codes)
            return column
        column = self._labels[key] = LabelColumn(len(self.pod_count))
        for row, info in enumerate(self.nodes):
            column.set(row, info.labels.get(key))
        return column

    def has_label_key(self, key: str) -> bool:
        """Return whether a node has a label. Cheaper than its column, for the keys that a tenant invents."""
        return key in self._label_uses

    def label_key_added(self, key: str, nodes: int = 1) -> None:
        """Count a label key of nodes, before they are written."""
        uses = self._label_uses[key] = self._label_uses.get(key, 0) + nodes
        if uses == nodes:
            column = self._unused_labels.pop(key, None)
            if column is not None:
                column.codes = np.full(len(self.pod_count), ABSENT, dtype=np.int32)
                self._labels[key] = column

    def _label_keys_removed(self, node: Node) -> None:
        """Count the label keys of a node, after it was removed or overwritten."""
        for key in node.labels:
            self._label_uses[key] -= 1
            if not self._label_uses[key]:
                del self._label_uses[key]
                column = self._labels.pop(key, None)
                if column is not None:
                    column.codes = self._no_codes
                    self._unused_labels[key] = column

    def amount(self, row: int, resource: str, of: Literal["allocatable", "requested"]) -> int:
        """Return one amount of one row."""
        if resource == "pods":
            return int((self.allowed_pods if of == "allocatable" else self.pod_count)[row])
        slot = self.slots.get(resource)
        if slot is not None:
            return int((self.allocatable if of == "allocatable" else self.requested)[slot, row])
        if of == "allocatable":
            return 0
        return sum(info.template.requests.get(resource, 0) for info in self.nodes[row].pods)

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

    def reserve_rows(self, count: int) -> None:
        """Make room for a number of rows."""
        while len(self.pod_count) < count:
            self._grow_rows(2 * len(self.pod_count))

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
        self._no_codes = absent_codes(capacity)
        for column in list(self._unused_labels.values()):
            column.codes = self._no_codes

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
        fresh = NodeTable(self.release)
        for name, labels in self.namespaces.items():
            fresh.set_namespace(name, labels)
        for info in sorted(self.nodes, key=lambda info: info.sequence):
            fresh.add_node(info.node)
        for pod in self.pods.values():
            home = pod.node.name if pod.node is not None else pod.pod.node_name
            fresh.add_pod(pod.pod, home)
        return fresh

    def check(self) -> list[str]:
        """Return the differences from a table built from scratch. Any difference is a bug."""
        return differences(self, self.rebuilt())
