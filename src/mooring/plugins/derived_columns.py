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
        self.cursor = table.cursor()

    def refresh(self) -> None:
        """Bring the columns up to date: O(changed rows)."""
        changed = self.cursor.changed(len(self.table) >> 2)
        if changed is None:
            self._write_all()
        elif len(changed) > _FEW_ROWS:
            self._write_rows(np.array(changed))
        else:
            for row in changed:
                self._write_row(row)
        self.cursor.advance()

    def _write_all(self) -> None:
        raise NotImplementedError

    def _write_rows(self, rows: Rows) -> None:
        raise NotImplementedError

    def _write_row(self, row: int) -> None:
        raise NotImplementedError


class RoomColumns(KeptColumns):
    """What is left of every resource (by slot), and for how many pods, on all rows.

    ``fits_everywhere`` answers the most frequent question, whether a pod finds room on all nodes, from lower bounds of
    the smallest rooms, which are cheap to keep. The columns themselves are written only when somebody reads them
    (``flush``).
    """

    def __init__(self, table: NodeTable) -> None:
        super().__init__(table)
        self.amounts: Ints = np.zeros((0, 0), dtype=np.int64)
        self.pods: Ints = np.zeros(0, dtype=np.int64)
        #: At most the smallest entry of each column that was asked about; _PODS stands for the pods.
        self._least: dict[int, int] = {}
        #: Rows that changed since the columns were written.
        self._stale: list[int] = []

    def refresh(self) -> None:
        """Bring the bounds up to date; a new resource is a new column."""
        if len(self.amounts) != len(self.table.allocatable):
            self.cursor.reset()
        super().refresh()

    def fits_everywhere(self, wanted: Sequence[tuple[int, int]]) -> bool:
        """Whether all rows have room for one more pod with these amounts (by slot)."""
        if not self._has_everywhere(_PODS, 1):
            return False
        for slot, amount in wanted:
            if not self._has_everywhere(slot, amount):
                return False
        return True

    def flush(self) -> None:
        """Write the columns; to be called before they are read."""
        if self._stale:
            rows = np.array(self._stale)
            self._stale.clear()
            table = self.table
            self.amounts[:, rows] = table.allocatable[:, rows] - table.requested[:, rows]
            self.pods[rows] = table.allowed_pods[rows] - table.pod_count[rows]

    def _has_everywhere(self, slot: int, amount: int) -> bool:
        bound = self._least.get(slot)
        if bound is not None and bound >= amount:
            return True
        self.flush()  # the bound may be too low: a row that had least may have more now
        column = self.pods if slot == _PODS else self.amounts[slot]
        self._least[slot] = least = int(column.min()) if len(column) else 0
        return least >= amount

    def _write_all(self) -> None:
        table, count = self.table, len(self.table)
        self.amounts = table.allocatable[:, :count] - table.requested[:, :count]
        self.pods = table.allowed_pods[:count] - table.pod_count[:count]
        self._least.clear()
        self._stale.clear()

    def _write_rows(self, rows: Rows) -> None:
        self._stale += rows.tolist()
        self._least.clear()

    def _write_row(self, row: int) -> None:
        table, bounds = self.table, self._least
        self._stale.append(row)
        if len(self._stale) > _STALE_ROWS:
            self.flush()
        for slot, bound in bounds.items():
            if slot == _PODS:
                room = table.allowed_pods.item(row) - table.pod_count.item(row)
            else:
                room = table.allocatable.item(slot, row) - table.requested.item(slot, row)
            if room < bound:
                bounds[slot] = room


_PODS = -1
#: So many changed rows are left unwritten.
_STALE_ROWS = 1024
