"""Scores by how well volumes fill the storage they come from.

kube-scheduler 1.36 has them behind the feature gate StorageCapacityScoring, which is off by default: VolumeBinding's
PreScore skips, and it gives no scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mooring.plugins.shape_score import ShapePoint, broken_line

_FULL = 100


class StorageUse(NamedTuple):
    """What is asked of the storage of one class, and how much there is."""

    requested: int
    capacity: int


def storage_scorer(shape: Sequence[ShapePoint]) -> Callable[[Mapping[str, StorageUse]], int]:
    """A scorer of nodes by the use of their storage classes: the mean of what the shape says of each.

    A class that is asked for more than it has counts as full.
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
