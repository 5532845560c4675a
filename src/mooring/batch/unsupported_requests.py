"""Requests of PodGroups and pods that sessions cannot fulfil. A gang that makes one is held and reported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mooring.api.numa_topology import NUMA_POLICY
from mooring.api.pod import Pod
from mooring.api.volcano import QUEUE_GATE, NetworkTopology
from mooring.batch.conf import BatchConf
from mooring.batch.device_config import CONFIG_MAP
from mooring.batch.device_kinds import DEVICE_PLUGIN, GPU_NUMBERS, GPU_SHARING, MINDCLUSTER, NPU, VGPU, EnabledDevices
from mooring.batch.hyper_nodes import HyperNodes
from mooring.batch.job import JobInfo
from mooring.batch.mindcluster_npus import NPU_CORES, NPU_LABEL
from mooring.batch.shared_gpus import CARD_ANNOTATIONS
from mooring.batch.task import PENDING, TaskInfo, has_only_queue_gate, wants_queue_gate

#: The reason of conditions and events about held gangs.
NOT_SUPPORTED: Final = "NotSupported"
TOPOLOGY_PLUGIN: Final = "network-topology-aware"
NUMA_PLUGIN: Final = "numa-aware"
_SOFT: Final = (
    f"spec.networkTopology has the mode soft, which needs the plugin {TOPOLOGY_PLUGIN}: "
    "pods are placed without regard to it"
)
_NUMA: Final = (
    f"the annotation {NUMA_POLICY} (topologyPolicy of a job's task) needs the plugin {NUMA_PLUGIN}: "
    "pods are placed without regard to it"
)
_QUEUE_GATE: Final = (
    f"pods have the scheduling gate {QUEUE_GATE}, which is not removed, because the feature gate "
    "SchedulingGatesQueueAdmission is off: enable it in the scheduler, or remove the scheduling gate"
)
_QUEUE_GATE_ALONE: Final = (
    f"pods have the scheduling gate {QUEUE_GATE} without the annotation of this name, so it is not removed: set the "
    'annotation to "true", or remove the scheduling gate'
)
_VGPU_PREFIX: Final = "volcano.sh/vgpu-"
#: Resources that are shares of GPUs, and the argument of the plugin that enables them. Without it, no device would be
#: assigned.
_SHARED_GPUS: Final = (
    (_VGPU_PREFIX, VGPU),
    ("volcano.sh/gpu-memory", GPU_SHARING),
    ("volcano.sh/gpu-number", GPU_NUMBERS),
)
#: Memory of NPUs, which nodes do not offer as an amount.
_NPU_MEMORY: Final = re.compile(r"huawei\.com/Ascend[^/]*-memory")
#: Annotations with which HAMi selects devices by their uuid. Volcano ignores them.
_UUIDS: Final = re.compile(r"nvidia\.com/(no)?use-gpuuuid|hami\.io/(no-)?use-[^/]*-uuid")


def unsupported_request(job: JobInfo, conf: BatchConf, hyper_nodes: HyperNodes, devices: EnabledDevices) -> str:
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
        if not task.node_name and (problem := _unsupported_by(task, devices)):
            return f"pod {task.name}: {problem}"
    return ""


def ignored_requests(job: JobInfo, conf: BatchConf, *, removes_queue_gates: bool = False) -> Iterator[str]:
    """Yield the requests of a gang that have no effect; its pods are placed nevertheless, as in Volcano."""
    if job.held or PENDING not in job.by_status:
        return
    if job.has_topology and not finds_domains(conf):
        yield _SOFT
    aligned = any(option.name == NUMA_PLUGIN and option.enabled("Predicate") for option in conf.options())
    if not aligned and any(numa_policy(task.pod) for task in job.of_status(PENDING)):
        yield _NUMA
    gated = [task.pod for task in job.of_status(PENDING) if task.gated and has_only_queue_gate(task.pod)]
    if gated and not removes_queue_gates:
        yield _QUEUE_GATE
    elif not all(map(wants_queue_gate, gated)):
        yield _QUEUE_GATE_ALONE


def numa_policy(pod: Pod) -> str:
    """Return the policy of the topology manager that a pod requests; empty if it has no preference."""
    policy = pod.annotations.get(NUMA_POLICY, "")
    return "" if policy == "none" else policy


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


def _unsupported_by(task: TaskInfo, devices: EnabledDevices) -> str:
    pod = task.pod
    if pod.spec.scheduling_group is not None:
        return "spec.schedulingGroup is set, but groups of scheduling.k8s.io are not supported"
    names = set(task.request.scalars or ())
    if devices.uncounted:  # the request of a task has no resources that are not counted
        names.update(*(each.resources.limits for each in pod.spec.containers))
    for name in sorted(names):
        problem = _unsupported_resource(name, devices)
        if name == NPU_CORES and not problem and pod.labels.get(NPU_LABEL[0]) != NPU_LABEL[1]:
            problem = "needs the label {}: {}, without which no NPU is assigned".format(*NPU_LABEL)
        if problem:
            return f"the resource {name} {problem}"
    if VGPU not in devices.arguments and not CARD_ANNOTATIONS.isdisjoint(pod.annotations):
        return f"the annotation {min(CARD_ANNOTATIONS & pod.annotations.keys())} {_needs(VGPU)}"
    for name in () if devices.requested.isdisjoint(names) else sorted(pod.annotations):
        if _UUIDS.fullmatch(name):
            return f"the annotation {name} is not supported: devices are not selected by their uuid"
    return ""


def _unsupported_resource(name: str, devices: EnabledDevices) -> str:
    """Return why no device would be assigned for a resource; empty if one would be, or if it is not a shared device."""
    for prefix, needed in _SHARED_GPUS:
        if name.startswith(prefix) and needed not in devices.arguments:
            return _needs(needed)
    if name.startswith(_VGPU_PREFIX) and name not in devices.config.gpu.names:
        return f"is not a resource of vGPUs in the ConfigMap {CONFIG_MAP}"
    if name == NPU_CORES and MINDCLUSTER not in devices.arguments:
        return f"needs the plugin {DEVICE_PLUGIN} with the argument deviceshare.{MINDCLUSTER}: true"
    if _NPU_MEMORY.fullmatch(name) and name not in devices.uncounted:
        if NPU in devices.arguments:
            return f"is not the memory of a type of NPU in the ConfigMap {CONFIG_MAP}"
        return f"needs the plugin {DEVICE_PLUGIN} with the argument deviceshare.{NPU}: true"
    return ""


def _needs(argument: str) -> str:
    return (
        f"needs the plugin {DEVICE_PLUGIN} with the argument deviceshare.{argument}: true, and without the other "
        "ways to share GPUs; add it to the scheduler's configuration"
    )
