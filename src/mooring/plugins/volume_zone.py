"""VolumeZone: nodes must match the zone and region labels of a pod's volumes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.label_selectors import IN, Requirement
from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
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
)
from mooring.framework.status import SKIP, SKIP_TEMPLATE
from mooring.plugins.volumes.csi_translation import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from mooring.plugins.volumes.pod_volumes import WAIT_FOR_CONSUMER, claim_class, own_named_claim, volumes_of

Mask = npt.NDArray[np.bool_]

TOPOLOGY_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
#: Deprecated label -> the current one, used if a node lacks the deprecated one.
_CURRENT: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}

ZONE_CONFLICT: Final = Status.unresolvable("node(s) had no available volume zone")


class VolumeTopology(NamedTuple):
    """A topology label of a volume, and the allowed values."""

    volume: str
    key: str
    values: frozenset[str]


STATE: Final[StateKey[tuple[VolumeTopology, ...]]] = StateKey("PreFilterVolumeZone")


class VolumeZone(Plugin):
    """Rejects nodes outside the zones and regions of the volumes that a pod's claims are bound to."""

    template_part = "constraints"

    def setup(self) -> None:
        """Create the listers."""
        self._claims = self.handle.lister(PersistentVolumeClaim)
        self._volumes = self.handle.lister(PersistentVolume)
        self._classes = self.handle.lister(StorageClass)
        self._labelled: tuple[int, Mask] = (-1, np.zeros(0, dtype=np.bool_))

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Collect the labels of the pod's volumes; skip pods without any."""
        claims = volumes_of(self.handle.template(pod)).claims
        if not claims:
            return SKIP_TEMPLATE
        topologies = self._topologies(pod.namespace, claims)
        if isinstance(topologies, Status):
            return topologies
        if not topologies:
            return SKIP
        state.write(STATE, topologies)
        return None

    def _topologies(self, namespace: str, claims: tuple[str, ...]) -> tuple[VolumeTopology, ...] | Status:
        found: list[VolumeTopology] = []
        for name in claims:
            if not name:
                return Status.unresolvable("PersistentVolumeClaim had no name")
            claim = self._claims.get(name, namespace)
            if claim is None:
                return Status.unresolvable(f'persistentvolumeclaim "{name}" not found')
            if not claim.spec.volume_name:
                rejection = self._unbound(claim)
                if rejection is not None:
                    return rejection
                continue
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return Status.unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')
            found += volume_topologies(volume)
        return tuple(found)

    def _unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        """Accept a claim without a volume if its class waits for the first consumer."""
        name = claim_class(claim)
        if not name:
            return Status.unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = self._classes.get(name)
        if storage_class is None:
            return Status.unresolvable(f'storageclass.storage.k8s.io "{name}" not found')
        if storage_class.volume_binding_mode is None:
            return Status.unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"')
        if storage_class.volume_binding_mode == WAIT_FOR_CONSUMER:
            return None
        return Status.unresolvable("PersistentVolume had no name")

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Require every label of every volume; nodes without any topology label accept every volume."""
        topologies = state.get(STATE)
        if topologies is None:  # PreFilter is not in the profile
            found = self._topologies(pod.namespace, volumes_of(self.handle.template(pod)).claims)
            if isinstance(found, Status):
                return Verdicts.reject(np.ones(len(nodes), dtype=np.bool_), found)
            topologies = found
        met: Mask | None = None
        for key, values in dict.fromkeys((each.key, each.values) for each in topologies):
            meets = _meets(nodes, key, values)
            met = meets if met is None else met & meets
        if met is None or met.all():
            return None
        return Verdicts.reject(~met & self._with_labels(nodes), ZONE_CONFLICT)

    def _with_labels(self, nodes: Nodes) -> Mask:
        """Return which nodes have any of the topology labels; cached until a node changes."""
        version, mask = self._labelled
        if version != nodes.table.nodes_version:
            every = Nodes(nodes.table)
            mask = np.logical_or.reduce([every.has_label(key) for key in TOPOLOGY_LABELS])
            self._labelled = (nodes.table.nodes_version, mask)
        return nodes.take(mask)

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a constant model: the result does not depend on other pods."""
        return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for events that may add a matching volume, claim, class or node."""
        return [
            ClusterEvent("StorageClass", ActionType.ADD, after_class_added),
            ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            ClusterEvent("PersistentVolumeClaim", ActionType.ADD | ActionType.UPDATE, own_named_claim),
            ClusterEvent("PersistentVolume", ActionType.ADD | ActionType.UPDATE, after_volume_changed),
        ]


def volume_topologies(volume: PersistentVolume) -> list[VolumeTopology]:
    """Return the topology labels of a volume; a label with an empty zone is ignored."""
    found = []
    for key in TOPOLOGY_LABELS:
        label = volume.labels.get(key)
        if label is not None:
            values = frozenset(value.strip() for value in label.split(ZONE_DELIMITER))
            if "" not in values:
                found.append(VolumeTopology(volume.name, key, values))
    return found


def _meets(nodes: Nodes, key: str, values: frozenset[str]) -> Mask:
    codes = nodes.codes(key)
    found: Mask = nodes.label(key).requirement(Requirement(key, IN, values))[codes]
    current = _CURRENT.get(key)
    if current is not None and (absent := codes < 0).any():
        found |= absent & _meets(nodes, current, values)
    return found


def after_class_added(_pod: Pod, _old: StorageClass | None, new: StorageClass) -> Hint:
    """Queue for a class that waits for the first consumer."""
    return Hint.QUEUE if new.volume_binding_mode == WAIT_FOR_CONSUMER else Hint.SKIP


def after_volume_changed(_pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> Hint:
    """Queue for a new volume, or one whose topology labels changed."""
    if old is None or volume_topologies(old) != volume_topologies(new):
        return Hint.QUEUE
    return Hint.SKIP
