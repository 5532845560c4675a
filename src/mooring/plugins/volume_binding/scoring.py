"""Scores by the utilization of storage classes, with the feature gate StorageCapacityScoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.plugins.shape_score import ShapePoint, score_table

Ints = npt.NDArray[np.int64]
_FULL = 100


class StorageUse(NamedTuple):
    """The storage of one class that a pod requests, and the available storage on each node."""

    requested: int
    capacity: Ints | int


class StorageScorer:
    """Scores nodes: the mean of the shape's scores of all classes, rounded half up.

    A class with more requested than available storage counts as full.
    """

    def __init__(self, shape: Sequence[ShapePoint]) -> None:
        self._table: Ints = np.array(score_table(shape), dtype=np.int64)

    def score(self, uses: Mapping[str, StorageUse]) -> Ints | int:
        """Return the scores of the nodes whose capacities are given; 0 without classes."""
        if not uses:
            return 0
        total = sum(self._table[_utilization(use)] for use in uses.values())
        scores: Ints = np.floor(np.asarray(total) / len(uses) + 0.5).astype(np.int64)
        return scores


def _utilization(use: StorageUse) -> Ints:
    capacity = np.asarray(use.capacity, dtype=np.int64)
    is_full = (capacity == 0) | (use.requested > capacity)
    return np.where(is_full, _FULL, use.requested * _FULL // np.where(is_full, 1, capacity))
