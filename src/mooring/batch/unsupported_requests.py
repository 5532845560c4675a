"""Requests of PodGroups and pods that sessions cannot fulfil. A gang that makes one is held and reported."""

from __future__ import annotations

from typing import Final

from mooring.api.volcano import NetworkTopology
from mooring.batch.conf import BatchConf
from mooring.batch.hyper_nodes import HyperNodes
from mooring.batch.job import JobInfo
from mooring.batch.task import TaskInfo

#: The reason of conditions and events about held gangs.
NOT_SUPPORTED: Final = "NotSupported"
TOPOLOGY_PLUGIN: Final = "network-topology-aware"
#: Resources that are shares of devices. Without the plugin deviceshare, no device would be assigned.
_SHARED_DEVICES: Final = ("volcano.sh/vgpu-", "volcano.sh/gpu-memory", "volcano.sh/gpu-number")
#: Annotations that select shared devices.
_DEVICE_ANNOTATIONS: Final = frozenset(
    ("volcano.sh/vgpu-mode", "volcano.sh/vgpu-podgroup-policy", "nvidia.com/use-gputype", "nvidia.com/nouse-gputype")
)


def unsupported_request(job: JobInfo, conf: BatchConf, hyper_nodes: HyperNodes) -> str:
    """Return the request of a gang that sessions cannot fulfil; empty if there is none."""
    spec = job.group.spec
    constraints = [("spec.networkTopology", spec.network_topology)]
    for policy in spec.sub_group_policy:
        where = f'networkTopology of spec.subGroupPolicy "{policy.name}" (partitionPolicy of a job)'
        constraints.append((where, policy.network_topology))
    for where, topology in constraints:
        problem = "" if topology is None else _unsupported_topology(topology, conf, hyper_nodes)
        if problem:
            return f"{where} {problem}"
    for task in job.tasks.values():
        if not task.node_name and (problem := _unsupported_by(task)):
            return f"pod {task.name}: {problem}"
    return ""


def finds_domains(conf: BatchConf) -> bool:
    """Return whether sessions with this configuration place gangs by the topology of the network."""
    return any(option.name == TOPOLOGY_PLUGIN and option.enabled("HyperNodeGradient") for option in conf.options())


def _unsupported_topology(topology: NetworkTopology, conf: BatchConf, hyper_nodes: HyperNodes) -> str:
    if hyper_nodes.problem:
        return f"cannot be fulfilled: {hyper_nodes.problem}"
    if topology.mode == "soft":
        return ""
    if not finds_domains(conf):
        return f"has the mode hard, which needs the plugin {TOPOLOGY_PLUGIN}; add it to the scheduler's configuration"
    if topology.highest_tier_allowed is not None:
        return ""
    if not topology.highest_tier_name:
        return "has the mode hard, but neither highestTierAllowed nor highestTierName"
    if topology.highest_tier_name not in hyper_nodes.tier_names:
        return f'has highestTierName "{topology.highest_tier_name}", which no HyperNode has as its tierName'
    return ""


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
