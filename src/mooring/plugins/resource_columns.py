"""Amounts as floating-point columns, kept current row by row, for scorers that divide them.

Hot path. Dividing whole numbers is slow, and so is converting them for each decision. Quotients of whole numbers below
2**53 come out of floating-point division so close that cutting off the fraction gives the exact whole quotient, so
scorers work on floats as long as all amounts are small enough (``exact``), and on integers otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from mooring.framework import NodeTable
from mooring.plugins.derived_columns import KeptColumns

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

#: Amounts up to here can be multiplied by 100 without losing a digit in a float.
EXACT_LIMIT = 2**53 // 100
#: Views of up to so many rows are scored one by one, views of less than one in so many gather their rows first.
_FEW_TO_SCORE = 6
_SPARSE = 4
_NONZERO = {"cpu": 0, "memory": 1}


class ResourceColumns(KeptColumns):
    """Capacity and use of some resources on all rows. Subclasses add what they derive from these."""

    def __init__(self, table: NodeTable, resources: Sequence[str], *, nonzero: bool) -> None:
        super().__init__(table)
        #: For each resource its slot, and which of the table's columns with defaults to use instead (None: none).
        self._places = [(table.slot(name), _NONZERO.get(name) if nonzero else None) for name in resources]
        self.capacity: Floats = np.zeros((len(resources), 0))
        self.used: Floats = np.zeros((len(resources), 0))
        #: Room for intermediate results: three columns, and one for each resource.
        self.scratch: Floats = np.zeros((3 + len(resources), 0))
        #: Whether all amounts are small enough for floats, and of which resources some node has none.
        self.exact = True
        self.missing = [False] * len(resources)

    @property
    def any_missing(self) -> bool:
        """Whether some node lacks one of the resources."""
        return True in self.missing

    def __len__(self) -> int:
        return len(self._places)

    def few(self, rows: Rows | None) -> TypeGuard[Rows]:
        """Whether the rows are so few that it is quickest to take them one by one."""
        return rows is not None and len(rows) <= _FEW_TO_SCORE

    def sparse(self, rows: Rows | None) -> bool:
        """Whether to gather the rows before, rather than after, the arithmetic."""
        return rows is not None and _SPARSE * len(rows) < len(self.table)

    def amounts(self, index: int) -> tuple[Ints, Ints]:
        """Capacity and use of a resource on all rows, as the whole numbers they are."""
        table, count = self.table, len(self.table)
        slot, default = self._places[index]
        used = table.requested[slot] if default is None else table.nonzero[default]
        return table.allocatable[slot, :count], used[:count]

    def amounts_at(self, index: int, row: int) -> tuple[int, int]:
        """Capacity and use of a resource on one row."""
        table = self.table
        slot, default = self._places[index]
        used = table.requested.item(slot, row) if default is None else table.nonzero.item(default, row)
        return table.allocatable.item(slot, row), used

    def _write_all(self) -> None:
        count = len(self.table)
        self.capacity, self.used = np.empty((len(self), count)), np.empty((len(self), count))
        self.scratch = np.empty((3 + len(self), count))
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
            if len(capacity):
                self.missing[index] |= int(capacity.min()) == 0
                self.exact &= int(capacity.max()) <= EXACT_LIMIT and int(used.max()) <= EXACT_LIMIT

    def _write_row(self, row: int) -> None:
        capacities, uses, table = self.capacity, self.used, self.table
        amounts = []
        for index, (slot, default) in enumerate(self._places):
            capacity = table.allocatable.item(slot, row)
            used = table.requested.item(slot, row) if default is None else table.nonzero.item(default, row)
            amounts.append((capacity, used))
            capacities[index, row] = capacity
            uses[index, row] = used
            if capacity == 0:
                self.missing[index] = True
            if capacity > EXACT_LIMIT or used > EXACT_LIMIT:
                self.exact = False
        self._derive_row(row, amounts)

    def _derive_all(self) -> None:
        """Compute what follows from capacity and use, anew: the number of rows may have changed."""

    def _derive(self, rows: Rows) -> None:
        """The same for some rows."""

    def _derive_row(self, row: int, amounts: list[tuple[int, int]]) -> None:
        """The same for one row, given its capacity and use of each resource."""
