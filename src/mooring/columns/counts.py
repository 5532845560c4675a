"""Counts by small integer codes (rows, topology domains): sparse while few, dense when many.

Hot path. A cluster has thousands of counters (one per selector, per affinity term, per image), most of which touch a
few nodes, and a few of which touch all of them. A dictionary is right for the first kind and an array for the second.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_DENSE_FROM = 48


class Counts:
    """How many, by code. ``add`` is O(1); ``array`` gives all counts as a vector to gather from."""

    __slots__ = ("_dense", "_sparse", "total")

    def __init__(self) -> None:
        self._sparse: dict[int, int] | None = {}
        self._dense: npt.NDArray[np.int64] = _EMPTY
        #: Sum over all codes.
        self.total = 0

    def add(self, code: int, delta: int) -> None:
        """Count ``delta`` more at ``code``."""
        self.total += delta
        sparse = self._sparse
        if sparse is not None:
            count = sparse.get(code, 0) + delta
            if count:
                sparse[code] = count
                if len(sparse) > _DENSE_FROM:
                    self._densify()
            else:
                sparse.pop(code, None)
            return
        if code >= len(self._dense):
            grown = np.zeros(max(code + 1, 2 * len(self._dense)), dtype=np.int64)
            grown[: len(self._dense)] = self._dense
            self._dense = grown
        self._dense[code] += delta

    def get(self, code: int) -> int:
        """The count at one code."""
        if self._sparse is not None:
            return self._sparse.get(code, 0)
        return int(self._dense[code]) if code < len(self._dense) else 0

    def array(self, size: int) -> npt.NDArray[np.int64]:
        """The counts of codes 0 to ``size`` - 1. Read only: it may be the live vector."""
        sparse = self._sparse
        if sparse is not None:
            vector = np.zeros(size, dtype=np.int64)
            for code, count in sparse.items():
                vector[code] = count
            return vector
        if len(self._dense) < size:
            grown = np.zeros(max(size, 2 * len(self._dense)), dtype=np.int64)
            grown[: len(self._dense)] = self._dense
            self._dense = grown
        return self._dense[:size]

    def add_to(self, vector: npt.NDArray[np.int64], weight: int = 1) -> None:
        """Add the counts, times a weight, to a vector indexed by code."""
        sparse = self._sparse
        if sparse is not None:
            for code, count in sparse.items():
                vector[code] += weight * count
            return
        dense = self._dense[: len(vector)]
        vector[: len(dense)] += dense if weight == 1 else weight * dense

    def grouped(self, codes: npt.NDArray[np.int32], within: npt.NDArray[np.bool_] | None = None) -> Counts:
        """The counts by other codes: what is counted at i goes to ``codes[i]``, or nowhere if that is negative.

        ``within`` leaves out the codes where it is false.
        """
        result = Counts()
        if self._sparse is not None:
            for code, count in self._sparse.items():
                if codes[code] >= 0 and (within is None or within[code]):
                    result.add(int(codes[code]), count)
            return result
        size = min(len(self._dense), len(codes), len(codes if within is None else within))
        kept = codes[:size] >= 0
        if within is not None:
            kept &= within[:size]
        # Sums of counts stay far below 2**53, so the float sums are exact.
        sums = np.bincount(codes[:size][kept], weights=self._dense[:size][kept], minlength=64)
        result._sparse, result._dense = None, sums.astype(np.int64)
        result.total = int(result._dense.sum())
        return result

    def items(self) -> list[tuple[int, int]]:
        """The non-zero counts, for checks and for few codes."""
        if self._sparse is not None:
            return sorted(self._sparse.items())
        return [(int(code), int(self._dense[code])) for code in np.flatnonzero(self._dense)]

    def _densify(self) -> None:
        sparse = self._sparse or {}
        self._dense = np.zeros(max(64, 2 * (max(sparse) + 1)), dtype=np.int64)
        for code, count in sparse.items():
            self._dense[code] = count
        self._sparse = None


_EMPTY: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
