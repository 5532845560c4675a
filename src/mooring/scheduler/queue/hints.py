"""What exactly changed about a pod or a node: the actions that plugins register for.

The finer an update is told apart, the fewer plugins have to be asked whether it helps a waiting pod.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.quantity import QuantityLike, parse_quantity
from mooring.api.resources import pod_requests
from mooring.framework.events import ActionType

#: Incoming events about pods that are on a node, and about pods that wait for one.
ASSIGNED_POD = "AssignedPod"
UNSCHEDULABLE_POD = "UnschedulablePod"

#: Kinds that kube-scheduler names together with their API group in metrics.
_GROUPS = {
    "CSINode": "storage.k8s.io/",
    "CSIDriver": "storage.k8s.io/",
    "VolumeAttachment": "storage.k8s.io/",
    "CSIStorageCapacity": "storage.k8s.io/",
    "StorageClass": "storage.k8s.io/",
    "ResourceClaim": "resource.k8s.io/",
    "ResourceSlice": "resource.k8s.io/",
    "DeviceClass": "resource.k8s.io/",
    "PodGroup": "scheduling.k8s.io/",
}
_ACTIONS = {
    int(action): "".join(word.capitalize() for word in name.split("_"))
    for name, action in ActionType.__members__.items()
}


def event_label(resource: str, action: ActionType) -> str:
    """An event as metrics and logs name it: ``NodeUpdateNodeLabel``, ``AssignedPodDelete``."""
    return f"{_GROUPS.get(resource, '')}{resource}{_ACTIONS.get(int(action), '')}"


def pod_update_actions(old: Pod, new: Pod) -> tuple[ActionType, ...]:
    """What happened to a pod; a plain UPDATE if it is nothing that plugins tell apart."""
    actions = []
    if new.labels != old.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    if _asks_for_less(old, new):
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # Tolerations can only be added, so their number tells.
    if len(new.spec.tolerations) != len(old.spec.tolerations):
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    if (
        new.status.resource_claim_statuses != old.status.resource_claim_statuses
        or new.status.extended_resource_claim_status != old.status.extended_resource_claim_status
    ):
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return tuple(actions) or (ActionType.UPDATE,)


def _asks_for_less(old: Pod, new: Pod) -> bool:
    """Whether the pod asks for less of anything, counting what its node gave it."""
    before, after = pod_requests(old, use_status=True), pod_requests(new, use_status=True)
    return any(name not in after or amount > after[name] for name, amount in before.items())


def node_update_actions(old: Node, new: Node) -> tuple[ActionType, ...]:
    """What happened to a node; nothing if it is of no consequence for any pod.

    As in kube-scheduler, a node that is uncordoned and has other taints too is told of twice.
    """
    actions = []
    if old.unschedulable and not new.unschedulable:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if not _same_amounts(old.status.allocatable, new.status.allocatable):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if new.labels != old.labels:
        actions.append(ActionType.UPDATE_NODE_LABEL)
    if new.taints != old.taints:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _conditions(new) != _conditions(old):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if new.annotations != old.annotations:
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if new.status.declared_features != old.status.declared_features:
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return tuple(actions)


def _same_amounts(old: Mapping[str, QuantityLike], new: Mapping[str, QuantityLike]) -> bool:
    """Whether two resource lists mean the same, however the amounts are written."""
    if old == new:
        return True
    if old.keys() != new.keys():
        return False
    for name, written in old.items():
        before, after = parse_quantity(written), parse_quantity(new[name])
        if before.exceeds(after) or after.exceeds(before):
            return False
    return True


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}
