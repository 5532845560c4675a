"""PodColumns: row, priority, start time, template and requests of placed pods in columns, for preemption."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.meta import parse_time
from mooring.api.pod import Pod
from mooring.columns.node_info import PodInfo, assign
from mooring.columns.templates import PodTemplate

_PODS = 256
#: Times as API servers write them.
_USUAL = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)+")
_USUAL_LENGTH = len("2026-01-31T12:00:00Z")


class TemplatePods(NamedTuple):
    """Pods of one template that are added together, with their rows and start times."""

    infos: list[PodInfo]
    rows: list[int]
    starts: list[float]


class PodColumns:
    """One entry per placed pod. Entries are dense: removing one moves the last into its place."""

    def __init__(self, slots: int) -> None:
        self.infos: list[PodInfo] = []
        self.rows: npt.NDArray[np.int32] = np.zeros(_PODS, dtype=np.int32)
        self.priorities: npt.NDArray[np.int64] = np.zeros(_PODS, dtype=np.int64)
        #: Seconds since the epoch; infinity if a pod has not started.
        self.starts: npt.NDArray[np.float64] = np.zeros(_PODS, dtype=np.float64)
        #: The numbers of the pods' templates.
        self.templates: npt.NDArray[np.int64] = np.zeros(_PODS, dtype=np.int64)
        #: The requests by slot; all 0 beyond the last entry.
        self.amounts: npt.NDArray[np.int64] = np.zeros((_PODS, slots), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.infos)

    def add(self, info: PodInfo, row: int) -> None:
        """Add a pod."""
        index = len(self.infos)
        if index >= len(self.rows):
            self._grow()
        pod = info.pod
        assign(info, "index", index)
        self.infos.append(info)
        template, start, amounts = info.template, pod.status.start_time, self.amounts
        self.rows[index] = row
        self.priorities[index] = pod.spec.priority or 0
        self.starts[index] = parse_time(start) if start else math.inf
        self.templates[index] = template.number
        for slot, amount in template.scalars.items():
            amounts[index, slot] = amount

    def add_all(self, groups: Mapping[PodTemplate, TemplatePods]) -> None:
        """Add pods by template."""
        first = len(self.infos)
        numbers: list[int] = []
        columns: dict[int, tuple[list[int], list[int]]] = {}
        for template, group in groups.items():
            count = len(group.infos)
            begin = first + len(numbers)
            numbers += itertools.repeat(template.number, count)
            for slot, amount in template.scalars.items():
                column = columns.setdefault(slot, ([], []))
                column[0].extend(range(begin, begin + count))
                column[1].extend(itertools.repeat(amount, count))
        infos = [info for group in groups.values() for info in group.infos]
        last = first + len(infos)
        while last > len(self.rows):
            self._grow()
        for index, info in enumerate(infos, first):
            assign(info, "index", index)
        self.infos += infos
        self.rows[first:last] = [row for group in groups.values() for row in group.rows]
        self.priorities[first:last] = [info.pod.spec.priority or 0 for info in infos]
        self.starts[first:last] = [start for group in groups.values() for start in group.starts]
        self.templates[first:last] = numbers
        for slot, (indexes, amounts) in columns.items():
            self.amounts[indexes, slot] = amounts

    def update(self, info: PodInfo) -> None:
        """Update the start time and template of a pod whose requests are the same."""
        index, start = info.index, info.pod.status.start_time
        self.starts[index] = parse_time(start) if start else math.inf
        self.templates[index] = info.template.number

    def remove(self, info: PodInfo) -> None:
        """Remove a pod."""
        index, last = info.index, len(self.infos) - 1
        mover = self.infos.pop()
        assign(info, "index", -1)
        if index != last:
            self.infos[index] = mover
            assign(mover, "index", index)
            self.rows[index] = self.rows[last]
            self.priorities[index] = self.priorities[last]
            self.starts[index] = self.starts[last]
            self.templates[index] = self.templates[last]
            self.amounts[index] = self.amounts[last]
        self.amounts[last] = 0

    def _grow(self) -> None:
        size = 2 * len(self.rows)
        for name in ("rows", "priorities", "starts", "templates", "amounts"):
            column = getattr(self, name)
            bigger = np.zeros((size, *column.shape[1:]), dtype=column.dtype)
            bigger[: len(column)] = column
            setattr(self, name, bigger)

    def grow_slots(self, slots: int) -> None:
        """Extend the columns to more resources."""
        bigger = np.zeros((len(self.amounts), slots), dtype=np.int64)
        bigger[:, : self.amounts.shape[1]] = self.amounts
        self.amounts = bigger


def starts_of(pods: Sequence[Pod]) -> list[float]:
    """Return the start times of pods. Raises ValueError if one is invalid."""
    times = [pod.status.start_time or "" for pod in pods]
    if _USUAL.fullmatch("".join(times)) is not None and set(map(len, times)) == {_USUAL_LENGTH}:
        with contextlib.suppress(ValueError):  # an invalid time is reported below
            moments = np.array([time[:-1] for time in times], dtype="datetime64[s]")
            found: list[float] = moments.astype(np.int64).astype(np.float64).tolist()
            return found
    return list(map(start_of, pods))


def start_of(pod: Pod) -> float:
    """Return the start time of a pod; infinity if it has not started."""
    start = pod.status.start_time
    return parse_time(start) if start else math.inf
