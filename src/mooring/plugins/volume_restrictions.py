"""VolumeRestrictions: pods that must not share a disk or a claim do not share it."""

from __future__ import annotations

from typing import Final

import numpy as np

from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolumeClaim
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
    StateKey,
    Status,
    Verdicts,
    Victims,
    WhatIf,
)
from mooring.framework.status import SKIP, SKIP_TEMPLATE
from mooring.plugins.disk_index import DiskIndex
from mooring.plugins.pod_volumes import conflicts, summarise, volumes_of
from mooring.plugins.volume_hints import own_named_claim

READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"

DISK_CONFLICT: Final = Status.unschedulable("node(s) had no available disk")
CLAIM_IN_USE: Final = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
NO_STATE: Final = Status.error('cannot read "PreFilterVolumeRestrictions" from cycleState')


class RestrictedClaims:
    """The pod's claims that one pod at a time may use, and how many uses by others stand in the way."""

    __slots__ = ("names", "uses")

    def __init__(self, names: frozenset[str], uses: int) -> None:
        self.names = names
        self.uses = uses

    def clone(self) -> RestrictedClaims:
        """A copy for hypothetical changes."""
        return RestrictedClaims(self.names, self.uses)

    def uses_by(self, claims: tuple[str, ...]) -> int:
        """How many of some claim names are among these (upstream does not compare namespaces here)."""
        return sum(name in self.names for name in claims)


STATE: Final[StateKey[RestrictedClaims]] = StateKey("PreFilterVolumeRestrictions")


class VolumeRestrictions(Plugin):
    """Keeps a pod off nodes where another pod has its disk, and off all of them while another has its claim."""

    def setup(self) -> None:
        """Index who uses what."""
        self._claims = self.handle.lister(PersistentVolumeClaim)
        self._index = DiskIndex()
        self.handle.listen(self._index)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Count the uses of the pod's ReadWriteOncePod claims; nothing to do without any, and without disks."""
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
        """A pod more that may use the claims."""
        return self._shift(state, added, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status | None:
        """A pod less that may use the claims."""
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
        """Two counters: conflicts of disks on the node, and uses of the claims."""
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
        """What can end a conflict, or bring the claim that was missing."""
        return [
            ClusterEvent("Pod", ActionType.DELETE, after_pod_deleted),
            ClusterEvent("Node", ActionType.ADD),
            ClusterEvent("PersistentVolumeClaim", ActionType.ADD, own_named_claim),
        ]


def after_pod_deleted(pod: Pod, old: Pod, _new: object) -> Hint:
    """Queue if the pod that went had one of the pod's disks or claims."""
    if old.namespace != pod.namespace:
        return Hint.SKIP
    mine, theirs = summarise(pod), summarise(old)
    shares = conflicts(mine.disks, theirs.disks) or not set(mine.claims).isdisjoint(theirs.claims)
    return Hint.QUEUE if shares else Hint.SKIP
