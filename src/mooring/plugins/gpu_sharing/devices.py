"""GPUs in columns: what is left of each GPU of each node, and which nodes and GPUs a pod fits."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

#: A whole GPU, in thousandths.
WHOLE: Final = 1000


class GpuRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a pod requests, as far as GPU policies are concerned."""

    #: Millicores.
    cpu: int
    #: In the unit of the node columns.
    memory: int = 0
    #: The number of GPUs; 0 for a pod without GPUs.
    count: int = 0
    #: Thousandths of each GPU.
    milli: int = 0
    #: The allowed GPU models, separated by ``|``; empty for any.
    models: str = ""

    @property
    def total(self) -> int:
        """The requested thousandths of a GPU, over all GPUs."""
        return self.count * self.milli

    @property
    def shares(self) -> bool:
        """Whether the pod requests a part of one GPU."""
        return self.count == 1 and self.milli < WHOLE

    def allows(self, model: str) -> bool:
        """Return whether the pod may run on a GPU model."""
        return not self.models or model in self.models.split("|")


class GpuColumns:
    """Nodes with GPUs, or a selection of them, in columns."""

    __slots__ = ("cpu", "gpus", "left", "memory", "model", "models", "tags")

    def __init__(
        self,
        *,
        cpu: Ints,
        memory: Ints,
        left: Ints,
        gpus: Ints,
        model: Ints,
        models: list[str],
        tags: Ints | None = None,
    ) -> None:
        #: Free millicores and memory by row.
        self.cpu = cpu
        self.memory = memory
        #: [row, GPU]: free thousandths; 0 for GPUs that do not exist.
        self.left = left
        #: The number of GPUs.
        self.gpus = gpus
        #: The place of each row's GPU model in ``models``.
        self.model = model
        self.models = models
        #: The kinds of GPU pods on each row, one bit each (``kind_bit``).
        self.tags = np.zeros(len(cpu), dtype=np.int64) if tags is None else tags

    def __len__(self) -> int:
        return len(self.cpu)

    def take(self, rows: Rows) -> GpuColumns:
        """Return some rows, copied."""
        return GpuColumns(
            cpu=self.cpu[rows],
            memory=self.memory[rows],
            left=self.left[rows],
            gpus=self.gpus[rows],
            model=self.model[rows],
            models=self.models,
            tags=self.tags[rows],
        )

    def allowed(self, pod: GpuRequest) -> Mask:
        """Return which rows have a GPU model that a pod allows."""
        if not pod.models:
            return np.ones(len(self), dtype=np.bool_)
        by_model = np.array([pod.allows(model) for model in self.models], dtype=np.bool_)
        return by_model[self.model]

    def feasible(self, pod: GpuRequest) -> Mask:
        """Return which rows have room for a pod."""
        room: Mask = (self.cpu >= pod.cpu) & (self.memory >= pod.memory)
        if pod.count:
            room &= self.has_gpus(pod)
            if pod.models:
                room &= self.allowed(pod)
        return room

    def has_gpus(self, pod: GpuRequest) -> Mask:
        """Return which rows have enough GPUs with enough room, whatever their model."""
        found: Mask = (self.left >= pod.milli).sum(axis=1) >= pod.count
        return found

    def place(self, row: int, pod: GpuRequest, gpus: list[int]) -> None:
        """Subtract a pod from a row and its GPUs."""
        self.cpu[row] -= pod.cpu
        self.memory[row] -= pod.memory
        if pod.count:
            self.left[row, gpus] -= pod.milli
            self.tags[row] |= kind_bit(pod)

    def remove(self, row: int, pod: GpuRequest, gpus: list[int]) -> None:
        """Add a pod's requests to a row and its GPUs again. ``tags`` of the row are left to the caller."""
        self.cpu[row] += pod.cpu
        self.memory[row] += pod.memory
        if pod.count:
            self.left[row, gpus] += pod.milli


def kind_bit(pod: GpuRequest) -> int:
    """Return the bit of a pod's kind in ``tags``: sharing pods, pods with one GPU, with two, and so on."""
    return 1 << (0 if pod.shares else min(pod.count, 62))


def tightest_gpus(left: Ints, pod: GpuRequest) -> Ints:
    """Return by row the GPUs with the least room that still fit, the first of several: [row, GPU of the pod].

    For whole GPUs these are the first free ones. Rows must have room for the pod.
    """
    if pod.count == 1:
        tightest: Ints = np.where(left >= pod.milli, left, 2 * WHOLE).argmin(axis=1)[:, None]
        return tightest
    found: Ints = np.where(left >= pod.milli, left, 2 * WHOLE).argsort(axis=1, kind="stable")[:, : pod.count]
    return found
