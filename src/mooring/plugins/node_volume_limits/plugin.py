"""NodeVolumeLimits: limits the CSI volumes attached to a node, per driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.storage import CSIDriver, CSINode, VolumeAttachment
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
    Status,
    Verdicts,
    Victims,
    WhatIf,
)
from mooring.framework.status import SKIP_TEMPLATE
from mooring.plugins.node_volume_limits.attached_volumes import AttachedVolumes
from mooring.plugins.node_volume_limits.csi_volumes import CSIVolume, FaultyUseError
from mooring.plugins.volumes.csi_nodes import CSINodeColumns, volume_limits
from mooring.plugins.volumes.csi_translation import inline_driver
from mooring.plugins.volumes.pod_volumes import ClaimUse, InlineUse, Use, own_claim, summarise, volumes_of

Ints = npt.NDArray[np.int64]

TOO_MANY: Final = Status.unschedulable("node(s) exceed max volume count")
#: Verdict codes; higher codes stand for a fault of the pods on one node, by the node's position.
_TOO_MANY, _FAULT, _FAULT_WITH_CSI, _FAULTS_BY_PLACE = 1, 2, 3, 4


class NewVolumes(NamedTuple):
    """The volumes that a pod adds, or why they cannot be counted."""

    by_driver: dict[str, list[CSIVolume]]
    #: The error on any node, and the error on nodes that have a CSINode object.
    fault: Status | None
    fault_with_csi: Status | None
    #: The drivers of volumes that also count on nodes without a CSINode object.
    native: frozenset[str] = frozenset()


class NodeVolumeLimits(Plugin):
    """Rejects nodes where a CSI driver would have to attach more volumes than the CSINode object allows."""

    template_part = "constraints"

    def setup(self) -> None:
        """Index the attached volumes and the limits."""
        self._attached = AttachedVolumes(self.handle)
        self._nodes = CSINodeColumns(self.handle)
        self._requires_drivers = self.handle.release.enabled("VolumeLimitScaling")
        self._drivers = self.handle.lister(CSIDriver)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Skip pods without volumes that are attached."""
        return None if volumes_of(self.handle.template(pod)).attachable else SKIP_TEMPLATE

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Count the attached volumes and those that the pod adds, per driver."""
        if not pod.spec.volumes:
            return None
        self._attached.sync()
        self._nodes.sync()
        new = self._new_volumes(pod)
        found = self._filter_limits(new, nodes)
        missing = self._missing_drivers(new, nodes)
        return found if missing is None else missing.over(found)

    def _filter_limits(self, new: NewVolumes, nodes: Nodes) -> Verdicts | None:
        """Filter by faults and limits."""
        if new.fault is not None or new.fault_with_csi is not None:
            return self._faulty(new, nodes)
        if not new.by_driver or not self._nodes.limits:
            return None
        if isinstance(nodes, WhatIfNodes):
            status = self._filter_one(new, nodes[0])
            return Verdicts.of([status]) if status is not None else None
        rejected = None
        for driver in self._limited(new):
            present, added, limit = self._columns(driver, new, nodes)
            over = (added > 0) & (present + added > limit)
            rejected = over if rejected is None else rejected | over
        if self._attached.faults.total:
            return self._existing_faults(rejected, nodes)
        return Verdicts.reject(rejected, TOO_MANY) if rejected is not None and rejected.any() else None

    def _missing_drivers(self, new: NewVolumes, nodes: Nodes) -> MissingDrivers | None:
        """Find the nodes without a driver that the pod needs and that asks not to schedule pods there."""
        if not self._requires_drivers or not new.by_driver:
            return None
        names: list[str] = []
        codes: Ints = np.zeros(len(nodes), dtype=np.int64)
        exists = nodes.take(self._nodes.exists)
        for name in new.by_driver:
            driver = self._drivers.get(name)
            if driver is None or not driver.spec.prevent_pod_scheduling_if_missing:
                continue
            installed = self._nodes.installed.get(name)
            lacks = ~nodes.take(installed) if installed is not None else np.ones(len(nodes), dtype=np.bool_)
            if name not in new.native:
                lacks &= exists
            if new.fault_with_csi is not None:  # the fault of another volume counts first
                lacks &= ~exists
            names.append(name)
            codes[lacks & (codes == 0)] = len(names)
        return MissingDrivers(codes, names) if codes.any() else None

    def _new_volumes(self, pod: Pod) -> NewVolumes:
        found: dict[str, list[CSIVolume]] = {}
        native: set[str] = set()
        fault_with_csi: Status | None = None
        for use in volumes_of(self.handle.template(pod)).uses:
            try:
                missing = self._missing(pod, use)
                volume = self._attached.resolver.of_use(pod, use) if missing is None else None
            except FaultyUseError as error:
                missing, volume = Status.error(str(error)), None
            if missing is not None:
                fault_with_csi = fault_with_csi or missing
                if isinstance(use, InlineUse):  # without a CSINode object the volume is ignored
                    continue
                return NewVolumes({}, missing, fault_with_csi)
            if volume is not None:
                volumes = found.setdefault(volume.driver, [])
                if volume not in volumes:
                    volumes.append(volume)
                if self._requires_drivers and not self._attached.resolver.is_migrated(pod, use):
                    native.add(volume.driver)
        return NewVolumes(found, None, fault_with_csi, frozenset(native))

    def _missing(self, pod: Pod, use: Use) -> Status | None:
        if not isinstance(use, ClaimUse):
            return None
        name, namespace = use.claim_name(pod), pod.namespace
        if not name or self._attached.resolver.claim(namespace, name) is not None:
            return None
        return Status.unresolvable(f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found')

    def _limited(self, new: NewVolumes) -> dict[str, list[CSIVolume]]:
        """Return the pod's volumes of drivers that have a limit on some node."""
        return {driver: volumes for driver, volumes in new.by_driver.items() if driver in self._nodes.limits}

    def _columns(self, driver: str, new: NewVolumes, nodes: Nodes) -> DriverColumns:
        """Return the volumes of a driver on each node, those that the pod adds, and the limit.

        A volume that a pod on the node already uses is not added; one that is only attached there is.
        """
        size, volumes = len(nodes.table), new.by_driver[driver]
        counts = self._attached.counts.get(driver)
        present = nodes.take(counts.array(size)) if counts is not None else np.zeros(len(nodes), dtype=np.int64)
        added: Ints = np.full(len(nodes), len(volumes), dtype=np.int64)
        for volume in volumes:
            users = self._attached.pods_with(volume)
            if users is not None:
                added -= nodes.take(users.array(size)) > 0
        return DriverColumns(present, added, nodes.take(self._nodes.limits[driver]))

    # Faults

    def _faulty(self, new: NewVolumes, nodes: Nodes) -> Verdicts:
        statuses = {_FAULT: new.fault, _FAULT_WITH_CSI: new.fault_with_csi}
        has_csi = nodes.take(self._nodes.exists)
        codes = np.where(has_csi, _FAULT_WITH_CSI, _FAULT if new.fault is not None else 0)
        return Verdicts(codes, lambda code: statuses[code] or Status(), may_fail=True)

    def _existing_faults(self, rejected: npt.NDArray[np.bool_] | None, nodes: Nodes) -> Verdicts:
        """Convert rejections to errors where a pod on a node with limits has an invalid volume."""
        codes = np.zeros(len(nodes), dtype=np.int64) if rejected is None else rejected.astype(np.int64)
        broken = (nodes.take(self._attached.faults.array(len(nodes.table))) > 0) & nodes.take(self._nodes.limited)
        for place in np.flatnonzero(broken).tolist():
            codes[place] = _FAULTS_BY_PLACE + place

        def status(code: int) -> Status:
            return TOO_MANY if code == _TOO_MANY else self._fault_on(nodes[code - _FAULTS_BY_PLACE])

        return Verdicts(codes, status, may_fail=True)

    def _fault_on(self, node: NodeInfo) -> Status:
        found = self._volumes_on(node)
        return found if isinstance(found, Status) else Status()

    # One node

    def _volumes_on(self, node: NodeInfo) -> set[CSIVolume] | Status:
        """Return the volumes of the pods on a node."""
        found: set[CSIVolume] = set()
        try:
            for info in node.pods:
                uses = volumes_of(info.template).uses
                if uses:
                    found |= self._attached.resolver.of_pod(info.pod, uses)
        except FaultyUseError as error:
            return Status.error(str(error))
        return found

    def _filter_one(self, new: NewVolumes, node: NodeInfo) -> Status | None:
        """Filter one node, with its current or hypothetical pods."""
        csi_node = self.handle.lister(CSINode).get(node.name)
        limits = volume_limits(csi_node) if csi_node is not None else {}
        if not limits:
            return None
        present = self._volumes_on(node)
        if isinstance(present, Status):
            return present
        attached = present | self._attached.attachments.on_row(node.row)
        for driver, volumes in new.by_driver.items():
            more = sum(volume not in present for volume in volumes)
            count = sum(volume.driver == driver for volume in attached)
            if driver in limits and more and count + more > limits[driver]:
                return TOO_MANY
        return None

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Count volumes by driver, and those that only victims use."""
        nodes = victims.nodes
        verdicts = self.filter_nodes(state, pod, nodes)
        new = self._new_volumes(pod)
        if new.fault is not None or new.fault_with_csi is not None or not new.by_driver or not self._nodes.limits:
            return WhatIf.constant(verdicts, victims)
        limited = self._limited(new)
        columns = [self._columns(driver, new, nodes) for driver in limited]
        model = LimitsModel(self._attached, limited, columns, nodes.take(self._nodes.limited), victims)
        found = model.what_if(lambda candidate: self._fault_on(nodes[candidate]), TOO_MANY)
        missing = self._missing_drivers(new, nodes)
        if missing is None:
            return found
        return WhatIf(found.values, found.effects, lambda now: missing.over(found.verdicts(now)))

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for events that free a volume, raise a limit, or add a missing claim."""
        return [
            ClusterEvent("CSINode", ActionType.ADD),
            ClusterEvent("CSINode", ActionType.UPDATE, after_limits_changed),
            ClusterEvent("Pod", ActionType.DELETE, after_pod_deleted),
            ClusterEvent("PersistentVolumeClaim", ActionType.ADD, own_claim),
            ClusterEvent("VolumeAttachment", ActionType.DELETE, after_detached),
        ]


def after_limits_changed(_pod: Pod, old: CSINode, new: CSINode) -> Hint:
    """Queue if a driver's limit grew; no limit counts as 0 here."""
    before = volume_limits(old)
    grew = any(limit > before.get(driver, 0) for driver, limit in volume_limits(new).items())
    return Hint.QUEUE if grew else Hint.SKIP


def after_pod_deleted(_pod: Pod, old: Pod, _new: object) -> Hint:
    """Queue if the deleted pod had a node (or a nomination) and attached volumes."""
    placed = bool(old.node_name or old.status.nominated_node_name)
    return Hint.QUEUE if placed and summarise(old).attachable else Hint.SKIP


def after_detached(pod: Pod, old: VolumeAttachment, _new: object) -> Hint:
    """Queue if the pod has a claim, or a volume of the detached volume's driver."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None or inline_driver(volume) == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP


class MissingDrivers(NamedTuple):
    """Nodes without a driver: a code per node, which is the place in ``names`` plus 1, or 0."""

    codes: Ints
    names: list[str]

    def over(self, others: Verdicts | None) -> Verdicts:
        """Return these verdicts, and others where no driver is missing."""
        first = len(self.names)
        codes = self.codes
        if others is not None:
            codes = np.where(codes > 0, codes, np.where(others.codes > 0, others.codes + first, 0))

        def status(code: int) -> Status:
            if code <= first:
                return Status.unschedulable(f"{self.names[code - 1]} CSI driver is not installed on the node")
            assert others is not None  # it gave the code
            return others.status(code - first)

        return Verdicts(codes, status, may_fail=others is not None and others.may_fail)


#: Verdict codes: too many volumes, or (higher codes, by position) a pod with an invalid volume.
_FULL, _FAULTS = 1, 2


class DriverColumns(NamedTuple):
    """One driver on the candidate nodes: attached volumes, volumes that the pod adds, and the limit."""

    present: Ints
    added: Ints
    limit: Ints


class _Freed(NamedTuple):
    """A volume of a candidate that is freed when these victims are evicted: their positions, and uses by each."""

    candidate: int
    driver: int
    #: Freed volumes of the driver on the node, and volumes that the pod would then have to add.
    present: int
    added: int
    uses: dict[int, int]


class LimitsModel:
    """Converts the victims' uses to counters: volumes and new volumes by driver, faults, uses of shared volumes."""

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
        #: Nodes where a faulty pod is an error: those that have a limit.
        self._limited = limited
        self._freed = self._find_freed()
        self._shared = _slots([each for each in self._freed if len(each.uses) > 1])
        #: Offsets of the counters.
        self._added = len(columns)
        self._broken = 2 * len(columns)
        self._first_shared = self._broken + 1

    def what_if(self, fault_on: Callable[[int], Status], full: Status) -> WhatIf:
        """Return the model; ``fault_on`` returns the fault of a candidate's pods, ``full`` is a full node's status."""
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
        """Find the volumes that evictions free."""
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
                continue  # a remaining pod uses it too
            present = volume not in self._attached.attachments.on_row(row)
            added = volume in self._new[volume.driver]
            found.append(_Freed(candidate, self._drivers[volume.driver], int(present), int(added), uses))
        return found

    def _volumes(self, info: PodInfo, candidate: int, place: int) -> list[CSIVolume]:
        """Return the relevant volumes of a victim, one per use, and count faulty uses."""
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
    """Assign shared volumes to as few groups as possible, with at most one of each candidate per group."""
    groups: list[list[_Freed]] = []
    taken: dict[int, int] = {}
    for each in shared:
        number = taken.get(each.candidate, 0)
        taken[each.candidate] = number + 1
        if number == len(groups):
            groups.append([])
        groups[number].append(each)
    return groups
