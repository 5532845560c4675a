"""Columns of interned values: one integer code a node, with a dictionary. Labels, topology domains, taint sets.

Hot path. A question about labels ("zone in (a, b)") is answered once for each distinct value and then looked up for
all nodes in one gather. Codes are reused when no node has the value any more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.api.selectors import NodeRequirement

V = TypeVar("V", bound=Hashable)
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

#: Code of a node that has no value (the label is absent).
ABSENT = -1


class CodeColumn(Generic[V]):
    """One value (or none) a row, as codes."""

    __slots__ = ("_free", "_uses", "code_of", "codes", "values", "version")

    def __init__(self, capacity: int) -> None:
        self.codes: Codes = np.full(capacity, ABSENT, dtype=np.int32)
        #: By code; None where the code is free.
        self.values: list[V | None] = []
        self.code_of: dict[V, int] = {}
        self._uses: list[int] = []
        self._free: list[int] = []
        #: Rises whenever a code gets or loses its meaning; what was derived per code is stale then.
        self.version = 0

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        grown = np.full(capacity, ABSENT, dtype=np.int32)
        grown[: len(self.codes)] = self.codes
        self.codes = grown

    def set(self, row: int, value: V | None) -> None:
        """Give a row a value; None takes it away."""
        old = int(self.codes[row])
        if old != ABSENT:
            if self.values[old] == value:
                return
            self._release(old)
        self.codes[row] = ABSENT if value is None else self._intern(value)

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
        """How many codes there are, free ones included: the length of anything indexed by code."""
        return len(self.values)

    @property
    def distinct(self) -> int:
        """How many values are in use."""
        return len(self.code_of)

    def lookup(self, answer: Callable[[V], bool], *, absent: bool) -> Mask:
        """A table to index with codes: ``answer`` for each value in use, ``absent`` for ABSENT (index -1)."""
        table = np.zeros(len(self.values) + 1, dtype=np.bool_)
        for value, code in self.code_of.items():
            table[code] = answer(value)
        table[-1] = absent
        return table


class LabelColumn(CodeColumn[str]):
    """The codes of one label key."""

    __slots__ = ()

    def requirement(self, requirement: NodeRequirement) -> Mask:
        """A lookup table (by code, last entry for nodes without the label) of one node selector requirement."""
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
        return self.lookup(lambda value: requirement.matches({requirement.key: value}), absent=False)
