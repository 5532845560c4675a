"""WorkloadFit: places pods so that the expected pods still fit. This is the policy ``mooring``.

It extends fragmentation gradient descent. FGD looks at one further pod; a cluster that fills up receives many. So the
loss of a placement also includes

- GPUs that CPU cannot serve: if only pods of one kind arrived, a node with free GPUs would run out of CPU first. FGD
  notices this only when not even one pod fits any more.
- the value of room on a GPU that is destroyed: see ``shadow_prices.py``.
- pressure on the GPU model: the share of its GPUs that pods which require certain models are expected to use.

All are in GPUs. docs/placement.md explains them with examples.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.plugins.gpu_sharing.devices import WHOLE, GpuColumns, GpuRequest
from mooring.plugins.gpu_sharing.fgd import FGD
from mooring.plugins.gpu_sharing.fragmentation import StateCache, TypicalPod
from mooring.plugins.gpu_sharing.shadow_prices import RoomValues, expected_kinds

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: The weights relative to fragmentation. They were tuned by hand on generated orders (bench/quality/orders.py).
_UNSERVED: Final = 0.5
_ROOM: Final = 6.0
_PRESSURE: Final = 1.0
#: The expected load, as a multiple of all GPUs: prices are those of a cluster that is just overcommitted.
_LOAD: Final = 1.05


class StrandedGpus:
    """Computes the GPU capacity by row that expected pods cannot use: now, and as they keep arriving."""

    def __init__(self, typical: list[TypicalPod], models: list[str]) -> None:
        users = [pod for pod in typical if pod.count]
        kinds = sorted({(pod.milli, pod.count) for pod in users})
        self._milli: Ints = np.array([milli for milli, _ in kinds], dtype=np.int64)
        self._count: Ints = np.array([count for _, count in kinds], dtype=np.int64)
        self._kind_of = np.array([kinds.index((pod.milli, pod.count)) for pod in users], dtype=np.intp)
        self._cpu: Ints = np.array([pod.cpu for pod in users], dtype=np.int64)
        #: Thousandths of a GPU per millicore.
        self._per_cpu: Floats = np.array([pod.count * pod.milli / max(pod.cpu, 1) for pod in users])
        shares = np.array([pod.weight for pod in users]) / max(sum(pod.weight for pod in typical), 1)
        allowed = np.array([[pod.request.allows(model) for pod in users] for model in models], dtype=np.bool_)
        #: [model, pod]
        self._shares: Floats = allowed.reshape(len(models), len(users)) * shares

    def __call__(self, cpu: Ints, left: Ints, model: Ints) -> Floats:
        """Return the loss by row, in thousandths of a GPU."""
        total = left.sum(axis=1)
        if not len(self._cpu):
            return np.asarray(total, dtype=np.float64)
        enough = left[:, :, None] >= self._milli
        by_kind = (enough * left[:, :, None]).sum(axis=1) * (enough.sum(axis=1) >= self._count)
        usable = by_kind[:, self._kind_of]
        served = np.minimum(usable, cpu[:, None] * self._per_cpu)
        fits = cpu[:, None] >= self._cpu
        used = usable * fits - _UNSERVED * (usable - served)
        lost: Floats = total - (used * self._shares[model]).sum(axis=1)
        return lost


def model_pressure(typical: list[TypicalPod], models: list[str], gpus: Ints) -> Floats:
    """Return the expected share of each model's GPUs that pods use which do not allow all models.

    The pods request as many GPUs as there are. A pod uses its models in proportion to their GPUs.
    """
    requested = sum(pod.weight * pod.count * pod.milli for pod in typical) or 1
    used: Floats = np.zeros(len(models))
    for pod in typical:
        allowed = np.array([pod.request.allows(model) for model in models], dtype=np.bool_)
        if pod.count and not allowed.all() and (supply := float(gpus[allowed].sum())):
            wanted = pod.weight * pod.count * pod.milli / requested * float(gpus.sum())
            used += np.where(allowed, wanted * gpus / supply, 0.0)
    return used / np.maximum(gpus, 1)


class WorkloadFit(FGD):
    """Prefers the node and GPU where the expected pods lose least."""

    def __init__(self, nodes: GpuColumns, typical: list[TypicalPod]) -> None:
        """Compute prices for the GPUs of some nodes and the expected pods."""
        models = nodes.models
        gpus = np.bincount(nodes.model, weights=nodes.gpus, minlength=len(models)).astype(np.int64)
        stranded = StrandedGpus(typical, models)
        values = RoomValues(expected_kinds(typical, models, _LOAD * float(gpus.sum())), gpus)
        super().__init__(
            StateCache(lambda cpu, left, model: stranded(cpu, left, model) - _ROOM * WHOLE * values(cpu, left, model))
        )
        self._pressure = model_pressure(typical, models, gpus)

    def _points(self, gain: Floats, pod: GpuRequest, model: Ints) -> Ints:
        """Return the scores; one point is about 0.04 GPUs for placements that lose little."""
        net = (gain - _PRESSURE * self._pressure[model] * pod.total) / WHOLE
        # Equal placements must have equal scores, whatever the rounding.
        found: Ints = (100 / (1 + np.exp(-np.clip(net, -50, 50))) + 1e-9).astype(np.int64)
        return found
