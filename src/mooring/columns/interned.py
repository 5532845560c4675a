"""Columns of interned values: one integer code per node, with a dictionary of the values.

Used for labels, topology domains and sets of taints. Hot path. A condition on labels ("zone in (a, b)") is evaluated
once per distinct value and then looked up for all nodes in one gather. A code is reused when no node has its value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.api.label_selectors import GT, parse_int
from mooring.api.node_selectors import NodeRequirement

V = TypeVar("V", bound=Hashable)
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

#: The code of a node that has no value (the label is absent).
ABSENT = -1


class CodeColumn(Generic[V]):
    """One value (or none) per row, stored as codes."""

    __slots__ = ("_free", "_uses", "code_of", "codes", "values", "version")

    def __init__(self, capacity: int, codes: Codes | None = None) -> None:
        #: The code of each row of the node table; -1 without a value. ``nodes.codes(column)`` returns those of a view.
        self.codes: Codes = np.full(capacity, ABSENT, dtype=np.int32) if codes is None else codes
        #: Values by code; None if the code is free.
        self.values: list[V | None] = []
        #: Codes by value.
        self.code_of: dict[V, int] = {}
        self._uses: list[int] = []
        self._free: list[int] = []
        #: Increases whenever a code is assigned or freed; data derived per code is then stale.
        self.version = 0

    def grow(self, capacity: int) -> None:
        """Extend the column to more rows."""
        grown = np.full(capacity, ABSENT, dtype=np.int32)
        grown[: len(self.codes)] = self.codes
        self.codes = grown

    def set(self, row: int, value: V | None) -> None:
        """Set the value of a row; None removes it."""
        old = int(self.codes[row])
        if old != ABSENT:
            if self.values[old] == value:
                return
            self._release(old)
        self.codes[row] = ABSENT if value is None else self._intern(value)

    def set_new(self, rows: slice, values: Iterable[V | None]) -> None:
        """Set the values of rows that have none."""
        self.codes[rows] = [ABSENT if value is None else self._intern(value) for value in values]

    def _intern(self, value: V) -> int:
        code = self.code_of.get(value)
        if code is None:
            self.version += 1
            if self._free:
                code = self._free.pop()
                self.values[code] = value
            else:
                code = len(self.values)
                self.values.append(value)
                self._uses.append(0)
            self.code_of[value] = code
        self._uses[code] += 1
        return code

    def _release(self, code: int) -> None:
        self._uses[code] -= 1
        if not self._uses[code]:
            self.version += 1
            del self.code_of[self.values[code]]  # type: ignore[arg-type]  # a used code has a value
            self.values[code] = None
            self._free.append(code)

    @property
    def size(self) -> int:
        """The number of codes, including free ones: the length of anything indexed by code."""
        return len(self.values)

    @property
    def distinct(self) -> int:
        """The number of values in use."""
        return len(self.code_of)

    def lookup(self, answer: Callable[[V], bool], *, absent: bool) -> Mask:
        """Return a table to index with codes: ``answer`` of each value in use, ``absent`` for ABSENT (index -1)."""
        table = np.zeros(len(self.values) + 1, dtype=np.bool_)
        for value, code in self.code_of.items():
            table[code] = answer(value)
        table[-1] = absent
        return table


class LabelColumn(CodeColumn[str]):
    """The codes of one label key."""

    __slots__ = ("__weakref__", "_numbers", "_numbers_version")

    def __init__(self, capacity: int, codes: Codes | None = None) -> None:
        super().__init__(capacity, codes)
        self._numbers: tuple[npt.NDArray[np.int64], Mask] | None = None
        self._numbers_version = -1

    def requirement(self, requirement: NodeRequirement) -> Mask:
        """Return a lookup table (by code; last entry: label absent) of a node selector requirement."""
        operator = requirement.operator
        table = np.zeros(len(self.values) + 1, dtype=np.bool_)
        if operator in ("In", "NotIn"):
            for value in requirement.values:
                code = self.code_of.get(value)
                if code is not None:
                    table[code] = True
            return ~table if operator == "NotIn" else table
        if operator == "Exists":
            table[:-1] = True
            return table
        if operator == "DoesNotExist":
            table[-1] = True
            return table
        bound = requirement.number
        if bound is not None:
            numbers, valid = self.numbers()
            table[:-1] = valid & (numbers > bound if operator == GT else numbers < bound)
        return table

    def numbers(self) -> tuple[npt.NDArray[np.int64], Mask]:
        """Return the values as integers, by code, and which values are integers. They are parsed once."""
        if self._numbers is None or self._numbers_version != self.version:
            parsed = [None if value is None else parse_int(value) for value in self.values]
            self._numbers = (
                np.array([number or 0 for number in parsed], dtype=np.int64),
                np.array([number is not None for number in parsed], dtype=np.bool_),
            )
            self._numbers_version = self.version
        return self._numbers


def absent_codes(capacity: int) -> Codes:
    """Return a read-only column without any value."""
    codes = np.full(capacity, ABSENT, dtype=np.int32)
    codes.flags.writeable = False
    return codes
