"""Small clusters with GPUs, for tests of policies."""

from __future__ import annotations

import numpy as np

from mooring.plugins.gpu_sharing.devices import WHOLE, GpuColumns

MODELS = ["G2", "T4"]


def gpu_nodes(*nodes: tuple[int, list[int]], model: str = "T4", tags: list[int] | None = None) -> GpuColumns:
    """Nodes given by their free millicores and the room of each GPU."""
    width = max(len(left) for _, left in nodes)
    return GpuColumns(
        cpu=np.array([cpu for cpu, _ in nodes]),
        memory=np.full(len(nodes), 1 << 20),
        left=np.array([left + [0] * (width - len(left)) for _, left in nodes]),
        gpus=np.array([len(left) for _, left in nodes]),
        model=np.full(len(nodes), MODELS.index(model)),
        models=MODELS,
        tags=None if tags is None else np.array(tags),
    )


def empty_nodes(count: int, *, cpu: int = 8000, gpus: int = 2, model: str = "T4") -> GpuColumns:
    """Equal nodes without pods."""
    return gpu_nodes(*[(cpu, [WHOLE] * gpus)] * count, model=model)
