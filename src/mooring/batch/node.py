"""Nodes as a session accounts for them: what is idle, used, being released and promised, in columns.

``Ledger`` has a row for each node of the node table (the same rows) and a slot for each resource. ``NodeInfo`` is one
row as a plugin that works node by node sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mooring.api.node import Node
from mooring.batch.resource import CPU, MEMORY, MIN_RESOURCE, PODS, Resource
from mooring.batch.task import PIPELINED, RELEASING, REVOCABLE_ZONE, Status, TaskInfo

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
#: A request by slot.
Amounts = tuple[tuple[int, float], ...]

_OVERSUBSCRIBED = {"volcano.sh/oversubscription-cpu": CPU, "volcano.sh/oversubscription-memory": MEMORY}


def node_allocatable(node: Node) -> Resource:
    """What a node offers, what it lends beyond its means included."""
    result = Resource.of(node.status.allocatable)
    for key, name in _OVERSUBSCRIBED.items():
        text = node.annotations.get(key)
        if text is not None:
            try:
                more = float(text)
            except ValueError:
                more = 0.0
            if name == CPU:
                result.cpu += more
            else:
                result.memory += more
    return result


class Ledger:
    """Amounts by resource (slot) and node (row)."""

    def __init__(self, allocatable: Sequence[Resource], more: Iterable[str] = ()) -> None:
        #: Resource -> slot; CPU and memory come first, since they are always compared.
        self.slots: dict[str, int] = {CPU: 0, MEMORY: 1, PODS: 2}
        for offered in allocatable:
            for name in offered.scalars or ():
                self.slots.setdefault(name, len(self.slots))
        for name in more:
            self.slots.setdefault(name, len(self.slots))
        shape = (len(self.slots), len(allocatable))
        self.allocatable: Floats = np.zeros(shape)
        for row, offered in enumerate(allocatable):
            for name, amount in offered.as_dict().items():
                self.allocatable[self.slots[name], row] = amount
        self.idle: Floats = self.allocatable.copy()
        self.used: Floats = np.zeros(shape)
        self.releasing: Floats = np.zeros(shape)
        self.pipelined: Floats = np.zeros(shape)
        #: idle + releasing - pipelined.
        self.future: Floats = self.allocatable.copy()
        self._amounts: dict[int, tuple[Resource, Amounts]] = {}

    def amounts(self, request: Resource) -> Amounts:
        """A request by slot: CPU, memory, then whatever else it names."""
        known = self._amounts.get(id(request))
        if known is None:
            found = tuple((self.slots[name], amount) for name, amount in request.as_dict().items())
            known = self._amounts[id(request)] = (request, found)
        return known[1]

    def fits(self, request: Resource, room: Floats, rows: npt.NDArray[np.intp] | None = None) -> Mask:
        """Which rows have room for a request."""
        result: Mask | None = None
        for slot, amount in self.amounts(request):
            column = room[slot] if rows is None else room[slot, rows]
            enough = column > amount - MIN_RESOURCE
            result = enough if result is None else np.logical_and(result, enough, out=result)
        assert result is not None, "CPU and memory are always compared"
        return result

    def fits_row(self, request: Resource, room: Floats, row: int) -> bool:
        """Whether one row has room for a request."""
        for slot, amount in self.amounts(request):
            if not room.item(slot, row) > amount - MIN_RESOURCE:
                return False
        return True

    def count(self, request: Resource, row: int, status: Status, sign: int) -> None:
        """A task with a status came to a row (+1), or left it (-1)."""
        amounts = self.amounts(request)
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
        """One row of a column as a Resource."""
        result = Resource(column.item(0, row), column.item(1, row), {})
        for name, slot in self.slots.items():
            if slot > 1:
                result.scalars[name] = column.item(slot, row)  # type: ignore[index]  # made just above
        return result


class NodeInfo:
    """One node: its object, its tasks, and what it has left."""

    __slots__ = ("_ledger", "allocatable", "name", "node", "revocable_zone", "row", "tasks")

    def __init__(self, node: Node, row: int, ledger: Ledger, allocatable: Resource) -> None:
        self.node = node
        self.name = node.name
        self.row = row
        #: Tasks by namespace/name, whoever schedules them.
        self.tasks: dict[str, TaskInfo] = {}
        self.revocable_zone = node.labels.get(REVOCABLE_ZONE, "")
        #: What the node offers; shared, never change it.
        self.allocatable = allocatable
        self._ledger = ledger

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.node.labels

    @property
    def idle(self) -> Resource:
        """What nobody uses."""
        return self._ledger.resource(self._ledger.idle, self.row)

    @property
    def used(self) -> Resource:
        """What tasks use, those that are being evicted included."""
        return self._ledger.resource(self._ledger.used, self.row)

    @property
    def releasing(self) -> Resource:
        """What tasks that are being evicted still use."""
        return self._ledger.resource(self._ledger.releasing, self.row)

    @property
    def future_idle(self) -> Resource:
        """What will be idle once evicted tasks are gone and promised places are taken."""
        return self._ledger.resource(self._ledger.future, self.row)

    def add(self, task: TaskInfo) -> str:
        """Put a task here under its status; the answer says what is wrong, if anything."""
        if task.node_name and task.node_name != self.name:
            return f"task <{task.namespace}/{task.name}> already on different node <{task.node_name}>"
        if task.key in self.tasks:
            return f"task <{task.namespace}/{task.name}> already on node <{self.name}>"
        self._ledger.count(task.request, self.row, task.status, 1)
        task.node_name = self.name
        task.node_status = task.status
        self.tasks[task.key] = task
        return ""

    def remove(self, task: TaskInfo) -> None:
        """Take a task away, if it is here."""
        if self.tasks.pop(task.key, None) is not None and task.node_status is not None:
            self._ledger.count(task.request, self.row, task.node_status, -1)
            task.node_status = None

    def update(self, task: TaskInfo) -> None:
        """Count a task that is here under the status that it has now."""
        self.remove(task)
        self.add(task)

    def __repr__(self) -> str:
        return f"NodeInfo({self.name})"
