"""Nodes: a view of all nodes, or of some, that plugins evaluate in columns.

Every method returns values for the nodes of the view, in their order, so that a plugin works with all nodes as well as
with the few that changed. Arrays may be live columns: they are marked read-only, do not write to them.

"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.api.label_selectors import IN
from mooring.api.node_selectors import NODE_NAME_FIELD, NodeRequirement, NodeTerm, RequiredNodeAffinity
from mooring.columns.counts import ports_conflict
from mooring.columns.interned import CodeColumn, LabelColumn
from mooring.columns.node_info import NodeInfo, WhatIfNode
from mooring.columns.templates import HostPort

if TYPE_CHECKING:
    from mooring.columns.table import NodeTable

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]
S = TypeVar("S", bound=np.generic)


class Nodes:
    """A sequence of nodes with their columns."""

    __slots__ = ("rows", "table")

    def __init__(self, table: NodeTable, rows: npt.NDArray[np.intp] | None = None) -> None:
        self.table = table
        #: Rows of the table, or None for all rows in order.
        self.rows = rows

    def __len__(self) -> int:
        return len(self.table.nodes) if self.rows is None else len(self.rows)

    def __getitem__(self, index: int) -> NodeInfo:
        return self.table.nodes[index if self.rows is None else int(self.rows[index])]

    def __iter__(self) -> Iterator[NodeInfo]:
        nodes = self.table.nodes
        return iter(nodes) if self.rows is None else (nodes[row] for row in self.rows.tolist())

    @property
    def names(self) -> Sequence[str]:
        """The nodes' names."""
        return [info.name for info in self]

    def get(self, name: str) -> NodeInfo | None:
        """Return a node of the cluster by name, whether or not it is in this view."""
        row = self.table.row_of.get(name)
        return None if row is None else self.table.nodes[row]

    # Resources

    def allocatable(self, resource: str) -> Ints:
        """Return each node's allocatable amount of a resource (millicores for cpu)."""
        if resource == "pods":
            return self.take(self.table.allowed_pods)
        slot = self.table.slots.get(resource)
        return self._zeros() if slot is None else self.take(self.table.allocatable[slot])

    def requested(self, resource: str) -> Ints:
        """Return the sum of the requests of the pods on each node."""
        if resource == "pods":
            return self.pod_count
        slot = self.table.slots.get(resource)
        return self._zeros() if slot is None else self.take(self.table.requested[slot])

    def nonzero_requested(self, resource: str) -> Ints:
        """Return the same as ``requested``, with defaults of 100m cpu and 200Mi memory per container."""
        if resource == "cpu":
            return self.take(self.table.nonzero[0])
        if resource == "memory":
            return self.take(self.table.nonzero[1])
        return self.requested(resource)

    def free(self, resource: str) -> Ints:
        """Return the allocatable amount minus the requests of each node."""
        return self.allocatable(resource) - self.requested(resource)

    @property
    def pod_count(self) -> Ints:
        """The number of pods on each node."""
        return self.take(self.table.pod_count)

    @property
    def allowed_pods(self) -> Ints:
        """The maximum number of pods of each node."""
        return self.take(self.table.allowed_pods)

    # Labels, taints, features

    @property
    def unschedulable(self) -> Mask:
        """Which nodes are cordoned."""
        return self.take(self.table.unschedulable)

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label; ``codes`` returns the nodes' codes in it."""
        return self.table.label(key)

    def codes(self, column: CodeColumn[str] | str) -> Codes:
        """Return each node's code in a column (or in a label's column, by key); -1 if it has no value."""
        if isinstance(column, str):
            column = self.table.label(column)
        return self.take(column.codes)

    def has_label(self, key: str) -> Mask:
        """Return which nodes have a label."""
        return self.codes(key) >= 0

    @property
    def taints(self) -> CodeColumn[tuple[object, ...]]:
        """The distinct sets of taints; index a table of these with ``taint_codes``."""
        return self.table.taints  # type: ignore[return-value]  # a column of Taint tuples, seen as read-only objects

    @property
    def taint_codes(self) -> Codes:
        """The code of each node's set of taints; -1 if it has none."""
        return self.take(self.table.taints.codes)

    @property
    def feature_codes(self) -> Codes:
        """The code of each node's set of declared features; -1 if it has none."""
        return self.take(self.table.features.codes)

    def matches(self, required: RequiredNodeAffinity) -> Mask:
        """Return which nodes a compiled nodeSelector and required node affinity match."""
        result: Mask | None = None
        if required.selector is not None:
            for requirement in required.selector.requirements:
                found = self._meets(requirement)
                result = found if result is None else result & found
        if required.affinity is not None:
            found = self.matches_any(required.affinity.terms)
            result = found if result is None else result & found
        return np.ones(len(self), dtype=np.bool_) if result is None else result

    def matches_any(self, terms: Iterable[NodeTerm]) -> Mask:
        """Return which nodes match any of some node selector terms."""
        result: Mask | None = None
        for term in terms:
            found = self.matches_term(term)
            result = found if result is None else result | found
        return np.zeros(len(self), dtype=np.bool_) if result is None else result

    def matches_term(self, term: NodeTerm) -> Mask:
        """Return which nodes match one node selector term."""
        if term.is_empty or term.errors:
            return np.zeros(len(self), dtype=np.bool_)
        result: Mask | None = None
        for requirement in term.expressions:
            found = self._meets(requirement)
            result = found if result is None else result & found
        for field in term.fields:
            found = self._meets_field(field)
            result = found if result is None else result & found
        return np.ones(len(self), dtype=np.bool_) if result is None else result

    def _meets(self, requirement: NodeRequirement) -> Mask:
        column = self.table.label(requirement.key)
        found: Mask = column.requirement(requirement)[self.take(column.codes)]
        return found

    def _meets_field(self, field: NodeRequirement) -> Mask:
        table = self.table
        result: Mask = np.zeros(len(table.nodes), dtype=np.bool_)
        if field.key == NODE_NAME_FIELD:
            for name in field.values:
                row = table.row_of.get(name)
                if row is not None:
                    result[row] = True
        elif "" in field.values:  # an unsupported field has an empty value
            result[:] = True
        if field.operator != IN:
            result = ~result
        return result if self.rows is None else result[self.rows]

    # Ports and images

    def port_conflicts(self, ports: Sequence[HostPort]) -> Mask | None:
        """Return which nodes have one of some host ports in use; None if there are none."""
        conflicts = self.table.ports.conflicts(ports, len(self.table.nodes))
        if conflicts is None or self.rows is None:
            return conflicts
        return conflicts[self.rows]

    def image(self, name: str) -> tuple[int, int, Mask] | None:
        """Return an image's size, the number of nodes in the cluster that have it, and which nodes of the view do."""
        state = self.table.images.get(name)
        if state is None:
            return None
        present = state.rows.array(len(self.table.nodes)) > 0
        return state.size, state.rows.total, present if self.rows is None else present[self.rows]

    # Helpers

    def take(self, column: npt.NDArray[S]) -> npt.NDArray[S]:
        """Return the entries of a column of the table that belong to this view."""
        if self.rows is None:
            view = column[: len(self.table.nodes)]
            view.flags.writeable = False
            return view
        return column[self.rows]

    def _zeros(self) -> Ints:
        return np.zeros(len(self), dtype=np.int64)


class WhatIfNodes(Nodes):
    """A view of one node with some pods added or removed."""

    __slots__ = ("_node",)

    def __init__(self, node: WhatIfNode) -> None:
        super().__init__(node.table, np.array([node.row]))
        self._node = node

    def __getitem__(self, index: int) -> NodeInfo:
        return (self._node,)[index]

    def __iter__(self) -> Iterator[NodeInfo]:
        return iter((self._node,))

    def requested(self, resource: str) -> Ints:
        """Return the sum of the requests, including the hypothetical changes."""
        if resource == "pods":
            return self.pod_count
        return np.array([self._node.requested(resource)], dtype=np.int64)

    def nonzero_requested(self, resource: str) -> Ints:
        """Return the same as ``requested``, with defaults for containers without requests."""
        return np.array([self._node.nonzero_requested(resource)], dtype=np.int64)

    @property
    def pod_count(self) -> Ints:
        """The number of pods, including the hypothetical changes."""
        return np.array([self._node.pod_count], dtype=np.int64)

    def port_conflicts(self, ports: Sequence[HostPort]) -> Mask | None:
        """Return whether one of some host ports would be in use."""
        used = {port for info in self._node.pods for port in info.template.host_ports} - self._node.freed_ports
        return np.array([any(ports_conflict(wanted, other) for other in used for wanted in ports)], dtype=np.bool_)
