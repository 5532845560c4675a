"""Placements: the sets of nodes, such as racks, in which the pods of a PodGroup of `scheduling.k8s.io` are tried.

A plugin at the point `placementGenerate` defines ``generate_placements``. The cycle of the group tries the pods in each
placement; after each pod, plugins with ``placement_feasible`` decide whether the group can still be scheduled there. If
several placements have room, the plugins at `placementScore` rate them with ``score_placements``, all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable
from mooring.columns.templates import PodTemplate

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]


class Placements:
    """Sets of nodes, in columns. None of them is empty.

    ```python
    by_zone = Placements.by_label(nodes, "topology.kubernetes.io/zone")
    by_hand = Placements.of_nodes(nodes, {"left": ["n1", "n2"], "right": ["n3"]})
    ```

    Attributes:
        table: The node table.
        names: The name of each placement, such as the value of a label.
        rows: The rows of all placements; those of a placement are next to each other, in order.
        starts: Where the rows of each placement start in ``rows``.
        disjoint: Whether no node is in two placements. Only then, all placements can be tried at once.
    """

    __slots__ = ("disjoint", "names", "rows", "starts", "table")

    def __init__(
        self, table: NodeTable, names: Sequence[str], rows: Rows, starts: Rows, *, disjoint: bool = True
    ) -> None:
        self.table = table
        self.names = names
        self.rows = rows
        self.starts = starts
        self.disjoint = disjoint

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def whole(cls, table: NodeTable) -> Placements:
        """Return all nodes as one placement."""
        return cls(table, ("",), np.arange(len(table), dtype=np.intp), np.zeros(1, dtype=np.intp))

    @classmethod
    def by_label(cls, nodes: Nodes, key: str) -> Placements:
        """Return a placement for each value of a label, without the nodes that do not have it."""
        table = nodes.table
        label = table.label(key)
        codes = label.codes[: len(table)]
        rows = np.flatnonzero(codes >= 0) if nodes.rows is None else nodes.rows[codes[nodes.rows] >= 0]
        rows = rows[np.argsort(codes[rows], kind="stable")]
        found, starts = np.unique(codes[rows], return_index=True)
        return cls(table, [label.values[code] or "" for code in found.tolist()], rows, starts)

    @classmethod
    def of_nodes(cls, nodes: Nodes, names: Mapping[str, Iterable[str]]) -> Placements:
        """Return placements from the names of their nodes. Unknown nodes and empty placements are left out."""
        row_of = nodes.table.row_of
        found = {name: [row_of[node] for node in members if node in row_of] for name, members in names.items()}
        parts = {name: np.array(rows, dtype=np.intp) for name, rows in found.items() if rows}
        rows = np.concatenate([*parts.values(), np.zeros(0, dtype=np.intp)])
        starts = np.cumsum([0, *(len(part) for part in parts.values())], dtype=np.intp)[:-1]
        return cls(nodes.table, list(parts), rows, starts, disjoint=len(np.unique(rows)) == len(rows))

    @property
    def nodes(self) -> Nodes:
        """All nodes of the table, whose columns ``sums`` adds up."""
        return Nodes(self.table)

    def of(self, index: int) -> Rows:
        """Return the rows of a placement, in order."""
        end = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.rows)
        return self.rows[self.starts[index] : end]

    def some(self, indices: Rows) -> Placements:
        """Return some of the placements, in this order."""
        if len(indices) == len(self) and (np.diff(indices) == 1).all():
            return self
        parts = [self.of(index) for index in indices.tolist()]
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        names = [self.names[index] for index in indices.tolist()]
        return Placements(self.table, names, np.concatenate(parts), starts, disjoint=self.disjoint)

    def sums(self, column: Ints) -> Ints:
        """Add up a column of the table by placement."""
        sums: Ints = np.add.reduceat(column[self.rows], self.starts)
        return sums


class PlacementProgress(msgspec.Struct, frozen=True):
    """How far the pods of a group are placed in one placement, as ``placement_feasible`` sees it.

    Attributes:
        scheduled: How many pods of the group have a node: those of earlier attempts, and ``placed``.
        remaining: How many pods of the group are still to be tried in this placement.
        placed: The pods that have a node in this attempt, with its name, in the order in which they were tried.
    """

    scheduled: int
    remaining: int
    placed: Sequence[Pod] = ()


class ProposedPlacements:
    """What the plugins at `placementScore` rate: the pods that a group would have in each of some placements.

    Attributes:
        group: The group.
        scheduled: The pods of the group that already have a node.
        placements: The placements in which the group can be scheduled.
        pods: How many pods of each template are placed, by placement.
    """

    __slots__ = ("group", "placements", "pods", "scheduled")

    def __init__(
        self,
        group: NativePodGroup,
        scheduled: Sequence[Pod],
        placements: Placements,
        pods: Mapping[PodTemplate, Ints],
    ) -> None:
        self.group = group
        self.scheduled = scheduled
        self.placements = placements
        self.pods = pods

    @property
    def pod_counts(self) -> Ints:
        """How many pods of the group are placed, by placement, without those that already have a node."""
        return sum(self.pods.values(), start=np.zeros(len(self.placements), dtype=np.int64))
