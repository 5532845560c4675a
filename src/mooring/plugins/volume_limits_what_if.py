"""What the volume limits would say if some pods were gone, for many nodes at once.

Removing a pod frees the volumes that no other pod on its node uses. Where a volume has a single user that is a plain
subtraction; a volume that several possible victims share gets a counter of its own and is free when that reaches 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.framework import PodInfo, Status, Verdicts, Victims, WhatIf
from mooring.plugins.attached_volumes import AttachedVolumes
from mooring.plugins.csi_volumes import CSIVolume, FaultyUseError
from mooring.plugins.pod_volumes import volumes_of

Ints = npt.NDArray[np.int64]


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
    """Collects what victims use, and lays it out as counters."""

    def __init__(self, attached: AttachedVolumes, new: dict[str, list[CSIVolume]], victims: Victims) -> None:
        self._attached = attached
        self._new = new
        self._drivers = {driver: number for number, driver in enumerate(new)}
        self._victims = victims
        self._faults: Ints = np.zeros(victims.index.shape, dtype=np.int64)

    def what_if(
        self,
        columns: list[DriverColumns],
        limited: npt.NDArray[np.bool_],
        fault_on: Callable[[int], Status],
        full: Status,
    ) -> WhatIf:
        """The model; ``limited`` marks the nodes where a faulty pod is an error, ``fault_on`` says which by place."""
        freed = self._freed()
        shared = _slots([each for each in freed if len(each.uses) > 1])
        drivers, (candidates, width) = len(columns), self._victims.index.shape
        # Counters: present by driver, added by driver, faults, then uses of shared volumes.
        values = np.ones((2 * drivers + 1 + len(shared), candidates), dtype=np.int64)
        effects = np.zeros((*values.shape, width), dtype=np.int64)
        for number, column in enumerate(columns):
            values[number], values[drivers + number] = column.present, column.added
        faults = self._victims.nodes.take(self._attached.faults.array(len(self._victims.nodes.table)))
        values[2 * drivers], effects[2 * drivers] = faults * limited, self._faults * limited[:, None]
        for each in freed:
            if len(each.uses) == 1:
                place = next(iter(each.uses))
                effects[each.driver, each.candidate, place] += each.present
                effects[drivers + each.driver, each.candidate, place] -= each.added
        for slot, group in enumerate(shared, start=2 * drivers + 1):
            for each in group:
                values[slot, each.candidate] = sum(each.uses.values())
                for place, uses in each.uses.items():
                    effects[slot, each.candidate, place] = uses

        def verdicts(now: Ints) -> Verdicts:
            present, added = now[:drivers].copy(), now[drivers : 2 * drivers].copy()
            for slot, group in enumerate(shared, start=2 * drivers + 1):
                for each in group:
                    if not now[slot, each.candidate]:
                        present[each.driver, each.candidate] -= each.present
                        added[each.driver, each.candidate] += each.added
            codes = np.zeros(candidates, dtype=np.int64)
            for number, column in enumerate(columns):
                codes[(added[number] > 0) & (present[number] + added[number] > column.limit)] = 1
            broken = np.flatnonzero(now[2 * drivers] > 0)
            codes[broken] = broken + 2
            return Verdicts(codes, lambda code: full if code == 1 else fault_on(code - 2))

        return WhatIf(values, effects, verdicts)

    def _freed(self) -> list[_Freed]:
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
