"""Columns derived from the node table, brought up to date row by row when they are asked for.

Hot path. Between two decisions few rows change: writing those is cheaper than deriving all of them again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mooring.framework import NodeTable

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

#: So many changed rows are written one by one, more in bulk.
_FEW_ROWS = 8


class KeptColumns:
    """Base: knows which rows changed. Subclasses write all of them, some, or one."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._structure = -1
        self._position = -1

    def refresh(self) -> None:
        """Bring the columns up to date: O(changed rows)."""
        table = self.table
        changed = None
        if self._structure == table.structure:
            changed = table.changes.since(self._position, len(table) >> 2)
        if changed is None:
            self._write_all()
            self._structure = table.structure
        elif len(changed) > _FEW_ROWS:
            self._write_rows(np.array(changed))
        else:
            for row in changed:
                self._write_row(row)
        self._position = table.changes.position

    def _write_all(self) -> None:
        raise NotImplementedError

    def _write_rows(self, rows: Rows) -> None:
        raise NotImplementedError

    def _write_row(self, row: int) -> None:
        raise NotImplementedError


class RoomColumns(KeptColumns):
    """What is left of every resource (by slot), and for how many pods, on all rows.

    ``fits_everywhere`` answers the most frequent question, whether a pod finds room on all nodes, from the smallest
    rooms, which are kept: one that grew is looked for again only when it was the smallest.
    """

    def __init__(self, table: NodeTable) -> None:
        super().__init__(table)
        self.amounts: Ints = np.zeros((0, 0), dtype=np.int64)
        self.pods: Ints = np.zeros(0, dtype=np.int64)
        #: The smallest entry of each column that was asked about; -1 stands for the pods.
        self._least: dict[int, int] = {}

    def refresh(self) -> None:
        """Bring the columns up to date; a new resource is a new column."""
        if len(self.amounts) != len(self.table.allocatable):
            self._structure = -1
        super().refresh()

    def fits_everywhere(self, wanted: Sequence[tuple[int, int]]) -> bool:
        """Whether all rows have room for one more pod with these amounts (by slot)."""
        return self._smallest(_PODS) >= 1 and all(self._smallest(slot) >= amount for slot, amount in wanted)

    def _smallest(self, slot: int) -> int:
        known = self._least.get(slot)
        if known is None:
            column = self.pods if slot == _PODS else self.amounts[slot]
            known = self._least[slot] = int(column.min()) if len(column) else 0
        return known

    def _write_all(self) -> None:
        table, count = self.table, len(self.table)
        self.amounts = table.allocatable[:, :count] - table.requested[:, :count]
        self.pods = table.allowed_pods[:count] - table.pod_count[:count]
        self._least.clear()

    def _write_rows(self, rows: Rows) -> None:
        table = self.table
        self.amounts[:, rows] = table.allocatable[:, rows] - table.requested[:, rows]
        self.pods[rows] = table.allowed_pods[rows] - table.pod_count[rows]
        self._least.clear()

    def _write_row(self, row: int) -> None:
        table, amounts = self.table, self.amounts
        before = {slot: self._at(slot, row) for slot in self._least}
        amounts[:, row] = table.allocatable[:, row] - table.requested[:, row]
        self.pods[row] = table.allowed_pods.item(row) - table.pod_count.item(row)
        for slot, old in before.items():
            new, least = self._at(slot, row), self._least[slot]
            if new <= least:
                self._least[slot] = new
            elif old == least:
                del self._least[slot]

    def _at(self, slot: int, row: int) -> int:
        return self.pods.item(row) if slot == _PODS else self.amounts.item(slot, row)


_PODS = -1
