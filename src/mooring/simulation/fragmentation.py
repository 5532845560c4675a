"""Fragmentation: the free share of a cluster that typical pods cannot use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def fragmentation(free: Ints, capacity: Ints, sizes: Ints, popularity: Floats) -> float:
    """Return the free share of the cluster, in percent, on nodes without room for a typical pod.

    ``free`` and ``capacity`` have a row for each node, ``sizes`` one for each kind of pod; the last column of ``free``
    and ``sizes`` is the number of pods. The free share of a node is that of its scarcest resource. Each kind of pod
    counts as often as it occurs (``popularity``, whose sum is 1).
    """
    resources = sizes.shape[1] - 1
    if not len(free) or not len(sizes) or not resources:
        return 0.0
    parts = np.maximum(free[:, :resources], 0) / np.maximum(capacity[:, :resources].sum(axis=0), 1)
    shares: Floats = np.where(capacity[:, :resources] > 0, parts, np.inf).min(axis=1)
    shares[np.isinf(shares)] = 0.0
    lost = np.zeros(len(free))
    for size, weight in zip(sizes, popularity.tolist(), strict=True):
        if weight:
            lost += weight * ~(free >= size).all(axis=1)
    return 100 * float((shares * lost).sum())
