"""The objects that the controller creates for a job: its pods and its PodGroup."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.api.codec import decode_object
from mooring.api.meta import LabelSelector, ObjectMeta, OwnerReference
from mooring.api.numa_topology import NUMA_POLICY
from mooring.api.pod import Pod
from mooring.api.volcano import GROUP_ANNOTATION, PodGroup, PodGroupSpec, PodGroupStatus, SubGroupPolicy
from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.controllers import constants
from mooring.controllers.jobs.job_plugins import JobPlugins, owner_of
from mooring.controllers.quota_usage import add_usage, format_amounts, quota_usage
from mooring.framework.job_plugin import Document, pod_name

#: The annotations and labels that pods inherit from their job.
_ANNOTATIONS: Final = (constants.PREEMPTABLE, constants.COOLDOWN, constants.REVOCABLE_ZONE)
_LABELS: Final = (constants.PREEMPTABLE, constants.COOLDOWN)
_VOLUME_NAME: Final = 63


def group_name(job: VolcanoJob) -> str:
    """Return the name of a job's PodGroup."""
    return f"{job.name}-{job.uid}"


def claim_name(job: VolcanoJob, index: int) -> str:
    """Return the name of the claim of a job's volume: an existing claim, or one that is created for the job."""
    return job.spec.volumes[index].volume_claim_name or f"{job.name}-pvc-{job.uid[:8]}-{index}"


def claim_document(job: VolcanoJob, index: int) -> Document:
    """Return the manifest of the claim that is created for a job's volume."""
    metadata = {"name": claim_name(job, index), "namespace": job.namespace, "ownerReferences": [owner_of(job)]}
    spec = job.spec.volumes[index].volume_claim
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def missing_claim(name: str) -> str:
    """Return the message for a job that names a claim which does not exist."""
    return f"pvc {name} is not found, the job will be in the Pending state until the PVC is created"


def may_start(job: VolcanoJob, task: TaskSpec, started: Mapping[str, int]) -> bool:
    """Return whether the tasks that a task depends on have started. ``started`` counts the started pods by task."""
    needed = task.depends_on
    if needed is None:
        return True
    least = {each.name: each.min_available or 0 for each in job.spec.tasks}
    ready = [started.get(name, 0) >= least.get(name, 0) for name in needed.name]
    return any(ready) if needed.iteration == "any" and len(ready) > 1 else all(ready)


def pod_document(
    job: VolcanoJob, task: TaskSpec, index: int, plugins: JobPlugins | None = None, *, forwarded: bool = False
) -> Document:
    """Return the manifest of one pod of a task. ``forwarded``: the job's queue extends to other clusters."""
    template = copy.deepcopy(task.template)
    template_metadata = template.get("metadata") or {}
    spec = template.get("spec") or {}
    spec["schedulerName"] = spec.get("schedulerName") or job.spec.scheduler_name
    if job.spec.priority_class_name and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.spec.priority_class_name
    if spec.get("hostNetwork"):
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    _mount(job, spec)
    metadata: Document = {
        "name": pod_name(job, task, index),
        "namespace": job.namespace,
        "ownerReferences": [owner_of(job)],
        "labels": {**(template_metadata.get("labels") or {}), **_labels(job, task, index)},
        "annotations": {**(template_metadata.get("annotations") or {}), **_annotations(job, task, index)},
    }
    if forwarded:
        metadata["labels"][constants.FORWARDING] = metadata["annotations"][constants.FORWARDING] = "true"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    if plugins is not None:
        plugins.change(task, index, pod)
    return pod


def _annotations(job: VolcanoJob, task: TaskSpec, index: int) -> dict[str, str]:
    found = {
        constants.TASK_INDEX: str(index),
        constants.TASK_SPEC: task.name,
        GROUP_ANNOTATION: group_name(job),
        constants.JOB_NAME: job.name,
        constants.JOB_QUEUE: job.spec.queue,
        constants.JOB_VERSION: str(job.status.version),
        constants.TEMPLATE: f"{job.name}-{task.name}",
        constants.JOB_RETRIES: str(job.status.retry_count),
    }
    if task.topology_policy:
        found[NUMA_POLICY] = task.topology_policy
    found |= {key: job.annotations[key] for key in _ANNOTATIONS if key in job.annotations}
    budget = next(
        (key for key in (constants.BUDGET_MIN_AVAILABLE, constants.BUDGET_MAX_UNAVAILABLE) if key in job.annotations),
        None,
    )
    return found if budget is None else {**found, budget: job.annotations[budget]}


def _labels(job: VolcanoJob, task: TaskSpec, index: int) -> dict[str, str]:
    found = {
        constants.TASK_INDEX: str(index),
        constants.JOB_NAME: job.name,
        constants.TASK_SPEC: task.name,
        constants.JOB_NAMESPACE: job.namespace,
        constants.JOB_QUEUE: job.spec.queue,
    }
    found |= {key: job.labels[key] for key in _LABELS if key in job.labels}
    if task.partition_policy is not None:
        found[constants.PARTITION] = str(index // max(task.partition_policy.partition_size, 1))
    return found


def _mount(job: VolcanoJob, spec: Document) -> None:
    """Mount the job's volumes in every container."""
    mounted: dict[str, str] = {}
    for index, volume in enumerate(job.spec.volumes):
        claim = claim_name(job, index)
        if claim in mounted:
            continue
        name = mounted[claim] = f"volume-{index}-{job.name}"[:_VOLUME_NAME].rstrip("-.")
        spec["volumes"] = [*spec.get("volumes", ()), {"name": name, "persistentVolumeClaim": {"claimName": claim}}]
        for container in spec.get("containers", ()):
            mount = {"mountPath": volume.mount_path, "name": name}
            container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]


def group_for(job: VolcanoJob, priorities: Mapping[str, int]) -> PodGroup:
    """Return the PodGroup of a job. ``priorities`` are the values of priority classes."""
    spec = job.spec
    return PodGroup(
        metadata=ObjectMeta(
            name=group_name(job),
            namespace=job.namespace,
            labels=dict(job.labels),
            annotations=dict(job.annotations),
            owner_references=(msgspec.convert(owner_of(job), OwnerReference),),
        ),
        spec=PodGroupSpec(
            min_member=spec.min_available,
            min_task_member={task.name: task.min_available or 0 for task in spec.tasks},
            queue=spec.queue,
            min_resources=dict(format_amounts(min_resources_of(job, priorities))),
            priority_class_name=spec.priority_class_name,
            network_topology=spec.network_topology,
            sub_group_policy=tuple(_sub_group(task) for task in spec.tasks if task.partition_policy is not None),
        ),
        status=PodGroupStatus(phase=constants.PENDING),
    )


def group_patch(group: PodGroup, wanted: PodGroup) -> dict[str, Any]:
    """Return a patch of a PodGroup's spec, or {}. The queue and the topology are immutable."""
    old, new = group.spec, wanted.spec
    patch: dict[str, Any] = {}
    if old.min_member != new.min_member:
        patch["minMember"] = new.min_member
    if old.min_task_member != new.min_task_member:
        gone = {task: None for task in old.min_task_member if task not in new.min_task_member}
        patch["minTaskMember"] = {**gone, **new.min_task_member}
    if old.min_resources != new.min_resources:
        gone = {name: None for name in old.min_resources or {} if name not in (new.min_resources or {})}
        patch["minResources"] = {**gone, **(new.min_resources or {})}
    if old.priority_class_name != new.priority_class_name:
        patch["priorityClassName"] = new.priority_class_name or None
    return {"spec": patch} if patch else {}


def _sub_group(task: TaskSpec) -> SubGroupPolicy:
    parts = task.partition_policy
    assert parts is not None
    return SubGroupPolicy(
        name=task.name,
        sub_group_size=parts.partition_size,
        min_sub_groups=parts.min_partitions,
        label_selector=LabelSelector(match_labels={constants.TASK_SPEC: task.name}),
        match_label_keys=(constants.PARTITION,),
        network_topology=parts.network_topology,
    )


def min_resources_of(job: VolcanoJob, priorities: Mapping[str, int]) -> dict[str, int]:
    """Return the resources of the first `minAvailable` pods, tasks of higher priority first.

    If the tasks' own `minAvailable` add up to no more than the job's, those pods come first.
    """

    def priority(task: TaskSpec) -> int:
        return priorities.get((task.template.get("spec") or {}).get("priorityClassName") or "", 0)

    tasks = sorted(job.spec.tasks, key=priority, reverse=True)
    left = job.spec.min_available
    total: dict[str, int] = {}
    if left < sum(task.min_available or 0 for task in tasks):
        rounds = [[(task, task.replicas) for task in tasks]]
    else:
        least = [(task, task.min_available or 0) for task in tasks]
        rounds = [least, [(task, task.replicas - (task.min_available or 0)) for task in tasks]]
    for each in rounds:
        for task, most in each:
            taken = min(left, most)
            add_usage(total, task_usage(task), taken)
            left -= taken
    return total


def task_usage(task: TaskSpec) -> dict[str, int]:
    """Return the quota usage of one pod of a task."""
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": task.template.get("spec") or {}}
    pod = decode_object(document, source=f"task {task.name}", check=False)
    return quota_usage(pod) if isinstance(pod, Pod) else {}
