"""VolumeBinding: filters nodes by a pod's volumes, reserves volumes and binds them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Hint,
    Nodes,
    Plugin,
    StateKey,
    Status,
    Verdicts,
    Victims,
    WhatIf,
    depends_on,
)
from mooring.framework.api_clients import VolumeWriter
from mooring.framework.status import SKIP, SKIP_TEMPLATE
from mooring.plugins.shape_score import ShapePoint
from mooring.plugins.volume_binding.assume_cache import AssumeCache, AssumeError
from mooring.plugins.volume_binding.claims import ClaimSorter, PodClaims
from mooring.plugins.volume_binding.filtering import CONFLICT, FIRST_ERROR, MISSING, BoundClaims, WaitingClaims, rows_of
from mooring.plugins.volume_binding.matching import MatchError
from mooring.plugins.volume_binding.provisioning import NO_SPACE, NO_VOLUME, volume_limit
from mooring.plugins.volume_binding.scoring import StorageScorer
from mooring.plugins.volume_binding.volume_binder import Assumptions, BindingError, PodVolumes, VolumeBinder
from mooring.plugins.volume_binding.volume_index import VolumeIndex
from mooring.plugins.volumes.csi_nodes import MIGRATED_PLUGINS, CSINodeColumns
from mooring.plugins.volumes.pod_volumes import own_claim, volumes_of

# In the order in which kube-scheduler reports them.
REASON_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"

REASON_NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"

REASON_NO_SPACE: Final = "node(s) did not have enough free storage"

REASON_MISSING: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

Ints = npt.NDArray[np.int64]

#: The default shape of the scores.
_EMPTIER_IS_BETTER: Final = (ShapePoint(utilization=0, score=10), ShapePoint(utilization=100, score=0))
_NOT_FOUND: Final = Status.error("not found")
#: A code is that of bound claims plus this factor times that of unbound ones; errors follow.
_WAITING, _ERRORS = 3, 9


class BindingState:
    """The volumes of a pod in one attempt. Clones share it: it does not depend on other pods."""

    __slots__ = ("all_bound", "claims", "filtered", "volumes")

    def __init__(self, claims: PodClaims) -> None:
        self.claims = claims
        #: Whether Filter evaluated them.
        self.filtered = False
        #: The assumptions of Reserve, by node.
        self.volumes: dict[str, PodVolumes] = {}
        self.all_bound = False


STATE: Final[StateKey[BindingState]] = StateKey("VolumeBinding")


class VolumeBindingArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The bind timeout, and the scores by utilization, which need the feature gate StorageCapacityScoring."""

    bind_timeout_seconds: int = 600
    shape: tuple[ShapePoint, ...] | None = None


class VolumeBinding(Plugin[VolumeBindingArgs]):
    """Matches a pod's claims with volumes, or with nodes where they can be provisioned, and binds them."""

    template_part = "constraints"
    zero_if_skipped = True

    def setup(self) -> None:
        """Index the volumes and claims."""
        handle = self.handle
        self._index = VolumeIndex()
        self._volumes: AssumeCache[PersistentVolume] = AssumeCache(
            handle.lister(PersistentVolume), "persistentvolumes", self._volume_changed
        )
        for volume in handle.lister(PersistentVolume).list():
            self._index.set(volume.name, volume)
        stored = handle.lister(PersistentVolumeClaim)
        claims: AssumeCache[PersistentVolumeClaim] = AssumeCache(stored, "persistentvolumeclaims")
        self._claims = ClaimSorter(stored, claims, handle.lister(StorageClass))
        self._bound = BoundClaims(self._volumes, CSINodeColumns(handle))
        self._waiting = WaitingClaims(self._index, handle)
        self._assumptions = Assumptions(self._volumes, claims)
        self._binder = VolumeBinder(handle, self._assumptions)
        scores = handle.release.enabled("StorageCapacityScoring")
        self._scorer = StorageScorer(self.args.shape or _EMPTIER_IS_BETTER) if scores else None

    def _volume_changed(self, name: str, _namespace: str) -> None:
        self._index.set(name, self._volumes.get(name))

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Find the pod's claims; skip pods without any, reject pods with invalid ones."""
        summary = volumes_of(self.handle.template(pod))
        if not summary.claimed:
            return SKIP_TEMPLATE
        fault = self._claims.check(pod, summary.uses)
        if fault is not None:
            return Status.unresolvable(fault)
        claims = self._claims.sort(pod, summary.uses)
        if isinstance(claims, Status):
            return claims
        state.write(STATE, BindingState(claims))
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Require that bound volumes are usable, and that unbound claims can be matched or provisioned."""
        known = state.get(STATE)
        if known is None:  # PreFilter is not in the profile
            return Verdicts.reject(np.ones(len(nodes), dtype=np.bool_), _NOT_FOUND)
        claims = known.claims
        known.filtered = True
        bound, errors = self._bound.check(claims.bound, nodes)
        codes = None if bound is None else bound.astype(np.int64)
        if codes is not None and errors:
            codes[codes >= FIRST_ERROR] += _ERRORS - FIRST_ERROR
        waiting = self._check_waiting(claims.waiting, nodes, errors) if claims.waiting else None
        if waiting is not None:
            codes = waiting if codes is None else _combined(codes, waiting)
        return None if codes is None else Verdicts(codes, lambda code: _status(code, errors), may_fail=bool(errors))

    def _check_waiting(
        self, claims: list[PersistentVolumeClaim], nodes: Nodes, errors: list[str]
    ) -> npt.NDArray[np.int64] | None:
        """Return the codes for unbound claims; None if all nodes succeed."""
        places = self._waiting.candidates(claims, nodes)
        candidates = nodes if places is None else Nodes(nodes.table, rows_of(nodes)[places])
        try:
            found = self._waiting.check(claims, candidates).astype(np.int64) * _WAITING
        except MatchError as error:
            found = np.full(len(candidates), _ERRORS + len(errors), dtype=np.int64)
            errors.append(str(error))
        if places is None:
            return found if found.any() else None
        codes = np.full(len(nodes), NO_VOLUME * _WAITING, dtype=np.int64)
        codes[places] = found
        return codes

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a constant model: the result does not depend on other pods."""
        return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)

    @depends_on("template")
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Skip without the feature gate StorageCapacityScoring. With it, pods without claims have scores too: 0."""
        if self._scorer is None:
            return SKIP_TEMPLATE
        return None if state.get(STATE) is not None or self.name in state.skip_filter else _NOT_FOUND

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Score nodes by the utilization of the storage that the pod's unbound claims request."""
        known = state.get(STATE)
        if self._scorer is None or known is None or not known.filtered or not known.claims.waiting:
            return 0
        return self._waiting.scores(known.claims.waiting, nodes, self._scorer)

    # Reserve and PreBind

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Assume that the volumes chosen for the node are bound to the pod's claims."""
        known = state.get(STATE)
        if known is None:
            return self._without_state(pod)
        row = self.handle.table.row_of.get(node_name)
        claims = known.claims
        if not known.filtered or not claims.waiting or row is None:
            known.all_bound = True
            return None
        try:
            choice = self._waiting.choose(claims.waiting, Nodes(self.handle.table, np.array([row], dtype=np.intp)))
            known.volumes[node_name] = self._assumptions.assume(choice.pairs, choice.to_make, node_name)
        except (AssumeError, MatchError) as error:
            return Status.error(str(error))
        known.all_bound = False
        return None

    def _without_state(self, pod: Pod) -> Status | None:
        """Handle missing PreFilter state: valid for a pod without claims, otherwise an error."""
        return _NOT_FOUND if volumes_of(self.handle.template(pod)).claimed else None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo the assumptions."""
        known = state.get(STATE)
        volumes = known.volumes.get(node_name) if known is not None else None
        if volumes is not None:
            self._assumptions.revert(volumes)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return whether there is something to bind."""
        known = state.get(STATE)
        if known is None:
            return self._without_state(pod) or SKIP
        if known.all_bound:
            return SKIP
        return None if node_name in known.volumes else _no_volumes(node_name)

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Awaitable[Status | None] | None:
        """Write the bindings and wait until they are complete; without a cluster they stay assumed."""
        known = state.get(STATE)
        if known is None:
            return self._without_state(pod)
        if known.all_bound:
            return None
        volumes = known.volumes.get(node_name)
        if volumes is None:
            return _no_volumes(node_name)
        writer = self.handle.volumes
        return None if writer is None else self._bind(writer, pod, node_name, volumes)

    async def _bind(self, writer: VolumeWriter, pod: Pod, node_name: str, volumes: PodVolumes) -> Status | None:
        try:
            await self._binder.bind(writer, pod, node_name, volumes, self.args.bind_timeout_seconds)
        except BindingError as error:
            return Status.error(str(error))
        return None

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for events that may add a volume, a claim, capacity or a matching node."""
        change = ActionType.ADD | ActionType.UPDATE
        return [
            ClusterEvent("StorageClass", change, after_class_changed),
            ClusterEvent("PersistentVolumeClaim", change, own_claim),
            ClusterEvent("PersistentVolume", change),
            ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            ClusterEvent("CSINode", change, after_csi_node_changed),
            ClusterEvent("CSIDriver", ActionType.UPDATE, after_driver_changed),
            ClusterEvent("CSIStorageCapacity", change, after_capacity_changed),
        ]


def _combined(bound: npt.NDArray[np.int64], waiting: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Combine both results; an error replaces them, and one about bound claims takes precedence."""
    return np.where(bound >= _ERRORS, bound, np.where(waiting >= _ERRORS, waiting, bound + waiting))


def _no_volumes(node_name: str) -> Status:
    return Status.error(f'no pod volume found for node "{node_name}"')


def _status(code: int, errors: list[str]) -> Status:
    if code >= _ERRORS:
        return Status.error(errors[code - _ERRORS])
    waiting, bound = divmod(code, _WAITING)
    said = (
        (bound == CONFLICT, REASON_CONFLICT),
        (waiting == NO_VOLUME, REASON_NO_VOLUME),
        (waiting == NO_SPACE, REASON_NO_SPACE),
        (bound == MISSING, REASON_MISSING),
    )
    return Status.unresolvable(*(reason for holds, reason in said if holds))


def after_class_changed(_pod: Pod, old: StorageClass | None, new: StorageClass) -> Hint:
    """Queue for a new class, or one whose allowed topologies changed."""
    return Hint.QUEUE if old is None or old.allowed_topologies != new.allowed_topologies else Hint.SKIP


def after_csi_node_changed(_pod: Pod, old: CSINode | None, new: CSINode) -> Hint:
    """Queue for a new CSINode, or one whose migrated plugins changed."""
    if old is None or old.annotations.get(MIGRATED_PLUGINS, "") != new.annotations.get(MIGRATED_PLUGINS, ""):
        return Hint.QUEUE
    return Hint.SKIP


def after_driver_changed(pod: Pod, old: CSIDriver, new: CSIDriver) -> Hint:
    """Queue if a driver that the pod names no longer reports storage capacity."""
    names_it = any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)
    return Hint.QUEUE if names_it and old.spec.storage_capacity and not new.spec.storage_capacity else Hint.SKIP


def after_capacity_changed(_pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> Hint:
    """Queue for a new capacity, or one that grew."""
    if old is None:
        return Hint.QUEUE
    before, now = volume_limit(old), volume_limit(new)
    return Hint.QUEUE if now is not None and (before is None or now > before) else Hint.SKIP
