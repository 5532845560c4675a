"""Two policies of resource-strategy-fit: keep nodes with scarce resources free, and keep CPU and memory for those."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.batch.resource import CPU, MEMORY
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.task import TaskInfo
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts

Floats = npt.NDArray[np.float64]


def _names(listed: object) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()] if isinstance(listed, str) else []


class Scarce:
    """Prefers nodes without scarce resources (``sra``)."""

    def __init__(self, weight: int, resources: dict[str, int]) -> None:
        self.weight = weight
        self._resources = resources

    def score(self, task: TaskInfo, nodes: SessionNodes) -> Floats:
        """100 times the weight for a node without any, 0 for one with all, or one that lacks what is asked for."""
        had: Floats = np.zeros(len(nodes))
        for name, weight in self._resources.items():
            had += (nodes.allocatable(name) > 0) * float(weight)
        total = sum(self._resources.values())
        if total > 0:
            had = 1.0 - had / float(total)
        had *= float(100 * self.weight)
        for name in task.request.names():
            had[nodes.allocatable(name) == 0] = 0.0
        return had


def scarce_rules(given: dict[str, Any]) -> Scarce | None:
    """Read ``sra``; None unless it is enabled."""
    if given.get("enable") is not True:
        return None
    own = given.get("resourceWeight")
    weights = own if isinstance(own, dict) else {}
    resources = {}
    for name in _names(given.get("resources")):
        weight = weights.get(name, 1)
        resources[name] = weight if isinstance(weight, int) and weight >= 0 else 1
    weight = given.get("weight")
    return Scarce(weight if isinstance(weight, int) else 0, resources)


class Proportional:
    """Keeps, on nodes with a scarce resource, CPU and memory in proportion to what is idle of it."""

    def __init__(self, rates: dict[str, tuple[float, float]]) -> None:
        self._rates = rates

    def judge(self, task: TaskInfo, nodes: SessionNodes) -> Verdicts | None:
        """Turn a task that does not ask for it down where too little would be left."""
        if any(task.request.get(name) > 0 for name in self._rates):
            return None
        rejections = []
        cpu_left = nodes.idle(CPU) - task.request.cpu
        memory_left = nodes.idle(MEMORY) - task.request.memory
        has = [set(node.allocatable.scalars or ()) for node in nodes]
        for name, (cpu, memory) in self._rates.items():
            idle = nodes.idle(name)
            lacks = (cpu_left < idle * cpu) | (memory_left < idle * memory * 1000 * 1000)
            present = np.array([name in each for each in has], dtype=np.bool_)
            status = Status.unresolvable(f"proportional of resource {name} check failed")
            rejections.append((lacks & present, status))
        return Verdicts.first(rejections) if rejections else None


def proportional_rules(given: dict[str, Any]) -> Proportional | None:
    """Read ``proportional``; None unless it is enabled."""
    if given.get("enable") is not True:
        return None
    own = given.get("resourceProportion")
    rates = own if isinstance(own, dict) else {}

    def rate(key: str) -> float:
        value = rates.get(key, 1.0)
        return float(value) if isinstance(value, int | float) and value >= 0 else 1.0

    return Proportional(
        {name: (rate(f"{name}.cpu"), rate(f"{name}.memory")) for name in _names(given.get("resources"))}
    )
