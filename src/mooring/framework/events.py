"""Cluster events that can make a pending pod schedulable, and queueing hints."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntFlag, auto
from typing import Any

import msgspec

from mooring.api.pod import Pod


class ActionType(IntFlag):
    """The kind of change of an object. The bits are ordered as kube-scheduler's; its matching rule depends on it."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    UPDATE_NODE_CONDITION = auto()
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
    )
    ALL = ADD | DELETE | UPDATE


class Hint(Enum):
    """The result of a queueing hint: whether the event may make the pod schedulable."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


#: (pod, old object or None, new object or None) -> Hint. An exception counts as QUEUE.
QueueingHint = Callable[[Pod, Any, Any], Hint]


class ClusterEvent(msgspec.Struct, frozen=True):
    """A registration for events that may make a rejected pod schedulable, with a hint (None: always requeue).

    ``resource`` is a Kubernetes kind (``Node``, ``Pod``, ``PersistentVolumeClaim``, ...), ``*`` for all kinds, or
    ``plural.version.group`` for a custom resource.
    """

    resource: str
    actions: ActionType
    hint: QueueingHint | None = None

    def matches(self, resource: str, action: ActionType) -> bool:
        """Whether this registration covers an event, by kube-scheduler's rule and its quirks."""
        covers = self.resource in ("*", resource) or (self.resource == "Pod" and resource in POD_EVENTS)
        return covers and bool(self.actions & action) and action <= self.actions


#: Incoming event resources that a registration for ``Pod`` covers.
POD_EVENTS = frozenset({"AssignedPod", "UnschedulablePod"})

#: The events of a plugin that registers none: the safe default.
CATCH_ALL = tuple(
    ClusterEvent(kind, ActionType.ALL)
    for kind in (
        "Pod",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "CSINode",
        "CSIDriver",
        "CSIStorageCapacity",
        "StorageClass",
        "ResourceClaim",
        "DeviceClass",
    )
)
