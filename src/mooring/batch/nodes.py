"""SessionNodes: what a callback in column form is given, some or all nodes of a session with their amounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mooring.batch.node import NodeInfo
from mooring.columns.nodes import Nodes

if TYPE_CHECKING:
    from mooring.batch.session import Session

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


class SessionNodes:
    """A sequence of nodes; every column has an entry for each, in their order. Read the columns, never write them."""

    __slots__ = ("_kube", "rows", "session")

    def __init__(self, session: Session, rows: Rows | None = None) -> None:
        self.session = session
        #: Rows of the session's nodes, or None for all of them.
        self.rows = rows
        self._kube: Nodes | None = None

    def __len__(self) -> int:
        return len(self.session.node_list) if self.rows is None else len(self.rows)

    def __iter__(self) -> Iterator[NodeInfo]:
        nodes = self.session.node_list
        return iter(nodes) if self.rows is None else (nodes[row] for row in self.rows.tolist())

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [node.name for node in self]

    @property
    def kube(self) -> Nodes:
        """The same nodes as kube-scheduler's plugins see them."""
        if self._kube is None:
            self._kube = Nodes(self.session.table, self.rows)
        return self._kube

    def allocatable(self, resource: str) -> Floats:
        """How much of a resource each node offers."""
        return self._column(self.session.ledger.allocatable, resource)

    def idle(self, resource: str) -> Floats:
        """How much of a resource nobody uses."""
        return self._column(self.session.ledger.idle, resource)

    def used(self, resource: str) -> Floats:
        """How much of a resource is in use."""
        return self._column(self.session.ledger.used, resource)

    def future_idle(self, resource: str) -> Floats:
        """How much of a resource will be idle once evicted tasks are gone and promised places are taken."""
        return self._column(self.session.ledger.future, resource)

    def _column(self, column: Floats, resource: str) -> Floats:
        slot = self.session.ledger.slots.get(resource)
        if slot is None:
            return np.zeros(len(self))
        chosen: Floats = column[slot] if self.rows is None else column[slot, self.rows]
        return chosen
