"""Scores by the utilization of storage classes.

In kube-scheduler 1.36 they require the feature gate StorageCapacityScoring, which is disabled by default. So
VolumeBinding's PreScore skips, and there are no scores.

"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mooring.plugins.shape_score import ShapePoint, broken_line

_FULL = 100


class StorageUse(NamedTuple):
    """The requested and the available storage of one class."""

    requested: int
    capacity: int


def storage_scorer(shape: Sequence[ShapePoint]) -> Callable[[Mapping[str, StorageUse]], int]:
    """Return a scorer of nodes: the mean of the shape's score of each class.

    A class with more requested than available storage counts as full.
    """

    def score(uses: Mapping[str, StorageUse]) -> int:
        if not uses:
            return 0
        total = sum(broken_line(shape, _utilization(use)) for use in uses.values())
        return math.floor(total / len(uses) + 0.5)

    return score


def _utilization(use: StorageUse) -> int:
    if use.capacity == 0 or use.requested > use.capacity:
        return _FULL
    return use.requested * _FULL // use.capacity
