"""Which changes of other pods and of nodes can help a pod that its hard constraints kept waiting."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import Hint
from mooring.plugins.pod_topology_spread.constraints import Constraint

Constraints = tuple[Constraint, ...]


def concerns(other: Pod, pod: Pod) -> bool:
    """Whether another pod can count for this one: it is on (or has been promised) a node, in the same namespace."""
    if other.uid == pod.uid:
        return True
    if not other.node_name and not other.status.nominated_node_name:
        return False
    return other.namespace == pod.namespace


def after_pod_change(pod: Pod, constraints: Constraints, old: Pod | None, new: Pod | None) -> Hint:
    """A pod came, changed or went: does it count for one of the constraints, differently from before?"""
    if old is not None and new is not None:
        return after_pod_update(pod, constraints, old, new)
    labels = new.labels if new is not None else old.labels if old is not None else {}
    return _queue(any(constraint.selector.matches(labels) for constraint in constraints))


def after_pod_update(pod: Pod, constraints: Constraints, old: Pod, new: Pod) -> Hint:
    """Labels that make the pod count or no longer count; or new tolerations of the waiting pod itself."""
    if (
        pod.uid == new.uid
        and new.spec.tolerations != old.spec.tolerations
        and any(constraint.honor_taints for constraint in constraints)
    ):
        return Hint.QUEUE
    if new.labels == old.labels:
        return Hint.SKIP
    return _queue(any(c.selector.matches(old.labels) != c.selector.matches(new.labels) for c in constraints))


def after_node_change(constraints: Constraints, old: Node | None, new: Node | None) -> Hint:
    """A node came into, left, or moved within the topology that the constraints are about."""
    was = old is not None and _has_keys(old.labels, constraints)
    now = new is not None and _has_keys(new.labels, constraints)
    if old is None or new is None:
        return _queue(was or now)
    if was != now:
        return Hint.QUEUE
    moved = any(old.labels.get(c.topology_key, "") != new.labels.get(c.topology_key, "") for c in constraints)
    return _queue(now and (moved or old.taints != new.taints))


def _has_keys(labels: Mapping[str, str], constraints: Constraints) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)


def _queue(worth_it: bool) -> Hint:
    return Hint.QUEUE if worth_it else Hint.SKIP
