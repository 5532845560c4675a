"""What the volume limits would say if some pods were gone, for many nodes at once.

Removing a pod frees the volumes that no other pod on its node uses. Where a volume has a single user that is a plain
subtraction; a volume that several possible victims share gets a counter of its own and is free when that reaches 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.framework import PodInfo, Status, Verdicts, Victims, WhatIf
from mooring.plugins.attached_volumes import AttachedVolumes
from mooring.plugins.csi_volumes import CSIVolume, FaultyUseError
from mooring.plugins.pod_volumes import volumes_of

Ints = npt.NDArray[np.int64]

#: Verdict codes: too many volumes, or (from there on, by place) a pod whose volumes make no sense.
_FULL, _FAULTS = 1, 2


class DriverColumns(NamedTuple):
    """One driver, for the candidate nodes: volumes there, volumes that the pod adds, and how many there may be."""

    present: Ints
    added: Ints
    limit: Ints


class _Freed(NamedTuple):
    """A volume of a candidate that is freed when these victims go: their places, and uses by each."""

    candidate: int
    driver: int
    #: What is freed: volumes of the driver on the node, and volumes that the pod would then add anew.
    present: int
    added: int
    uses: dict[int, int]


class LimitsModel:
    """Lays out what victims use as counters: volumes and new volumes by driver, faults, then uses of shared volumes."""

    def __init__(
        self,
        attached: AttachedVolumes,
        new: dict[str, list[CSIVolume]],
        columns: list[DriverColumns],
        limited: npt.NDArray[np.bool_],
        victims: Victims,
    ) -> None:
        self._attached = attached
        self._new = new
        self._columns = columns
        self._drivers = {driver: number for number, driver in enumerate(new)}
        self._victims = victims
        self._faults: Ints = np.zeros(victims.index.shape, dtype=np.int64)
        #: Nodes where a faulty pod is an error: those that have a limit at all.
        self._limited = limited
        self._freed = self._find_freed()
        self._shared = _slots([each for each in self._freed if len(each.uses) > 1])
        #: Where the counters begin.
        self._added = len(columns)
        self._broken = 2 * len(columns)
        self._first_shared = self._broken + 1

    def what_if(self, fault_on: Callable[[int], Status], full: Status) -> WhatIf:
        """The model; ``fault_on`` says what is wrong with the pods of a candidate, ``full`` that it is full."""
        victims = self._victims
        candidates, width = victims.index.shape
        values = np.ones((self._first_shared + len(self._shared), candidates), dtype=np.int64)
        effects = np.zeros((*values.shape, width), dtype=np.int64)
        for number, column in enumerate(self._columns):
            values[number], values[self._added + number] = column.present, column.added
        faults = victims.nodes.take(self._attached.faults.array(len(victims.nodes.table)))
        values[self._broken], effects[self._broken] = faults * self._limited, self._faults * self._limited[:, None]
        for each in self._freed:
            if len(each.uses) == 1:
                place = next(iter(each.uses))
                effects[each.driver, each.candidate, place] += each.present
                effects[self._added + each.driver, each.candidate, place] -= each.added
        for slot, each in self._in_slots():
            values[slot, each.candidate] = sum(each.uses.values())
            for place, uses in each.uses.items():
                effects[slot, each.candidate, place] = uses
        return WhatIf(values, effects, lambda now: self._verdicts(now, fault_on, full))

    def _in_slots(self) -> Iterator[tuple[int, _Freed]]:
        return ((slot, each) for slot, group in enumerate(self._shared, self._first_shared) for each in group)

    def _verdicts(self, now: Ints, fault_on: Callable[[int], Status], full: Status) -> Verdicts:
        present, added = now[: self._added].copy(), now[self._added : self._broken].copy()
        for slot, each in self._in_slots():
            if not now[slot, each.candidate]:
                present[each.driver, each.candidate] -= each.present
                added[each.driver, each.candidate] += each.added
        codes = np.zeros(now.shape[1], dtype=np.int64)
        for number, column in enumerate(self._columns):
            codes[(added[number] > 0) & (present[number] + added[number] > column.limit)] = _FULL
        broken = np.flatnonzero(now[self._broken] > 0)
        codes[broken] = broken + _FAULTS
        return Verdicts(codes, lambda code: full if code == _FULL else fault_on(code - _FAULTS), may_fail=True)

    def _find_freed(self) -> list[_Freed]:
        """The volumes that go if some victims go."""
        victims = self._victims
        with_volumes = victims.by_template(lambda template: bool(volumes_of(template).uses))
        used: dict[tuple[int, CSIVolume], dict[int, int]] = {}
        for candidate, place in zip(*(axis.tolist() for axis in np.nonzero(with_volumes)), strict=True):
            for volume in self._volumes(victims.info(candidate, place), candidate, place):
                uses = used.setdefault((candidate, volume), {})
                uses[place] = uses.get(place, 0) + 1
        found = []
        for (candidate, volume), uses in used.items():
            row = victims.nodes[candidate].row
            users = self._attached.pods_with(volume)
            if users is None or users.get(row) != sum(uses.values()):
                continue  # somebody who stays uses it as well
            present = volume not in self._attached.attachments.on_row(row)
            added = volume in self._new[volume.driver]
            found.append(_Freed(candidate, self._drivers[volume.driver], int(present), int(added), uses))
        return found

    def _volumes(self, info: PodInfo, candidate: int, place: int) -> list[CSIVolume]:
        """The volumes of a victim that matter, one for each use; faulty uses are counted on the way."""
        found = []
        for use in volumes_of(info.template).uses:
            try:
                volume = self._attached.resolver.of_use(info.pod, use)
            except FaultyUseError:
                self._faults[candidate, place] += 1
                continue
            if volume is not None and volume.driver in self._drivers:
                found.append(volume)
        return found


def _slots(shared: list[_Freed]) -> list[list[_Freed]]:
    """Shared volumes in as few groups as possible, with at most one of each candidate in a group."""
    groups: list[list[_Freed]] = []
    taken: dict[int, int] = {}
    for each in shared:
        number = taken.get(each.candidate, 0)
        taken[each.candidate] = number + 1
        if number == len(groups):
            groups.append([])
        groups[number].append(each)
    return groups
