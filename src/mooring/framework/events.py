"""Cluster events that can make a pending pod schedulable, and queueing hints."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntFlag, auto
from typing import Any

import msgspec

from mooring.api.pod import Pod


class ActionType(IntFlag):
    """What happened to an object; combine with ``|``. The bits are kube-scheduler's, as is the rule for matching.

    Attributes:
        ADD: The object was created. For pods: it was assigned to a node.
        DELETE: The object was deleted. For pods: it also left its node because it finished.
        UPDATE_NODE_ALLOCATABLE: A node's allocatable resources changed.
        UPDATE_NODE_LABEL: A node's labels changed.
        UPDATE_NODE_TAINT: A node's taints changed, or it was cordoned or uncordoned.
        UPDATE_NODE_CONDITION: A node's conditions changed.
        UPDATE_NODE_ANNOTATION: A node's annotations changed.
        UPDATE_NODE_DECLARED_FEATURE: The features that a node declares changed.
        UPDATE_POD_LABEL: A pod's labels changed.
        UPDATE_POD_SCALE_DOWN: A pod's requests were reduced.
        UPDATE_POD_TOLERATION: A pod's tolerations changed.
        UPDATE_POD_SCHEDULING_GATES_ELIMINATED: A pod's last scheduling gate was removed.
        UPDATE_POD_GENERATED_RESOURCE_CLAIM: A resource claim was generated for a pod.
        UPDATE: Any update.
        ALL: Any change.
    """

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
    """The answer of a queueing hint: whether the event may make the pod schedulable.

    Attributes:
        QUEUE: It may: try the pod again.
        SKIP: It cannot: the pod stays unschedulable.
    """

    QUEUE = "Queue"
    SKIP = "QueueSkip"


#: Called with the pod, the object before the event (None if it was created) and after it (None if it was deleted).
#: Returns a Hint. An exception counts as QUEUE.
QueueingHint = Callable[[Pod, Any, Any], Hint]


class ClusterEvent(msgspec.Struct, frozen=True):
    """A registration for events that may make a rejected pod schedulable; see ``events_to_register``.

    ```python
    def wakes(pod: Pod, old: Node | None, new: Node | None) -> Hint:
        return Hint.QUEUE if new is not None and "gpu" in new.labels else Hint.SKIP


    ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL, wakes)
    ```

    Attributes:
        resource: A kind such as ``Node``, ``Pod`` or ``PersistentVolumeClaim``, ``*`` for all kinds, or
            ``plural.version.group`` for a custom resource. ``Pod`` covers all events of pods; ``AssignedPod`` covers
            those of pods with a node, and ``TargetPod`` the updates of the rejected pod itself.
        actions: What must happen to an object of this kind.
        hint: Decides for a pod whether the event may help; None if it always may.
    """

    resource: str
    actions: ActionType
    hint: QueueingHint | None = None

    def matches(self, resource: str, action: ActionType) -> bool:
        """Whether this registration covers an event, by kube-scheduler's rule and its quirks."""
        covers = self.resource in ("*", resource) or (self.resource == "Pod" and resource in POD_EVENTS)
        covers = covers or (self.resource == "TargetPod" and resource == "UnschedulablePod")  # its name in 1.36
        return covers and bool(self.actions & action) and action <= self.actions


#: Incoming event resources that a registration for ``Pod`` covers.
POD_EVENTS = frozenset({"AssignedPod", "TargetPod", "UnschedulablePod", "UnscheduledPod"})

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
