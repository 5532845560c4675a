"""Resource columns: free amounts, and capacity and use as floats, updated row by row.

Hot path. Between two decisions few rows change, and writing those is cheaper than deriving all of them again. Scorers
divide in floating point, since dividing integers is slow and so is converting them for each decision. Quotients of
integers below 2**53 are so close in floating point that dropping the fraction gives the exact integer quotient.
Larger amounts (``exact`` is false) are divided as integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from mooring.framework import NodeTable

Ints = npt.NDArray[np.int64]

Rows = npt.NDArray[np.intp]

#: Up to this many changed rows are written one by one, more in bulk.
_FEW_ROWS = 8


class DerivedColumns:
    """A base class that finds the rows that changed. Subclasses write all rows, some, or the use of one."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.cursor = table.cursor()

    def refresh(self) -> None:
        """Update the columns: O(changed rows)."""
        cursor = self.cursor
        changed = cursor.changed(len(self.table.nodes) >> 2)
        if changed is None:
            self._write_all()
        elif not changed:
            return
        elif len(changed) > _FEW_ROWS or not cursor.nodes_current:
            self._write_rows(np.array(changed))
        else:
            for row in changed:
                self._write_use(row)
        cursor.advance()

    def _write_all(self) -> None:
        raise NotImplementedError

    def _write_rows(self, rows: Rows) -> None:
        raise NotImplementedError

    def _write_use(self, row: int) -> None:
        """Update a row whose pods changed, but not its node."""
        raise NotImplementedError


class FreeColumns(DerivedColumns):
    """The free amount of every resource (by slot), and the free number of pods, on all rows.

    ``fits_everywhere`` decides the most frequent case, a pod that fits on all nodes, by lower bounds of the free
    amounts, which are cheap to update. The columns themselves are written only before they are read (``flush``).
    """

    def __init__(self, table: NodeTable) -> None:
        super().__init__(table)
        self.amounts: Ints = np.zeros((0, 0), dtype=np.int64)
        self.pods: Ints = np.zeros(0, dtype=np.int64)
        #: A lower bound of each requested column, by slot; _PODS stands for the pods.
        self._least: dict[int, int] = {}
        #: Rows that changed since the columns were written.
        self._stale: list[int] = []

    def refresh(self) -> None:
        """Update the bounds; a new resource adds a column."""
        if len(self.amounts) != len(self.table.allocatable):
            self.cursor.reset()
        super().refresh()

    def fits_everywhere(self, wanted: Sequence[tuple[int, int]]) -> bool:
        """Return whether one more pod with these requests (by slot) fits on all rows."""
        bounds = self._least
        if bounds.get(_PODS, 0) < 1 and not self._has_everywhere(_PODS, 1):
            return False
        for slot, amount in wanted:
            if bounds.get(slot, -1) < amount and not self._has_everywhere(slot, amount):
                return False
        return True

    def flush(self) -> None:
        """Write the columns; call it before reading them."""
        if self._stale:
            rows = np.array(self._stale)
            self._stale.clear()
            table = self.table
            self.amounts[:, rows] = table.allocatable[:, rows] - table.requested[:, rows]
            self.pods[rows] = table.allowed_pods[rows] - table.pod_count[rows]

    def _has_everywhere(self, slot: int, amount: int) -> bool:
        self.flush()  # the bound may be too low, since amounts may have increased
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
        if len(rows) <= _FEW_ROWS:
            for row in rows.tolist():
                self._write_use(row)  # it reads the capacity too
        else:
            self._stale += rows.tolist()
            self._least.clear()

    def _write_use(self, row: int) -> None:
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
#: Up to this many changed rows are left unwritten.
_STALE_ROWS = 1024

Floats = npt.NDArray[np.float64]

Small = npt.NDArray[np.int32]

#: Amounts up to this limit can be multiplied by 100 without losing precision in a float.
EXACT_LIMIT = 2**53 // 100
#: Views of at most _FEW_TO_SCORE rows are scored one by one; views of less than 1/_SPARSE of the rows gather first.
_FEW_TO_SCORE = 6

_SPARSE = 4

_NONZERO = {"cpu": 0, "memory": 1}


#: The last scratch space of each table. All columns of a table use the same, since it is then in the processor's cache.
_SCRATCHES: WeakKeyDictionary[NodeTable, Floats] = WeakKeyDictionary()


def _scratch(table: NodeTable, shape: tuple[int, int]) -> Floats:
    known = _SCRATCHES.get(table)
    if known is None or known.shape != shape:
        known = _SCRATCHES[table] = np.empty(shape)
    return known


class ResourceColumns(DerivedColumns):
    """Capacity and use of some resources on all rows. Subclasses add derived columns."""

    def __init__(self, table: NodeTable, resources: Sequence[str], *, nonzero: bool) -> None:
        super().__init__(table)
        #: For each resource its slot, and the index in the table's ``nonzero`` to use instead (None: do not).
        self._places = [(table.slot(name), _NONZERO.get(name) if nonzero else None) for name in resources]
        self.capacity: Floats = np.zeros((len(resources), 0))
        self.used: Floats = np.zeros((len(resources), 0))
        #: Scratch space: three columns, and one for each resource.
        self.scratch: Floats = np.zeros((3 + len(resources), 0))
        #: The part of it for resources, and the same row by row: to create a view takes time.
        self.work: Floats = self.scratch[3:]
        self.work_rows: list[Floats] = list(self.work)
        #: Scratch space for small integers: a column for each resource.
        self.whole: Small = np.zeros((len(resources), 0), dtype=np.int32)
        self.whole_rows: list[Small] = list(self.whole)
        #: A lower bound of the free amounts of each resource; see ``have_room``.
        self.room: list[float] = [0.0] * len(resources)
        #: Whether all amounts are small enough for floats, and which resources some node lacks.
        self.exact = True
        self.missing = [False] * len(resources)
        self.any_missing = False

    def __len__(self) -> int:
        return len(self._places)

    def have_room(self, index: int, amount: int) -> bool:
        """Return whether an amount of a resource is free on all rows."""
        if self.room[index] >= amount:
            return True
        # The bound may be too low, since use may have decreased.
        free = self.capacity[index] - self.used[index]
        self.room[index] = room = float(free.min()) if len(free) else 0.0
        return room >= amount

    def few(self, rows: Rows | None) -> TypeGuard[Rows]:
        """Return whether there are so few rows that processing them one by one is fastest."""
        return rows is not None and len(rows) <= _FEW_TO_SCORE

    def sparse(self, rows: Rows | None) -> bool:
        """Return whether to gather the rows before the arithmetic instead of after it."""
        return rows is not None and _SPARSE * len(rows) < len(self.table)

    def amounts(self, index: int) -> tuple[Ints, Ints]:
        """Return capacity and use of a resource on all rows, as integers."""
        table, count = self.table, len(self.table)
        slot, default = self._places[index]
        used = table.requested[slot] if default is None else table.nonzero[default]
        return table.allocatable[slot, :count], used[:count]

    def amounts_at(self, index: int, row: int) -> tuple[int, int]:
        """Return capacity and use of a resource on one row."""
        table = self.table
        slot, default = self._places[index]
        used = table.requested.item(slot, row) if default is None else table.nonzero.item(default, row)
        return table.allocatable.item(slot, row), used

    def _write_all(self) -> None:
        count = len(self.table)
        self.capacity, self.used = np.empty((len(self), count)), np.empty((len(self), count))
        self.scratch = _scratch(self.table, (3 + len(self), count))
        self.work = self.scratch[3:]
        self.work_rows = list(self.work)
        self.whole = np.empty((len(self), count), dtype=np.int32)
        self.whole_rows = list(self.whole)
        self.exact = True
        self.missing = [False] * len(self)
        self._read(slice(None))
        self._derive_all()

    def _write_rows(self, rows: Rows) -> None:
        self._read(rows)
        self._derive(rows)

    def _read(self, rows: Rows | slice) -> None:
        for index in range(len(self)):
            capacity, used = (column[rows] for column in self.amounts(index))
            self.capacity[index, rows], self.used[index, rows] = capacity, used
            self.room[index] = -np.inf  # computed when it is needed
            if len(capacity):
                self.missing[index] |= int(capacity.min()) == 0
                self.exact &= int(capacity.max()) <= EXACT_LIMIT and int(used.max()) <= EXACT_LIMIT
        self.any_missing = True in self.missing

    def _write_use(self, row: int) -> None:
        table, uses, room = self.table, self.used, self.room
        capacity_of, requested_of, nonzero_of = table.allocatable.item, table.requested.item, table.nonzero.item
        amounts = []
        for index, (slot, default) in enumerate(self._places):
            capacity = capacity_of(slot, row)
            used = requested_of(slot, row) if default is None else nonzero_of(default, row)
            amounts.append((used, capacity))
            uses[index, row] = used
            bound = room[index]
            if capacity - used < bound:
                room[index] = capacity - used
            if used > EXACT_LIMIT:
                self.exact = False
        self._derive_use(row, amounts)

    def _derive_all(self) -> None:
        """Recompute all derived columns; the number of rows may have changed."""

    def _derive(self, rows: Rows) -> None:
        """Recompute the derived columns of some rows."""

    def _derive_use(self, row: int, amounts: list[tuple[int, int]]) -> None:
        """Recompute the derived columns of one row, whose use has changed, from its use and capacity."""
