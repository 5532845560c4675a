"""The PodGroup of a job: how many pods must start together, and what they need at least."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.codec import decode_object
from mooring.api.meta import LabelSelector, ObjectMeta, OwnerReference
from mooring.api.pod import Pod
from mooring.api.volcano import PodGroup, PodGroupSpec, PodGroupStatus, SubGroupPolicy
from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.controllers import names
from mooring.controllers.amounts import add, quota_usage, written
from mooring.controllers.jobs.documents import group_name
from mooring.controllers.jobs.plugins import owner_of


def group_for(job: VolcanoJob, priorities: Mapping[str, int]) -> PodGroup:
    """The group of a job; ``priorities`` are the values of priority classes."""
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
            min_resources=dict(written(least_amounts(job, priorities))),
            priority_class_name=spec.priority_class_name,
            network_topology=spec.network_topology,
            sub_group_policy=tuple(_sub_group(task) for task in spec.tasks if task.partition_policy is not None),
        ),
        status=PodGroupStatus(phase=names.PENDING),
    )


def changes(group: PodGroup, wanted: PodGroup) -> dict[str, Any]:
    """What of a group's spec differs from what its job asks for, as a patch; its queue and topology are for good."""
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
        label_selector=LabelSelector(match_labels={names.TASK_SPEC: task.name}),
        match_label_keys=(names.PARTITION,),
        network_topology=parts.network_topology,
    )


def least_amounts(job: VolcanoJob, priorities: Mapping[str, int]) -> dict[str, int]:
    """What the first minAvailable pods need, tasks of higher priority first.

    Where the tasks' own minima add up to no more than that, they come first, and other replicas fill up.
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
            add(total, usage_of(task), taken)
            left -= taken
    return total


def usage_of(task: TaskSpec) -> dict[str, int]:
    """What one pod of a task needs."""
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": task.template.get("spec") or {}}
    pod = decode_object(document, source=f"task {task.name}", check=False)
    return quota_usage(pod) if isinstance(pod, Pod) else {}
