"""VolumeRestrictions: pods that must not share a disk or a claim."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolumeClaim
from mooring.columns.counts import Counts
from mooring.columns.nodes import WhatIfNodes
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Hint,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    PodListener,
    StateKey,
    Status,
    Verdicts,
    Victims,
    WhatIf,
)
from mooring.framework.status import SKIP, SKIP_TEMPLATE
from mooring.plugins.volumes.pod_volumes import Disk, conflicts, own_named_claim, summarise, volumes_of

READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"

DISK_CONFLICT: Final = Status.unschedulable("node(s) had no available disk")

CLAIM_IN_USE: Final = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

NO_STATE: Final = Status.error('cannot read "PreFilterVolumeRestrictions" from cycleState')


class RestrictedClaims:
    """The pod's ReadWriteOncePod claims, and the number of conflicting uses by other pods."""

    __slots__ = ("names", "uses")

    def __init__(self, names: frozenset[str], uses: int) -> None:
        self.names = names
        self.uses = uses

    def clone(self) -> RestrictedClaims:
        """Return a copy for hypothetical changes."""
        return RestrictedClaims(self.names, self.uses)

    def uses_by(self, claims: tuple[str, ...]) -> int:
        """Count the claim names that are among these (upstream does not compare namespaces here)."""
        return sum(name in self.names for name in claims)


STATE: Final[StateKey[RestrictedClaims]] = StateKey("PreFilterVolumeRestrictions")


class VolumeRestrictions(Plugin):
    """Rejects nodes where another pod uses the pod's disk, and all nodes while another pod uses its claim."""

    template_part = "constraints"

    def setup(self) -> None:
        """Create the index of users."""
        self._claims = self.handle.lister(PersistentVolumeClaim)
        self._index = DiskIndex()
        self.handle.listen(self._index)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Count the uses of the pod's ReadWriteOncePod claims; skip pods without these and without disks."""
        volumes = volumes_of(self.handle.template(pod))
        if not volumes.claims and not volumes.names_disks:
            return SKIP_TEMPLATE
        namespace = pod.namespace
        names = set()
        for name in volumes.claims:
            claim = self._claims.get(name, namespace)
            if claim is None:
                return Status.unresolvable(f'persistentvolumeclaim "{name}" not found')
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                names.add(name)
        uses = sum(self._index.is_claim_used(namespace, name) for name in names)
        if not uses and not volumes.names_disks:
            return SKIP
        state.write(STATE, RestrictedClaims(frozenset(names), uses))
        return None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
        """Count a hypothetical pod."""
        return self._shift(state, added, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status | None:
        """Remove a hypothetical pod."""
        return self._shift(state, removed, -1)

    def _shift(self, state: CycleState, info: PodInfo, sign: int) -> Status | None:
        restricted = state.get(STATE)
        if restricted is None:
            return NO_STATE
        restricted.uses += sign * restricted.uses_by(volumes_of(info.template).claims)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Reject nodes with a conflicting disk, and all nodes if a claim is in use."""
        disks = volumes_of(self.handle.template(pod)).disks
        if isinstance(nodes, WhatIfNodes):
            taken = any(conflicts(disks, volumes_of(info.template).disks) for info in nodes[0].pods)
            clashes = np.array([taken])
        else:
            counts = self._index.conflicts(disks, len(nodes.table)) if disks else None
            clashes = np.zeros(len(nodes), dtype=np.bool_) if counts is None else nodes.take(counts) > 0
        restricted = state.get(STATE)
        rest = NO_STATE if restricted is None else CLAIM_IN_USE if restricted.uses > 0 else None
        if rest is None:
            return Verdicts.reject(clashes, DISK_CONFLICT) if clashes.any() else None
        return Verdicts(2 - clashes.astype(np.int8), lambda code: DISK_CONFLICT if code == 1 else rest)

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a model with two counters: conflicts of disks on the node, and uses of the claims."""
        disks = volumes_of(self.handle.template(pod)).disks
        restricted = state.read(STATE)
        nodes = victims.nodes
        values = np.zeros((2, len(nodes)), dtype=np.int64)
        counts = self._index.conflicts(disks, len(nodes.table))
        if counts is not None:
            values[0] = nodes.take(counts)
        values[1] = restricted.uses
        effects = np.stack(
            [
                victims.by_template(lambda template: conflicts(disks, volumes_of(template).disks)),
                victims.by_template(lambda template: restricted.uses_by(volumes_of(template).claims)),
            ]
        )
        return WhatIf(
            values, effects, lambda now: Verdicts.first([(now[0] > 0, DISK_CONFLICT), (now[1] > 0, CLAIM_IN_USE)])
        )

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for events that end a conflict or add a missing claim."""
        return [
            ClusterEvent("Pod", ActionType.DELETE, after_pod_deleted),
            ClusterEvent("Node", ActionType.ADD),
            ClusterEvent("PersistentVolumeClaim", ActionType.ADD, own_named_claim),
        ]


def after_pod_deleted(pod: Pod, old: Pod, _new: object) -> Hint:
    """Queue if the deleted pod used one of the pod's disks or claims."""
    if old.namespace != pod.namespace:
        return Hint.SKIP
    mine, theirs = summarise(pod), summarise(old)
    shares = conflicts(mine.disks, theirs.disks) or not set(mine.claims).isdisjoint(theirs.claims)
    return Hint.QUEUE if shares else Hint.SKIP


Ints = npt.NDArray[np.int64]

_Identity = tuple[str, ...]


class DiskIndex(PodListener):
    """Users of disks by row, and users of claims in the cluster."""

    volumes_only = True

    def __init__(self) -> None:
        #: (read-write users, read-only users) by disk.
        self._disks: dict[_Identity, tuple[Counts, Counts]] = {}
        self._claims: dict[tuple[str, str], int] = {}

    def pod_added(self, info: PodInfo, row: int) -> None:
        """Count the disks and claims of a pod that was added to a row."""
        self._count(info, row, 1)

    def pod_removed(self, info: PodInfo, row: int) -> None:
        """Remove the disks and claims of a pod that was removed from a row."""
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
        """Return whether a placed pod uses a claim."""
        return (namespace, name) in self._claims

    def conflicts(self, disks: tuple[Disk, ...], size: int) -> Ints | None:
        """Count the conflicts of the pods on each row with a pod that uses these disks; None if there are none."""
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
