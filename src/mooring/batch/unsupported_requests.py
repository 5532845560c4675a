"""Requests of PodGroups and pods that sessions cannot fulfil. A gang that makes one is held and reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.api.volcano import NetworkTopology, PodGroup
from mooring.batch.task import TaskInfo

#: The reason of conditions and events about held gangs.
NOT_SUPPORTED: Final = "NotSupported"
#: Resources that are shares of devices. Without the plugin deviceshare, no device would be assigned.
_SHARED_DEVICES: Final = ("volcano.sh/vgpu-", "volcano.sh/gpu-memory", "volcano.sh/gpu-number")
#: Annotations that select shared devices.
_DEVICE_ANNOTATIONS: Final = frozenset(
    ("volcano.sh/vgpu-mode", "volcano.sh/vgpu-podgroup-policy", "nvidia.com/use-gputype", "nvidia.com/nouse-gputype")
)


def unsupported_request(group: PodGroup, tasks: Sequence[TaskInfo]) -> str:
    """Return the request of a gang that sessions cannot fulfil; empty if there is none."""
    spec = group.spec
    if _is_hard(spec.network_topology):
        return "spec.networkTopology has the mode hard, which is not supported; use soft, or remove it"
    for policy in spec.sub_group_policy:
        where = f'spec.subGroupPolicy "{policy.name}" (partitionPolicy of a job)'
        if _is_hard(policy.network_topology):
            return f"{where} has a networkTopology with the mode hard, which is not supported"
        if spec.min_member < len(tasks):
            # If all pods must start together, so do those of each subgroup.
            return (
                f"{where} is supported only if minMember is the number of pods: subgroups are not placed on their own"
            )
    for task in tasks:
        if not task.node_name and (problem := _unsupported_by(task)):
            return f"pod {task.name}: {problem}"
    return ""


def _is_hard(topology: NetworkTopology | None) -> bool:
    return topology is not None and topology.mode == "hard"


def _unsupported_by(task: TaskInfo) -> str:
    if task.pod.spec.scheduling_group is not None:
        return "spec.schedulingGroup is set, but groups of scheduling.k8s.io are not supported"
    names = [name for name in task.request.scalars or () if name.startswith(_SHARED_DEVICES)]
    if names:
        return f"the resource {min(names)} needs the plugin deviceshare, which is not supported"
    if not _DEVICE_ANNOTATIONS.isdisjoint(task.pod.annotations):
        annotation = min(_DEVICE_ANNOTATIONS & task.pod.annotations.keys())
        return f"the annotation {annotation} needs the plugin deviceshare, which is not supported"
    return ""
