"""What a pod asks for and what a node offers, compared without a table: for queueing hints and for plans."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, amounts, is_tracked, pod_requests

_BASE = (CPU, MEMORY, EPHEMERAL_STORAGE)


def has_given_amounts(pod: Pod) -> bool:
    """Whether a node has said what it gave the pod, so that what the pod asks for is not all that counts."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources is not None)


def tracked_requests(pod: Pod) -> dict[str, int]:
    """What the pod asks for of the resources that are counted, in the order in which they are reported."""
    return tracked(pod_requests(pod))


def tracked(asked: Mapping[str, int]) -> dict[str, int]:
    """The resources that are counted, in the order in which they are reported."""
    found = {name: asked[name] for name in _BASE if name in asked}
    if len(found) < len(asked):
        found.update((name, asked[name]) for name in sorted(asked) if name not in found and is_tracked(name))
    return found


def fits_empty(pod: Pod, node: Node) -> bool:
    """Whether the pod would fit on the node if nothing else were there."""
    offered = amounts(node.status.allocatable)
    if offered.get(PODS, 0) < 1:
        return False
    return all(wanted <= offered.get(name, 0) for name, wanted in tracked_requests(pod).items() if wanted > 0)


def grown(pod: Pod, old: Node, new: Node) -> bool:
    """Whether the node offers more than before of something the pod asks for, or takes more pods."""
    before, after = amounts(old.status.allocatable), amounts(new.status.allocatable)
    if after.get(PODS, 0) > before.get(PODS, 0):
        return True
    wanted = [name for name, amount in tracked_requests(pod).items() if amount > 0]
    return any(after.get(name, 0) > before.get(name, 0) for name in wanted)


def freed_by(pod: Pod, old: Pod, new: Pod) -> bool:
    """Whether another pod, being resized, gives back something the pod asks for."""
    before, after = pod_requests(old, use_status=True), pod_requests(new, use_status=True)
    wanted = [name for name, amount in pod_requests(pod, use_status=True).items() if amount != 0 and is_tracked(name)]
    return any(max(before.get(name, 0), 0) > max(after.get(name, 0), 0) for name in wanted)
