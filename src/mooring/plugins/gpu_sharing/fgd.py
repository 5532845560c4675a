"""FGD: fragmentation gradient descent, the policy of "Beware of Fragmentation" (USENIX ATC 2023)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mooring.plugins.gpu_sharing.devices import WHOLE, GpuColumns, GpuRequest, tightest_gpus

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
#: (cpu, left, model) -> lost GPU capacity by row.
Loss = Callable[[Ints, Ints, Ints], Floats]


class FGD:
    """Fragmentation gradient descent: prefers the node and GPU where fragmentation grows least."""

    def __init__(self, loss: Loss) -> None:
        #: Returns the lost GPU capacity by row, in thousandths.
        self._loss = loss

    def __call__(self, nodes: GpuColumns, pod: GpuRequest) -> tuple[Ints, Ints | None]:
        """Score by the sigmoid of the decrease of the loss in GPUs."""
        before = self._loss(nodes.cpu, nodes.left, nodes.model)
        if not pod.shares:
            return self._points(before - self._loss_after_whole(nodes, pod), pod, nodes.model), None
        row, gpu, after = self._loss_after_sharing(nodes, pod)
        points: Ints = np.full(nodes.left.shape, -1, dtype=np.int64)
        points[row, gpu] = self._points(before[row] - after, pod, nodes.model[row])
        return points.max(axis=1), points.argmax(axis=1)

    def _points(self, gain: Floats, pod: GpuRequest, model: Ints) -> Ints:
        """Return the scores of placements that decrease the loss by ``gain``."""
        found: Ints = (1.0 / (1.0 + np.exp(-gain / WHOLE)) * 100).astype(np.int64)
        return found

    def _loss_after_whole(self, nodes: GpuColumns, pod: GpuRequest) -> Floats:
        left = nodes.left
        if pod.count:
            left = left.copy()
            left[np.arange(len(left))[:, None], tightest_gpus(left, pod)] -= pod.milli
        return self._loss(nodes.cpu - pod.cpu, left, nodes.model)

    def _loss_after_sharing(self, nodes: GpuColumns, pod: GpuRequest) -> tuple[Rows, Rows, Floats]:
        """Return rows, GPUs and the loss for each. Of several GPUs with equal room, only the first is evaluated."""
        width = nodes.left.shape[1]
        same = nodes.left[:, :, None] == nodes.left[:, None, :]
        first = (nodes.left >= pod.milli) & ~(same & np.tri(width, k=-1, dtype=np.bool_)).any(axis=2)
        row, gpu = np.nonzero(first)
        left = nodes.left[row]
        left[np.arange(len(row)), gpu] -= pod.milli
        return row, gpu, self._loss(nodes.cpu[row] - pod.cpu, left, nodes.model[row])
