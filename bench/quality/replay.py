"""Replays a workload under a policy: pods arrive one by one and never leave; a pod that does not fit is dropped."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from bench.quality.trace import Workload
from mooring.plugins.gpu_sharing.candidates import INFEASIBLE, CandidateCache, Candidates
from mooring.plugins.gpu_sharing.devices import GpuColumns, GpuRequest, tightest_gpus
from mooring.plugins.gpu_sharing.fgd import Loss
from mooring.plugins.gpu_sharing.policies import Policy, Random

Ints = npt.NDArray[np.int64]


class Point(msgspec.Struct, frozen=True):
    """The state of the cluster at a load, as percentages of all GPUs."""

    allocated: float
    fragmented: float


class Series:
    """The state of the cluster after each offered pod, averaged by load in whole percent of the GPUs."""

    def __init__(self, gpus: int) -> None:
        #: Thousandths of a GPU in one percent of all GPUs.
        self._percent = 10 * gpus
        self._sums: dict[int, list[float]] = {}

    def load(self, arrived: int) -> int:
        """Return requested thousandths of a GPU as a load."""
        return round(arrived / self._percent)

    def add(self, arrived: int, used: int, fragmented: float) -> None:
        """Add a sample; the amounts are thousandths of a GPU."""
        sums = self._sums.setdefault(self.load(arrived), [0, 0.0, 0.0])
        sums[0] += 1
        sums[1] += round(used / self._percent, 2)
        sums[2] += fragmented

    @property
    def loads(self) -> list[int]:
        """The loads that have samples."""
        return sorted(self._sums)

    def at(self, load: int) -> Point:
        """Return the mean at a load; without samples, the mean of the loads next to it."""
        found = [self._sums[load]] if load in self._sums else [self._sums[n] for n in self._sums if abs(n - load) == 1]
        count, used, fragmented = (sum(values) for values in zip(*found, strict=True))
        return Point(round(used / count, 2), round(fragmented / count / self._percent, 2))


class TotalFragmentation:
    """The fragmentation of all nodes, updated row by row."""

    def __init__(self, nodes: GpuColumns, fragmentation: Loss) -> None:
        self._nodes = nodes
        self._fragmentation = fragmentation
        self._by_row = fragmentation(nodes.cpu, nodes.left, nodes.model)
        self.total = float(self._by_row.sum())

    def update(self, row: int) -> None:
        """Update the total after a change of a row."""
        one = slice(row, row + 1)
        after = float(self._fragmentation(self._nodes.cpu[one], self._nodes.left[one], self._nodes.model[one])[0])
        self.total += after - float(self._by_row[row])
        self._by_row[row] = after


class Replay:
    """A run of one workload under one policy."""

    def __init__(self, nodes: GpuColumns, workload: Workload, policy: Policy, fragmentation: Loss) -> None:
        self.nodes = nodes
        self._workload = workload
        self._policy = policy
        self._rank: Ints = np.array(workload.rank, dtype=np.int64)
        self._fragmentation = fragmentation
        self._candidates = CandidateCache(nodes, policy)
        #: (row, GPUs) of each offered pod; None if it was dropped.
        self.placements: list[tuple[int, list[int]] | None] = []

    def run(self, first: int = 0, last: int = 1000) -> Series:
        """Offer pods until the load exceeds ``last`` percent; the series begins at ``first`` percent."""
        nodes, pods = self.nodes, self._workload.pods
        series = Series(int(nodes.gpus.sum()))
        fragmentation: TotalFragmentation | None = None
        arrived = used = 0
        for index in self._workload.order:
            pod = pods[index]
            arrived += pod.total
            if series.load(arrived) > last:
                break
            if fragmentation is None and series.load(arrived) >= first:
                fragmentation = TotalFragmentation(nodes, self._fragmentation)
            row = self._offer(pod)
            if row is not None:
                used += pod.total
            if fragmentation is not None:
                if row is not None:
                    fragmentation.update(row)
                series.add(arrived, used, fragmentation.total)
        return series

    def _offer(self, pod: GpuRequest) -> int | None:
        """Place a pod and return its row; None if it fits nowhere."""
        nodes = self.nodes
        if isinstance(self._policy, Random):
            found = self._find_random(pod)
        else:
            found = choose(self._candidates.of(pod), nodes, self._rank, pod)
        if found is None:
            self.placements.append(None)
            return None
        row, gpus = found
        nodes.place(row, pod, gpus)
        self._candidates.changed(row)
        self.placements.append((row, gpus))
        return row

    def _find_random(self, pod: GpuRequest) -> tuple[int, list[int]] | None:
        rows = np.flatnonzero(self.nodes.feasible(pod))
        if not len(rows):
            return None
        nodes = self.nodes.take(rows)
        scores, gpu = self._policy(nodes, pod)
        place = int(scores.argmax())
        gpus = tightest_gpus(nodes.left[place : place + 1], pod)[0].tolist() if gpu is None else [int(gpu[place])]
        return int(rows[place]), gpus


def choose(found: Candidates, nodes: GpuColumns, rank: Ints, pod: GpuRequest) -> tuple[int, list[int]] | None:
    """Return the best node, of several the one with the lowest rank, and the pod's GPUs; None if there is no room."""
    best = int(found.scores.max())
    if best == INFEASIBLE:
        return None
    tied = np.flatnonzero(found.scores == best)
    row = int(tied[rank[tied].argmin()])
    if pod.shares:
        return row, [int(found.gpu[row])]
    return row, tightest_gpus(nodes.left[row : row + 1], pod)[0].tolist() if pod.count else []
