"""resource-strategy-fit: a scoring strategy for each resource, and two policies for scarce resources.

``sra`` prefers nodes without scarce resources; ``proportional`` reserves CPU and memory on nodes with them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.batch.plugin import BatchPlugin
from mooring.batch.registrations import on_node_alone
from mooring.batch.resource import CPU, MEMORY
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.task import TaskInfo
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts


def _names(listed: object) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()] if isinstance(listed, str) else []


class ScarceResourceAvoidance:
    """Prefers nodes without scarce resources (``sra``)."""

    def __init__(self, weight: int, resources: dict[str, int]) -> None:
        self.weight = weight
        self._resources = resources

    def score(self, task: TaskInfo, nodes: SessionNodes) -> Floats:
        """Return up to 100 times the weight, more for fewer scarce resources; 0 if a requested resource is missing."""
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


def scarce_rules(given: dict[str, Any]) -> ScarceResourceAvoidance | None:
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
    return ScarceResourceAvoidance(weight if isinstance(weight, int) else 0, resources)


class Proportional:
    """Reserves CPU and memory on nodes with a scarce resource, in proportion to its idle amount."""

    def __init__(self, rates: dict[str, tuple[float, float]]) -> None:
        self._rates = rates

    def judge(self, task: TaskInfo, nodes: SessionNodes) -> Verdicts | None:
        """Reject nodes where a task that does not request the scarce resource would leave too little."""
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


Floats = npt.NDArray[np.float64]

LEAST, MOST = "LeastAllocated", "MostAllocated"
_TYPE = "volcano.sh/resource-strategy-scoring-type"
_WEIGHTS = "volcano.sh/resource-strategy-weight"


class Strategy(NamedTuple):
    """The scoring type and the weight of a resource."""

    kind: str
    weight: int


def _own_strategy(task: TaskInfo) -> tuple[str | None, str | None]:
    annotations = task.pod.annotations
    return annotations.get(_TYPE), annotations.get(_WEIGHTS)


def _integer(value: object, default: int) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def _strategies(given: dict[str, Any]) -> dict[str, Strategy]:
    """Return the strategies by resource, or by prefix with ``*``."""
    if not given:
        return {CPU: Strategy(LEAST, 1), MEMORY: Strategy(LEAST, 1)}
    found = {}
    for name, value in given.items():
        if "*" in name and (name == "*" or not name.endswith("*") or name.count("*") > 1):
            continue
        fields = value if isinstance(value, dict) else {}
        weight, kind = _integer(fields.get("weight"), 0), fields.get("type")
        found[name] = Strategy(str(kind) if kind in (LEAST, MOST) else LEAST, weight if weight > 0 else 1)
    return found


class ResourceStrategyFit(BatchPlugin):
    """Scores nodes by the utilization of each resource, least or most allocated first."""

    name = "resource-strategy-fit"

    def on_session_open(self, session: Session) -> None:
        """Read the strategies and register callbacks."""
        arguments = self.arguments
        weight = _integer(arguments.get("resourceStrategyFitWeight"), -1)
        self._weight = 10 if weight < 0 else weight
        self._strategies = _strategies(arguments.mapping("resources"))
        self._scarce: ScarceResourceAvoidance | None = scarce_rules(arguments.mapping("sra"))
        proportional: Proportional | None = proportional_rules(arguments.mapping("proportional"))
        if proportional is not None:
            session.add_predicate(proportional.judge, columns=True, depends=on_node_alone)
        if self._weight > 0 or (self._scarce is not None and self._scarce.weight > 0):
            session.add_node_order(self._score, columns=True, depends=_own_strategy)

    def _score(self, task: TaskInfo, nodes: SessionNodes) -> Floats:
        total = np.zeros(len(nodes))
        if self._weight > 0:
            total += self._strategy_score(task, nodes)
        if self._scarce is not None and self._scarce.weight > 0:
            total += self._scarce.score(task, nodes)
        return total

    def _strategy_score(self, task: TaskInfo, nodes: SessionNodes) -> Floats:
        total, weights = np.zeros(len(nodes)), 0
        chosen = self._chosen(task)
        if chosen is None:
            return total
        too_full = np.zeros(len(nodes), dtype=np.bool_)
        for resource, (kind, weight) in chosen.items():
            weights += weight
            if weight == 0 or kind not in (LEAST, MOST):
                continue
            offered = nodes.allocatable(resource)
            in_use = nodes.used(resource) + task.request.get(resource)
            has = offered != 0
            too_full |= has & (in_use > offered)
            part = in_use if kind == MOST else offered - in_use
            total += np.divide(part * float(weight), offered, out=np.zeros(len(nodes)), where=has)
        if weights > 0:
            total /= float(weights)
        total *= 100.0 * float(self._weight)
        total[too_full] = 0.0
        return total

    def _chosen(self, task: TaskInfo) -> dict[str, Strategy] | None:
        """Return the strategies for a task's requests, its own if it has any; None if those are invalid."""
        own = task.pod.annotations.get(_TYPE, "")
        names = sorted(task.request.names(), key=lambda name: (name != CPU, name != MEMORY, name))
        if not own:
            found = {name: self._strategy(name) for name in names}
            return {name: strategy for name, strategy in found.items() if strategy is not None}
        try:
            weights = msgspec.json.decode(task.pod.annotations.get(_WEIGHTS, ""), type=dict[str, int])
        except (msgspec.DecodeError, UnicodeError):
            return None
        return {name: Strategy(own, weights[name]) for name in names if name in weights}

    def _strategy(self, resource: str) -> Strategy | None:
        """Return the strategy of a resource: its own, or that of the longest prefix."""
        if resource in self._strategies:
            return self._strategies[resource]
        prefixes = [name for name in self._strategies if name.endswith("*") and resource.startswith(name[:-1])]
        prefixes = [name for name in prefixes if len(name) > 1]
        return self._strategies[max(prefixes, key=len)] if prefixes else None
