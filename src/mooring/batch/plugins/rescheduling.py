"""rescheduling: chooses pods on nodes with a high measured load, which the action `shuffle` evicts.

The strategy lowNodeUtilization of Volcano. Its numbers of pods, its priority threshold and nodeFit have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.quantity import milli_value, value
from mooring.api.resources import CPU, MEMORY, qos_class
from mooring.batch.plugin import BatchPlugin
from mooring.batch.plugins.usage import FRESH_SECONDS
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.task import TaskInfo
from mooring.config.durations import SECOND, DurationError, parse_duration

_STRATEGY: Final = "lowNodeUtilization"
_DEFAULT_SECONDS: Final = 300.0
#: The period of which averages are measured. Others have no measurements.
MEASURED_PERIOD: Final = "10m"
#: The first session comes at least this long after the start of the process, from which the interval counts.
_STARTUP_SECONDS: Final = 1.0
_RESOURCES: Final = (CPU, MEMORY)
_DEFAULT_PERCENT: Final = 100.0
_QOS: Final = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}


class _Thresholds(msgspec.Struct, frozen=True):
    """Nodes below ``low`` in all resources get pods of nodes above ``target`` in at least one, in per cent."""

    low: dict[str, float]
    target: dict[str, float]


class _Load(msgspec.Struct):
    """A node, and its load in per cent by resource, less that of the pods chosen so far."""

    node: SessionNode
    percent: dict[str, float]


class Rescheduling(BatchPlugin):
    """Evicts pods of overloaded nodes while nodes with a low load have room for them."""

    name = "rescheduling"

    def on_session_open(self, session: Session) -> None:
        """Register the callback if the interval is over."""
        self._session = session
        self._thresholds = _thresholds(self._parameters())
        last = session.memory.setdefault(self.name, session.now - _STARTUP_SECONDS)
        if self._thresholds is None or session.now <= last + self._interval():
            return
        session.memory[self.name] = session.now
        if self.arguments.text("metricsPeriod", "5m") != MEASURED_PERIOD:
            session.warnings.append(
                f"plugin rescheduling: only averages of {MEASURED_PERIOD} are measured: set the argument metricsPeriod "
                f"to {MEASURED_PERIOD}, without which the plugin has no effect"
            )
            return
        session.add_victim_tasks(self._victims)

    def _interval(self) -> float:
        try:
            return parse_duration(self.arguments.text("interval")) / SECOND
        except DurationError:
            return _DEFAULT_SECONDS

    def _parameters(self) -> Mapping[str, Any] | None:
        """Return the parameters of the strategy, of which the last entry counts; None if others are configured only."""
        given = self.arguments.get("strategies")
        if not isinstance(given, list) or not given:
            return {}
        entries = [entry for entry in given if isinstance(entry, dict) and entry.get("name") == _STRATEGY]
        if not entries:
            return None
        parameters = entries[-1].get("params")
        return parameters if isinstance(parameters, dict) else {}

    def _victims(self, tasks: list[TaskInfo]) -> list[TaskInfo]:
        """Return the pods to evict: of the fullest nodes first, and of a node those of the lowest priority first."""
        assert self._thresholds is not None
        loads = list(self._loads())
        low = [load for load in loads if _is_low(load, self._thresholds.low)]
        chosen = {load.node.row for load in low}
        high = [load for load in loads if load.node.row not in chosen and _is_high(load, self._thresholds.target)]
        if not low or not high:
            return []
        room = _room(low, self._thresholds.target)
        movable = {task.uid for task in tasks}
        high.sort(key=lambda load: -sum(load.percent.values()))
        return [task for load in high for task in self._chosen(load, room, movable)]

    def _loads(self) -> Iterator[_Load]:
        """Yield the nodes with current measurements."""
        session = self._session
        for node in session.node_list:
            usage = session.usage.get(node.name)
            if usage is not None and session.now - usage.measured <= FRESH_SECONDS:
                yield _Load(node, {CPU: usage.cpu, MEMORY: usage.memory})

    def _chosen(self, load: _Load, room: dict[str, int], movable: set[str]) -> Iterator[TaskInfo]:
        """Yield pods of a node until its load is below the target or exactly no room is left, as in Volcano."""
        assert self._thresholds is not None
        target = self._thresholds.target
        capacity = _amounts(load.node.node.status.capacity)
        for task in sorted(load.node.tasks.values(), key=_rank):
            if all(load.percent[name] < target[name] for name in _RESOURCES) or not all(room.values()):
                return
            if task.uid not in movable:
                continue
            for name, used in ((CPU, int(task.request.cpu)), (MEMORY, int(task.request.memory))):
                room[name] -= used
                load.percent[name] -= used * 100 / capacity[name] if capacity[name] else 0.0
            yield task


def _thresholds(parameters: Mapping[str, Any] | None) -> _Thresholds | None:
    """Return the thresholds. As in Volcano, one that is not a mapping leaves the following ones at their defaults."""
    if parameters is None:
        return None
    found = _Thresholds(*(dict.fromkeys(_RESOURCES, _DEFAULT_PERCENT) for _ in range(2)))
    for key, percents in (("thresholds", found.low), ("targetThresholds", found.target)):
        given = parameters.get(key, {})
        if not isinstance(given, dict):
            break
        percents.update({name: float(given[name]) for name in _RESOURCES if _is_number(given.get(name))})
    return found


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _is_low(load: _Load, limits: Mapping[str, float]) -> bool:
    return not load.node.node.spec.unschedulable and all(load.percent[name] < limits[name] for name in _RESOURCES)


def _is_high(load: _Load, limits: Mapping[str, float]) -> bool:
    return any(load.percent[name] > limits[name] for name in _RESOURCES)


def _room(low: Iterable[_Load], target: Mapping[str, float]) -> dict[str, int]:
    """Return how much may move to the nodes with a low load before they reach the target: milli-CPU and bytes."""
    room = dict.fromkeys(_RESOURCES, 0)
    for load in low:
        status = load.node.node.status
        amounts = _amounts(status.allocatable or status.capacity)
        for name in _RESOURCES:
            room[name] += int(target[name] * float(amounts[name]) * 0.01)
            room[name] -= int(load.percent[name] * float(amounts[name]) * 0.01)
    return room


def _amounts(given: Mapping[str, Any]) -> dict[str, int]:
    """Return milli-CPU and bytes of memory; 0 for amounts that are missing or invalid."""
    try:
        return {CPU: milli_value(given.get(CPU, "0")), MEMORY: value(given.get(MEMORY, "0"))}
    except ValueError:
        return dict.fromkeys(_RESOURCES, 0)


def _rank(task: TaskInfo) -> tuple[bool, int, int]:
    priority = task.pod.spec.priority
    return priority is not None, priority or 0, _QOS[qos_class(task.pod)]
