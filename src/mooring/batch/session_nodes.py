"""The nodes of a session: one by one (``SessionNode``), or in columns (``SessionNodes``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from mooring.api.node import Node
from mooring.batch.node_amounts import SessionAmounts
from mooring.batch.resource import Resource
from mooring.batch.task import REVOCABLE_ZONE, TaskInfo
from mooring.columns.node_info import NodeInfo, PodInfo
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable

if TYPE_CHECKING:
    from mooring.batch.session import Session

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


class SessionNode:
    """A node in a session: its object, its tasks and its amounts.

    Attributes:
        name: The name of the node.
        node: The Kubernetes object.
        row: Its row in the node table.
        allocatable: The allocatable resources of the node. They are shared: do not modify them.
    """

    __slots__ = (
        "_amounts",
        "_changes",
        "_info",
        "_pods",
        "_task_of",
        "_tasks",
        "allocatable",
        "name",
        "node",
        "row",
    )

    def __init__(
        self,
        info: NodeInfo,
        row: int,
        amounts: SessionAmounts,
        allocatable: Resource,
        task_of: Callable[[PodInfo], TaskInfo],
    ) -> None:
        """``task_of`` returns the session's task of a pod of the table."""
        #: The node object.
        self.node: Node = info.node
        #: The node's name.
        self.name = info.name
        #: The node's row in the node table, and in the columns of ``SessionNodes`` of all nodes.
        self.row = row
        self.allocatable = allocatable
        self._amounts = amounts
        self._info = info
        self._task_of = task_of
        #: The pods at the session's opening, once the session has changed the row.
        self._pods: tuple[PodInfo, ...] | None = None
        #: Tasks that the session has added (or removed: None) since, in order.
        self._changes: dict[str, TaskInfo | None] = {}
        self._tasks: dict[str, TaskInfo] | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.node.labels

    @property
    def revocable_zone(self) -> str:
        """The revocable zone of the node, from its label; empty if it has none."""
        return self.node.labels.get(REVOCABLE_ZONE, "")

    @property
    def tasks(self) -> dict[str, TaskInfo]:
        """The tasks on the node by namespace/name, regardless of their scheduler."""
        if self._tasks is None:
            pods = self._info.pods if self._pods is None else self._pods
            at_open = (self._task_of(info) for info in pods)
            self._tasks = {task.key: task for task in at_open if task.key not in self._changes}
            self._tasks.update((key, task) for key, task in self._changes.items() if task is not None)
        return self._tasks

    @property
    def idle(self) -> Resource:
        """The idle resources: those that no task uses."""
        return self._amounts.resource(self._amounts.idle, self.row)

    @property
    def used(self) -> Resource:
        """The used resources, including those of tasks that are being evicted."""
        return self._amounts.resource(self._amounts.used, self.row)

    @property
    def releasing(self) -> Resource:
        """The resources of tasks that are being evicted."""
        return self._amounts.resource(self._amounts.releasing, self.row)

    @property
    def future_idle(self) -> Resource:
        """The resources that will be idle once evicted tasks are gone and pipelined tasks are placed."""
        return self._amounts.resource(self._amounts.future, self.row)

    def add(self, task: TaskInfo) -> str:
        """Count a task here under its status. Return an error, or "" on success."""
        if task.node_name and task.node_name != self.name:
            return f"task <{task.namespace}/{task.name}> already on different node <{task.node_name}>"
        if self._has(task):
            return f"task <{task.namespace}/{task.name}> already on node <{self.name}>"
        self._amounts.count(task.request, self.row, task.status, 1)
        task.node_name = self.name
        task.node_status = task.status
        self._change(task.key, task)
        return ""

    def remove(self, task: TaskInfo) -> None:
        """Remove a task, if it is here."""
        if task.node_status is not None and self._has(task):
            self._amounts.count(task.request, self.row, task.node_status, -1)
            task.node_status = None
            self._change(task.key, None)

    def update(self, task: TaskInfo) -> None:
        """Count a task that is here under its current status."""
        self.remove(task)
        self.add(task)

    def _has(self, task: TaskInfo) -> bool:
        if task.node_status is None:
            return False
        return self._changes.get(task.key) is not None or task.key in self.tasks

    def _change(self, key: str, task: TaskInfo | None) -> None:
        if self._tasks is not None:
            self._tasks.pop(key, None)
            if task is not None:
                self._tasks[key] = task
            return
        if self._pods is None:
            self._pods = tuple(self._info.pods)
        self._changes.pop(key, None)
        self._changes[key] = task

    def __repr__(self) -> str:
        return f"SessionNode({self.name})"


class SessionNodeList(Sequence[SessionNode]):
    """The nodes of a session by their rows, each created when it is first read: most are only read in columns."""

    __slots__ = ("_amounts", "_infos", "_made", "_offers", "_task_of", "row_of")

    def __init__(
        self,
        table: NodeTable,
        amounts: SessionAmounts,
        offers: Sequence[Resource],
        task_of: Callable[[PodInfo], TaskInfo],
    ) -> None:
        self._infos: list[NodeInfo] = list(table.nodes)
        self._made: list[SessionNode | None] = [None] * len(self._infos)
        self._amounts = amounts
        self._offers = list(offers)
        self._task_of = task_of
        #: The rows of the nodes by their names.
        self.row_of = dict(table.row_of)

    @property
    def names(self) -> Iterator[str]:
        """The names of the nodes in the order of their rows."""
        return (info.name for info in self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    @overload
    def __getitem__(self, row: int) -> SessionNode: ...

    @overload
    def __getitem__(self, row: slice) -> list[SessionNode]: ...

    def __getitem__(self, row: int | slice) -> SessionNode | list[SessionNode]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        return self._made[row] or self._make(row)

    def __iter__(self) -> Iterator[SessionNode]:
        return (node or self._make(row) for row, node in enumerate(self._made))

    def _make(self, row: int) -> SessionNode:
        row %= len(self._infos)
        made = self._made[row] = SessionNode(self._infos[row], row, self._amounts, self._offers[row], self._task_of)
        return made


class NodesByName(Mapping[str, SessionNode]):
    """The nodes that a session considers, by their names."""

    __slots__ = ("_nodes", "_selected")

    def __init__(self, nodes: SessionNodeList, selected: npt.NDArray[np.bool_] | None) -> None:
        """``selected`` tells which rows the session considers; None if it considers all."""
        self._nodes = nodes
        self._selected = selected

    def __getitem__(self, name: str) -> SessionNode:
        row = self._nodes.row_of[name]
        if self._selected is not None and not self._selected[row]:
            raise KeyError(name)
        return self._nodes[row]

    def __iter__(self) -> Iterator[str]:
        selected = self._selected
        return (name for row, name in enumerate(self._nodes.names) if selected is None or selected[row])

    def __len__(self) -> int:
        return len(self._nodes) if self._selected is None else int(self._selected[: len(self._nodes)].sum())


class SessionNodes:
    """All nodes, or some of them, with their amounts in columns, for callbacks with ``columns=True``.

    Iterate over it or take ``len``. Every column has an entry for each node, in their order. Do not write to columns.

    Attributes:
        session: The session.
        rows: The rows of the session's nodes that this view contains; None for all nodes.
    """

    __slots__ = ("_kube", "rows", "session")

    def __init__(self, session: Session, rows: Rows | None = None) -> None:
        #: The session.
        self.session = session
        self.rows = rows
        self._kube: Nodes | None = None

    def __len__(self) -> int:
        return len(self.session.node_list) if self.rows is None else len(self.rows)

    def __iter__(self) -> Iterator[SessionNode]:
        nodes = self.session.node_list
        return iter(nodes) if self.rows is None else (nodes[row] for row in self.rows.tolist())

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [node.name for node in self]

    @property
    def kube(self) -> Nodes:
        """The same nodes, in the form that kube-scheduler's plugins use."""
        if self._kube is None:
            self._kube = Nodes(self.session.table, self.rows)
        return self._kube

    def allocatable(self, resource: str) -> Floats:
        """Return the allocatable amount of a resource on each node."""
        return self._column(self.session.amounts.allocatable, resource)

    def idle(self, resource: str) -> Floats:
        """Return the idle amount of a resource on each node."""
        return self._column(self.session.amounts.idle, resource)

    def used(self, resource: str) -> Floats:
        """Return the used amount of a resource on each node."""
        return self._column(self.session.amounts.used, resource)

    def future_idle(self, resource: str) -> Floats:
        """Return the amount that will be idle once evicted tasks are gone and pipelined tasks are placed."""
        return self._column(self.session.amounts.future, resource)

    def _column(self, column: Floats, resource: str) -> Floats:
        slot = self.session.amounts.slots.get(resource)
        if slot is None:
            return np.zeros(len(self))
        chosen: Floats = column[slot] if self.rows is None else column[slot, self.rows]
        return chosen
