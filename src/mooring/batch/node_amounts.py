"""Volcano's amounts of each node, as columns derived from the node table, and the copy that a session works on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.batch.resource import CPU, MEMORY, MIN_RESOURCE, PODS, Resource, pod_request
from mooring.batch.task import PIPELINED, RELEASING, Status, task_status
from mooring.columns.row_cursor import RowCursor
from mooring.columns.table import NodeTable
from mooring.columns.templates import PodTemplate

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
#: A request by slot.
SlotAmounts = tuple[tuple[int, float], ...]

_OVERSUBSCRIBED = {"volcano.sh/oversubscription-cpu": CPU, "volcano.sh/oversubscription-memory": MEMORY}
_REQUEST = "batch.request"
_ROWS, _SLOTS = 64, 8
#: The maximum length of numbers in annotations; longer ones are truncated.
_MAX_LENGTH = 64
#: If more changes than this were recorded, all rows are read again.
_MANY = 1 << 15


def node_allocatable(node: Node) -> Resource:
    """Return the allocatable resources of a node, including oversubscribed ones."""
    result = Resource.of(node.status.allocatable)
    for key, name in _OVERSUBSCRIBED.items():
        text = node.annotations.get(key)
        if text is not None:
            try:
                more = float(text[:_MAX_LENGTH])
            except ValueError:
                more = 0.0
            if not math.isfinite(more):
                more = 0.0
            if name == CPU:
                result.cpu += more
            else:
                result.memory += more
    return result


def is_selected(labels: Mapping[str, str], selector: Collection[tuple[str, str]]) -> bool:
    """Return whether a node has one of the labels of ``--node-selector``; without labels, every node is selected."""
    return not selector or any(labels.get(key) == value for key, value in selector)


def request_of(template: PodTemplate, pod: Pod) -> Resource:
    """Return a pod's request, computed once for each template. It is shared: do not modify it."""
    return template.kept(_REQUEST, lambda: pod_request(pod))


class NodeAmounts:
    """Allocatable and used amounts of nodes, by resource (slot) and row of the node table.

    ``refresh`` updates the columns from the table; it reads only the rows that changed. Assumed pods are pods of the
    table, so they are counted like any other. Nodes that are not selected have no allocatable resources.
    """

    def __init__(self, table: NodeTable, selector: Collection[tuple[str, str]] = ()) -> None:
        self._table = table
        self.selector = selector
        self._selected: Mask = np.ones(_ROWS, dtype=np.bool_)
        self._nodes = RowCursor(table, table.node_changes, survives_resize=True)
        self._pods = RowCursor(table, table.changes, survives_resize=True)
        #: Resource -> slot; CPU and memory come first, since they are always compared.
        self.slots: dict[str, int] = {CPU: 0, MEMORY: 1, PODS: 2}
        #: The allocatable resources of each row's node. They are shared: do not modify them.
        self.offers: list[Resource] = []
        self._total: Resource | None = None
        self.allocatable: Floats = np.zeros((_SLOTS, _ROWS))
        self.used: Floats = np.zeros((_SLOTS, _ROWS))
        self.releasing: Floats = np.zeros((_SLOTS, _ROWS))
        #: Which resources the node of each row names, by slot, and the number of pods that it allows.
        self._named: Mask = np.zeros((_SLOTS, _ROWS), dtype=np.bool_)
        self.max_tasks: Ints = np.zeros(_ROWS, dtype=np.int64)

    def add_slots(self, names: Iterable[str]) -> None:
        """Assign a slot to each resource."""
        for name in names:
            if name not in self.slots:
                self.slots[name] = len(self.slots)
        if len(self.slots) > len(self.used):
            self._grow(2 * len(self.slots), self.used.shape[1])

    def refresh(self) -> None:
        """Read the rows that changed since the last call."""
        size = len(self._table)
        if size > self.used.shape[1]:
            self._grow(len(self.used), 2 * size)
        rows = self._nodes.changed(_MANY)
        if rows is None:
            self.offers = []
        if rows is None or len(rows) or size != len(self.offers):
            self._total = None
        del self.offers[size:]
        self.offers += [Resource()] * (size - len(self.offers))
        for row in range(size) if rows is None else rows:
            self._read_node(row)
        self._nodes.advance()
        rows = self._pods.changed(_MANY)
        for row in range(size) if rows is None else rows:
            self._read_pods(row)
        self._pods.advance()

    def selected(self) -> Mask | None:
        """Return which nodes are selected; None for all of them."""
        return self._selected[: len(self._table)].copy() if self.selector else None

    def total(self) -> Resource:
        """Return a new sum of the allocatable resources of all selected nodes."""
        if self._total is None:
            self._total = self._sum()
        return self._total.clone()

    def _sum(self) -> Resource:
        """Add up the offers in the order of their rows, like Resource.add, which also orders the resources."""
        size = len(self.offers)
        if not size:
            return Resource()
        # The rounded sum of floats depends on their order, and np.sum does not keep it.
        sums = np.add.accumulate(self.allocatable[:, :size], axis=1)[:, -1].tolist()
        total = Resource(sums[self.slots[CPU]], sums[self.slots[MEMORY]])
        first: dict[str, tuple[int, int]] = {}
        for name, slot in self.slots.items():
            row = int(self._named[slot, :size].argmax())
            scalars = self.offers[row].scalars
            if scalars is not None and name in scalars:
                first[name] = (row, list(scalars).index(name))
        for name in sorted(first, key=first.__getitem__):
            total.add_scalar(name, sums[self.slots[name]])
        return total

    def _read_node(self, row: int) -> None:
        node = self._table.nodes[row].node
        self._selected[row] = is_selected(node.labels, self.selector)
        offer = self.offers[row] = node_allocatable(node) if self._selected[row] else Resource()
        amounts = offer.as_dict()
        self.add_slots(amounts)
        self.allocatable[:, row] = 0.0
        self._named[:, row] = False
        self.max_tasks[row] = offer.max_tasks
        for name, amount in amounts.items():
            slot = self.slots[name]
            self.allocatable[slot, row] = amount
            self._named[slot, row] = True

    def _read_pods(self, row: int) -> None:
        table = self._table
        assumed, evicting = table.assumed, table.evicting
        used, releasing = [0.0] * len(self.used), [0.0] * len(self.used)
        for info in table.nodes[row].pods:
            pod = info.pod
            amounts = info.template.kept(self, lambda: self._by_slot(info.template, pod))  # noqa: B023  # called at once
            if len(used) < len(self.used):  # a resource that no pod or node had before
                used += [0.0] * (len(self.used) - len(used))
                releasing += [0.0] * (len(self.used) - len(releasing))
            for slot, amount in amounts:
                used[slot] += amount
            if task_status(pod, assumed=pod.uid in assumed, evicting=pod.uid in evicting) == RELEASING:
                for slot, amount in amounts:
                    releasing[slot] += amount
        self.used[:, row] = used
        self.releasing[:, row] = releasing

    def _by_slot(self, template: PodTemplate, pod: Pod) -> SlotAmounts:
        amounts = request_of(template, pod).as_dict()
        self.add_slots(amounts)
        return tuple((self.slots[name], amount) for name, amount in amounts.items())

    def _grow(self, slots: int, rows: int) -> None:
        for name in ("allocatable", "used", "releasing", "_named"):
            column = getattr(self, name)
            bigger = np.zeros((slots, rows), dtype=column.dtype)
            bigger[: column.shape[0], : column.shape[1]] = column
            setattr(self, name, bigger)
        limits = np.zeros(rows, dtype=np.int64)
        limits[: len(self.max_tasks)] = self.max_tasks
        self.max_tasks = limits
        selected = np.ones(rows, dtype=np.bool_)
        selected[: len(self._selected)] = self._selected
        self._selected = selected


class SessionAmounts:
    """A session's working copy: idle, used, releasing and pipelined amounts, by slot and row."""

    def __init__(self, current: NodeAmounts, rows: int) -> None:
        shape = np.s_[: len(current.slots), :rows]
        self.slots = dict(current.slots)
        self.allocatable: Floats = current.allocatable[shape].copy()
        self.used: Floats = current.used[shape].copy()
        self.releasing: Floats = current.releasing[shape].copy()
        #: The number of pods that each node allows.
        self.max_tasks: Ints = current.max_tasks[:rows].copy()
        #: The nodes that the session considers; None for all of them. The others have no amounts.
        self.selected: Mask | None = current.selected()
        if self.selected is not None:
            for column in (self.allocatable, self.used, self.releasing):
                column[:, ~self.selected] = 0.0
        self.pipelined: Floats = np.zeros(self.used.shape)
        self.idle: Floats = self.allocatable - self.used
        #: idle + releasing - pipelined.
        self.future: Floats = self.idle + self.releasing
        self._by_slot: dict[int, tuple[Resource, SlotAmounts]] = {}

    def by_slot(self, request: Resource) -> SlotAmounts:
        """Return a request by slot: CPU, memory, then the other resources that it names."""
        found = self._by_slot.get(id(request))
        if found is None:
            amounts = tuple((self.slots[name], amount) for name, amount in request.as_dict().items())
            found = self._by_slot[id(request)] = (request, amounts)
        return found[1]

    def fits(self, request: Resource, room: Floats, rows: npt.NDArray[np.intp] | None = None) -> Mask:
        """Return which rows have room for a request."""
        result: Mask | None = None
        for slot, amount in self.by_slot(request):
            column = room[slot] if rows is None else room[slot, rows]
            enough = column > amount - MIN_RESOURCE
            result = enough if result is None else np.logical_and(result, enough, out=result)
        assert result is not None, "CPU and memory are always compared"
        if self.selected is not None:
            result &= self.selected if rows is None else self.selected[rows]
        return result

    def fits_row(self, request: Resource, room: Floats, row: int) -> bool:
        """Return whether one row has room for a request."""
        if self.selected is not None and not self.selected[row]:
            return False
        for slot, amount in self.by_slot(request):
            if not room.item(slot, row) > amount - MIN_RESOURCE:
                return False
        return True

    def count(self, request: Resource, row: int, status: Status, sign: int) -> None:
        """Add (+1) or subtract (-1) a task with a status on a row."""
        amounts = self.by_slot(request)
        if status == PIPELINED:
            for slot, amount in amounts:
                self.pipelined[slot, row] += sign * amount
                self.future[slot, row] -= sign * amount
            return
        releasing = status == RELEASING
        for slot, amount in amounts:
            self.idle[slot, row] -= sign * amount
            self.used[slot, row] += sign * amount
            if releasing:
                self.releasing[slot, row] += sign * amount
            else:
                self.future[slot, row] -= sign * amount

    def resource(self, column: Floats, row: int) -> Resource:
        """Return one row of a column as a Resource."""
        result = Resource(column.item(0, row), column.item(1, row), {})
        for name, slot in self.slots.items():
            if slot > 1:
                result.scalars[name] = column.item(slot, row)  # type: ignore[index]  # made just above
        return result
