"""Which rows have pods that use a disk or a claim, kept current as pods come and go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.columns.counts import Counts
from mooring.framework import PodInfo, PodListener
from mooring.plugins.pod_volumes import Disk, volumes_of

Ints = npt.NDArray[np.int64]
_Identity = tuple[str, ...]


class DiskIndex(PodListener):
    """Users of disks by row, and users of claims in the whole cluster."""

    volumes_only = True

    def __init__(self) -> None:
        #: (read-write users, read-only users) by disk.
        self._disks: dict[_Identity, tuple[Counts, Counts]] = {}
        self._claims: dict[tuple[str, str], int] = {}

    def pod_added(self, info: PodInfo, row: int) -> None:
        """A pod is on a row now."""
        self._count(info, row, 1)

    def pod_removed(self, info: PodInfo, row: int) -> None:
        """A pod is no longer on a row."""
        self._count(info, row, -1)

    def _count(self, info: PodInfo, row: int, delta: int) -> None:
        volumes = volumes_of(info.template)
        for name in volumes.claims:
            key = (info.template.namespace, name)
            users = self._claims.get(key, 0) + delta
            if users:
                self._claims[key] = users
            else:
                del self._claims[key]
        for disk in volumes.disks:
            users_of = self._disks.get(disk.identity)
            if users_of is None:
                users_of = self._disks[disk.identity] = (Counts(), Counts())
            users_of[disk.read_only].add(row, delta)
            if not users_of[0].total and not users_of[1].total:
                del self._disks[disk.identity]

    def is_claim_used(self, namespace: str, name: str) -> bool:
        """Whether a placed pod uses a claim."""
        return (namespace, name) in self._claims

    def conflicts(self, disks: tuple[Disk, ...], size: int) -> Ints | None:
        """In how many ways the pods on each row are in the way of a pod that uses these disks; None if nowhere."""
        found: Ints | None = None
        for disk in disks:
            users = self._disks.get(disk.identity)
            if users is None:
                continue
            for counts in users[:1] if disk.read_only else users:
                if counts.total:
                    column = counts.array(size)
                    found = column if found is None else found + column
        return found
