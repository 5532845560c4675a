"""Fragmentation: the GPU capacity of a node that the typical pods of a workload cannot use.

The measure of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023). For a typical pod that does not fit on a node,
all free GPU capacity of the node is lost; for one that fits, the capacity of the GPUs with too little room for it.
The fragmentation of the node is the mean over the typical pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.plugins.gpu_sharing.devices import WHOLE, GpuRequest

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: The share of the pods of a workload that its typical pods represent.
COVERAGE: Final = 0.95
#: Short of CPU and GPU, of GPU (the rest of a node where the pod fits counts as this), of CPU; a pod without GPUs that
#: has enough CPU, or not; a model that is not allowed.
_REASONS: Final = 6
#: The number of cached states; each takes about 300 bytes.
_MOST_STATES: Final = 200_000


class TypicalPod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of pod of a workload, and how many of its pods are of this kind."""

    cpu: int
    count: int = 0
    milli: int = 0
    models: str = ""
    weight: int = 1

    @property
    def request(self) -> GpuRequest:
        """The requests of such a pod."""
        return GpuRequest(cpu=self.cpu, count=self.count, milli=self.milli, models=self.models)


def typical_pods(pods: Iterable[GpuRequest], coverage: float = COVERAGE) -> list[TypicalPod]:
    """Return the most frequent kinds of pods, which together make up a share of all pods, most frequent first."""
    kinds = Counter((pod.cpu, pod.milli, pod.count, pod.models) for pod in pods)
    total = sum(kinds.values())
    found: list[TypicalPod] = []
    taken = 0
    for weight, (cpu, milli, count, models) in sorted(((n, kind) for kind, n in kinds.items()), reverse=True):
        if taken >= coverage * total:
            break
        taken += weight
        found.append(TypicalPod(cpu=cpu, count=count, milli=milli, models=models, weight=weight))
    return found


class StateCache:
    """Caches the results of a function of a node's free CPU, the room of its GPUs in any order, and its GPU model.

    Many nodes are in equal states, and a state is evaluated again for every kind of pod.
    """

    def __init__(self, function: Callable[[Ints, Ints, Ints], Floats]) -> None:
        self._function = function
        self._known: dict[bytes, float] = {}

    def __call__(self, cpu: Ints, left: Ints, model: Ints) -> Floats:
        """Return the results by row."""
        states = np.empty((len(cpu), left.shape[1] + 2), dtype=np.int64)
        states[:, 0], states[:, 1] = cpu, model
        states[:, 2:] = left
        states[:, 2:].sort(axis=1)
        width = states.itemsize * states.shape[1]
        text = states.tobytes()
        keys = [text[start : start + width] for start in range(0, len(text), width)]
        known = self._known
        missing = {key: place for place, key in enumerate(keys) if key not in known}
        if missing:
            if len(known) > _MOST_STATES:
                known.clear()
                missing = {key: place for place, key in enumerate(keys)}
            rows = np.fromiter(missing.values(), dtype=np.intp, count=len(missing))
            known.update(zip(missing, self._function(cpu[rows], states[rows, 2:], model[rows]).tolist(), strict=True))
        return np.array([known[key] for key in keys], dtype=np.float64)


class Fragmentation:
    """Computes the fragmentation of many nodes at once.

    It adds floats in the order of the authors' program: one sum for each reason why GPUs are lost, in the order of the
    typical pods, then the sums. The order matters: a rounding error below zero changes an integer score, and with it
    the choice among otherwise equal nodes.
    """

    def __init__(self, typical: list[TypicalPod], models: list[str], coverage: float = 1.0) -> None:
        """``coverage`` is the share of all pods that the typical ones represent; it affects the rounding only."""
        taken = max(sum(pod.weight for pod in typical), 1)
        #: The distinct sizes of a request from one GPU; pods refer to them.
        sizes = sorted({pod.milli for pod in typical if pod.count}) or [WHOLE]
        self._sizes: Ints = np.array(sizes, dtype=np.int64)
        self._size_of = np.array([sizes.index(pod.milli) if pod.count else 0 for pod in typical], dtype=np.intp)
        self._cpu: Ints = np.array([pod.cpu for pod in typical], dtype=np.int64)
        self._count: Ints = np.array([pod.count for pod in typical], dtype=np.int64)
        weight: Floats = np.array([pod.weight for pod in typical], dtype=np.float64)
        self._share = weight / (taken / coverage) / coverage
        self._without = self._count == 0
        #: [model, pod]
        self._allowed = np.array(
            [[pod.request.allows(model) for pod in typical] for model in models], dtype=np.bool_
        ).reshape(len(models), len(typical))

    def __call__(self, cpu: Ints, left: Ints, model: Ints) -> Floats:
        """Return the fragmentation by row in thousandths of a GPU."""
        total = left.sum(axis=1)[:, None]
        enough = left[:, :, None] >= self._sizes
        lost = total - (enough * left[:, :, None]).sum(axis=1)
        short_of_gpu = enough.sum(axis=1)[:, self._size_of] < self._count
        short_of_cpu = cpu[:, None] < self._cpu
        allowed = self._allowed[model]
        fits = ~(short_of_gpu | short_of_cpu | self._without) & allowed
        terms = np.where(fits, lost[:, self._size_of], total) * self._share
        reason = np.where(
            self._without, 3 + short_of_cpu, np.where(allowed, np.where(short_of_cpu, 2 - 2 * short_of_gpu, 1), 5)
        )
        found: Floats = np.zeros(len(cpu))
        for number in range(_REASONS):
            mask = reason == number
            if mask.any():
                found += np.add.accumulate(np.where(mask, terms, 0.0), axis=1)[:, -1]
        return found
