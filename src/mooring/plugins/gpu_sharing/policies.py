"""Packing policies for GPUs: a score for each node and, for pods that share a GPU, the GPU.

The policies that "Beware of Fragmentation" (USENIX ATC 2023) compares, with the same integer scores, and the policy of
Mooring. Higher is better. Among nodes with equal scores the same node must come first each time (``tieBreak: stable``),
because scores are coarse: a random choice would spread pods over all equal nodes and so fragment them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.plugins.gpu_sharing.devices import WHOLE, GpuColumns, GpuRequest, kind_bit
from mooring.plugins.gpu_sharing.fgd import FGD, Loss
from mooring.plugins.gpu_sharing.fragmentation import TypicalPod
from mooring.plugins.gpu_sharing.workload_fit import WorkloadFit

Ints = npt.NDArray[np.int64]

#: The largest node that scores refer to: 128 cores and 8 GPUs.
_CPU: Final = 128_000
_GPU: Final = 8 * WHOLE


class Policy(Protocol):
    """Scores feasible nodes for a pod."""

    def __call__(self, nodes: GpuColumns, pod: GpuRequest) -> tuple[Ints, Ints | None]:
        """Return the score of each row, 0 to 100, and the GPU for a sharing pod (None: the tightest)."""


class DotProd:
    """Prefers nodes whose free resources are least in proportion to the pod's requests."""

    def __call__(self, nodes: GpuColumns, pod: GpuRequest) -> tuple[Ints, None]:
        """Score by the product of free and requested amounts."""
        free = nodes.left.sum(axis=1)
        product = (nodes.cpu / _CPU) * (pod.cpu / _CPU) + (free / _GPU) * (pod.total / _GPU)
        return (100 * (1 - product / 2)).astype(np.int64), None


class BestFit:
    """Prefers nodes with the least CPU and GPU left after placement."""

    def __call__(self, nodes: GpuColumns, pod: GpuRequest) -> tuple[Ints, None]:
        """Score by the mean of the free shares."""
        free = nodes.left.sum(axis=1)
        rest = (nodes.cpu - pod.cpu) / _CPU * 0.5 + (free - pod.total) / _GPU * 0.5
        return ((1.0 - rest) * 100).astype(np.int64), None


class GpuClustering:
    """Prefers nodes that run pods of the same kind: sharing pods, or pods with the same number of GPUs."""

    def __call__(self, nodes: GpuColumns, pod: GpuRequest) -> tuple[Ints, None]:
        """Score by the kinds of pods on the node, then by the GPU in use."""
        if not pod.count:
            return np.zeros(len(nodes), dtype=np.int64), None
        base = 25 * (_GPU - nodes.left.sum(axis=1)) // _GPU
        own = kind_bit(pod)
        same = np.where(nodes.tags == own, 75, np.where(nodes.tags & own, 50, np.where(nodes.tags == 0, 25, 0)))
        return base + same, None


class GpuPacking:
    """Prefers GPUs in use, then free GPUs of nodes in use, then free nodes."""

    def __call__(self, nodes: GpuColumns, pod: GpuRequest) -> tuple[Ints, None]:
        """Score by the GPUs that the pod would use, those with the least room first."""
        if not pod.count:
            return np.zeros(len(nodes), dtype=np.int64), None
        free = (nodes.left == WHOLE).sum(axis=1)
        ordered = np.sort(np.where(nodes.left >= pod.milli, nodes.left, 2 * WHOLE), axis=1)[:, : pod.count]
        opened = (ordered == WHOLE).sum(axis=1)
        used = (ordered * 100 // WHOLE).sum(axis=1)
        in_use = np.where(opened > 0, np.maximum(50 - opened, 33), np.maximum(100 - used // 10, 50))
        return np.where(free == nodes.gpus, np.maximum(33 - free, free), in_use), None


class Random:
    """Gives one node, drawn at random, 100 and the others 0; likewise among the GPUs that fit."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def __call__(self, nodes: GpuColumns, pod: GpuRequest) -> tuple[Ints, Ints | None]:
        """Draw a node, and a GPU of each node."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        scores[int(self._rng.integers(len(nodes)))] = 100
        if not pod.shares:
            return scores, None
        draws = self._rng.random(nodes.left.shape) * (nodes.left >= pod.milli)
        return scores, draws.argmax(axis=1)


class Setting(msgspec.Struct, frozen=True):
    """What a policy may know: the nodes, the expected pods, the measure of fragmentation, and a random source."""

    nodes: GpuColumns
    typical: list[TypicalPod]
    fragmentation: Loss
    rng: np.random.Generator


#: The policies by name.
POLICIES: Final[Mapping[str, Callable[[Setting], Policy]]] = {
    "Random": lambda setting: Random(setting.rng),
    "DotProd": lambda _: DotProd(),
    "GpuClustering": lambda _: GpuClustering(),
    "GpuPacking": lambda _: GpuPacking(),
    "BestFit": lambda _: BestFit(),
    "FGD": lambda setting: FGD(setting.fragmentation),
    "mooring": lambda setting: WorkloadFit(setting.nodes, setting.typical),
}
