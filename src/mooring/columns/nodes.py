"""Nodes: a view of all nodes, or of some, that plugins evaluate in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.api.label_selectors import IN
from mooring.api.node_selectors import NODE_NAME_FIELD, NodeRequirement, NodeTerm, RequiredNodeAffinity
from mooring.checkpoints import checkpoint
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

#: The number of terms or requirements after which to check whether the rest can still change the result.
_CHECK_EVERY = 16


class Nodes:
    """All nodes, or some of them, with their properties in columns.

    Iterate over it, index it, or take ``len``. Every method that returns an array has an entry for each node, in their
    order. Arrays may be live columns: they are read-only.

    ```python
    free = nodes.free("cpu")  # millicores, one entry per node
    roomy = [node.name for node, amount in zip(nodes, free) if amount > 4000]
    ```

    Attributes:
        table: The node table.
        rows: The rows of the table that this view contains; None for all rows in order.
    """

    __slots__ = ("rows", "table")

    def __init__(self, table: NodeTable, rows: npt.NDArray[np.intp] | None = None) -> None:
        self.table = table
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
        """The names of the nodes, in order."""
        return [info.name for info in self]

    def get(self, name: str) -> NodeInfo | None:
        """Return a node of the cluster by name, whether or not it is in this view."""
        row = self.table.row_of.get(name)
        return None if row is None else self.table.nodes[row]

    # Resources

    def allocatable(self, resource: str) -> Ints:
        """Return each node's allocatable amount of a resource.

        The unit is millicores for ``cpu``, bytes for ``memory`` and ``ephemeral-storage``, and pieces for the rest.
        ``pods`` is the maximum number of pods. The amounts of an unknown resource are 0.
        """
        if resource == "pods":
            return self.take(self.table.allowed_pods)
        slot = self.table.slots.get(resource)
        return self._zeros() if slot is None else self.take(self.table.allocatable[slot])

    def requested(self, resource: str) -> Ints:
        """Return the sum of the requests of the pods on each node, in the unit of ``allocatable``."""
        if resource == "pods":
            return self.pod_count
        return self.take(self.table.requested_by_row(resource))

    def nonzero_requested(self, resource: str) -> Ints:
        """Return the same as ``requested``, with defaults of 100m cpu and 200Mi memory per container."""
        if resource == "cpu":
            return self.take(self.table.nonzero[0])
        if resource == "memory":
            return self.take(self.table.nonzero[1])
        return self.requested(resource)

    def free(self, resource: str) -> Ints:
        """Return each node's allocatable amount minus the requests; negative if a node is overcommitted."""
        return self.allocatable(resource) - self.requested(resource)

    @property
    def pod_count(self) -> Ints:
        """The number of pods on each node, including pods whose bind is in progress."""
        return self.take(self.table.pod_count)

    @property
    def allowed_pods(self) -> Ints:
        """The maximum number of pods of each node."""
        return self.take(self.table.allowed_pods)

    # Labels, taints, features

    @property
    def unschedulable(self) -> Mask:
        """A mask of the nodes that are cordoned (``spec.unschedulable``)."""
        return self.take(self.table.unschedulable)

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label: its distinct values, each with an integer code.

        ``lookup`` evaluates a condition once per value; ``codes`` returns the code of each node:

        ```python
        fast = nodes.label("disk").lookup(lambda value: value == "nvme", absent=False)
        mask = fast[nodes.codes("disk")]
        ```
        """
        return self.table.label(key)

    def codes(self, column: CodeColumn[str] | str) -> Codes:
        """Return each node's code in a column, or in the column of a label, given its key; -1 if it has no value."""
        if isinstance(column, str):
            column = self.table.label(column)
        return self.take(column.codes)

    def has_label(self, key: str) -> Mask:
        """Return a mask of the nodes that have a label, with any value."""
        return self.codes(key) >= 0

    @property
    def taints(self) -> CodeColumn[tuple[object, ...]]:
        """The distinct sets of taints, each with an integer code; ``taint_codes`` has the code of each node."""
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
        """Return a mask of the nodes that match a pod's nodeSelector and required node affinity.

        ``nodes.matches(handle.template(pod).node_requirement)``
        """
        result: Mask = np.ones(len(self), dtype=np.bool_)
        if required.selector is not None:
            result = self._meets_all(required.selector.requirements, result)
        if required.affinity is not None:
            result = result & self.matches_any(required.affinity.terms)
        return result

    def matches_any(self, terms: Iterable[NodeTerm]) -> Mask:
        """Return a mask of the nodes that match at least one of some compiled node selector terms."""
        result: Mask = np.zeros(len(self), dtype=np.bool_)
        for number, term in enumerate(dict.fromkeys(terms)):
            if number % _CHECK_EVERY == _CHECK_EVERY - 1 and result.all():
                break
            checkpoint()
            result |= self.matches_term(term)
        return result

    def matches_term(self, term: NodeTerm) -> Mask:
        """Return a mask of the nodes that match a compiled node selector term."""
        if term.is_empty or term.errors:
            return np.zeros(len(self), dtype=np.bool_)
        result = self._meets_all(term.expressions, np.ones(len(self), dtype=np.bool_))
        for number, field in enumerate(term.fields):
            if number % _CHECK_EVERY == _CHECK_EVERY - 1 and not result.any():
                break
            checkpoint()
            result &= self._meets_field(field)
        return result

    def _meets_all(self, requirements: Iterable[NodeRequirement], result: Mask) -> Mask:
        """Reduce a mask to the nodes that meet all requirements. A tenant can write thousands of them."""
        for number, requirement in enumerate(requirements):
            if number % _CHECK_EVERY == _CHECK_EVERY - 1 and not result.any():
                break
            checkpoint()
            result &= self._meets(requirement)
        return result

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
        """Return a mask of the nodes where one of some host ports is in use; None if it is in use on no node."""
        conflicts = self.table.ports.conflicts(ports, len(self.table.nodes))
        if conflicts is None or self.rows is None:
            return conflicts
        return conflicts[self.rows]

    def image(self, name: str) -> tuple[int, int, Mask] | None:
        """Return an image's size in bytes, how many nodes of the cluster have it, and a mask of the nodes that do.

        None if no node has the image.
        """
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
        return column.take(self.rows)  # faster than indexing with an array

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
