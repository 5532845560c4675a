"""Candidates: the feasible nodes for each kind of pod with their scores, updated as nodes change.

Hot path. Most pods are of a kind that was placed before, and only a few nodes have changed since.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.plugins.gpu_sharing.devices import GpuColumns, GpuRequest, tightest_gpus
from mooring.plugins.gpu_sharing.policies import Policy

Ints = npt.NDArray[np.int64]

#: The number of kinds of pods whose candidates are kept. Users may create pods of any kind.
_MOST_KINDS: Final = 1024
#: The score of a node without room.
INFEASIBLE: Final = -1


class Candidates:
    """The nodes for one kind of pod: by row the score, INFEASIBLE without room, and the GPU for a sharing pod."""

    __slots__ = ("gpu", "scores", "seen")

    def __init__(self, rows: int) -> None:
        self.scores: Ints = np.full(rows, INFEASIBLE, dtype=np.int64)
        self.gpu: Ints = np.zeros(rows, dtype=np.int64)
        #: The number of changes that are included; -1 before the first update.
        self.seen = -1


class CandidateCache:
    """The candidates of all kinds of pods for a policy whose scores depend only on the node and the kind of pod."""

    def __init__(self, nodes: GpuColumns, policy: Policy) -> None:
        self._nodes = nodes
        self._policy = policy
        self._kinds: OrderedDict[GpuRequest, Candidates] = OrderedDict()
        #: The changed rows in order.
        self._changed: list[int] = []

    def changed(self, row: int) -> None:
        """Note that a row has changed."""
        self._changed.append(row)

    def of(self, pod: GpuRequest) -> Candidates:
        """Return the current candidates for a pod."""
        found = self._kinds.get(pod)
        if found is None:
            found = self._kinds[pod] = Candidates(len(self._nodes))
            if len(self._kinds) > _MOST_KINDS:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(pod)
        if found.seen < len(self._changed):
            self._update(found, pod)
        return found

    def _update(self, found: Candidates, pod: GpuRequest) -> None:
        if found.seen < 0:
            rows = np.arange(len(self._nodes))
        else:
            rows = np.array(sorted(set(self._changed[found.seen :])), dtype=np.intp)
        nodes = self._nodes.take(rows)
        fits = np.flatnonzero(nodes.feasible(pod))
        found.scores[rows] = INFEASIBLE
        if len(fits):
            nodes, rows = nodes.take(fits), rows[fits]
            scores, gpu = self._policy(nodes, pod)
            found.scores[rows] = scores
            if pod.shares:
                found.gpu[rows] = tightest_gpus(nodes.left, pod)[:, 0] if gpu is None else gpu
        found.seen = len(self._changed)
