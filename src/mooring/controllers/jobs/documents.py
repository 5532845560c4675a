"""The pods of a job as they are made: the template of their task, and the marks by which they are known."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Final

from mooring.api.volcano import GROUP_ANNOTATION
from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.controllers import names
from mooring.controllers.jobs.plugins import Document, JobPlugin, owner_of, pod_name

#: What pods take over from the annotations and labels of their job.
_ANNOTATIONS: Final = (names.PREEMPTABLE, names.COOLDOWN, names.REVOCABLE_ZONE)
_LABELS: Final = (names.PREEMPTABLE, names.COOLDOWN)
_VOLUME_NAME: Final = 63


def group_name(job: VolcanoJob) -> str:
    """What the PodGroup of a job is called."""
    return f"{job.name}-{job.uid}"


def claim_name(job: VolcanoJob, index: int) -> str:
    """The claim behind a volume of a job: the one it names, or one of its own."""
    return job.spec.volumes[index].volume_claim_name or f"{job.name}-pvc-{job.uid[:8]}-{index}"


def pod_document(job: VolcanoJob, task: TaskSpec, index: int, plugins: Iterable[JobPlugin] = ()) -> Document:
    """One pod of a task."""
    template = copy.deepcopy(task.template)
    inside = template.get("metadata") or {}
    spec = template.get("spec") or {}
    spec["schedulerName"] = spec.get("schedulerName") or job.spec.scheduler_name
    if job.spec.priority_class_name and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.spec.priority_class_name
    if spec.get("hostNetwork"):
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    _mount(job, spec)
    metadata = {
        "name": pod_name(job, task, index),
        "namespace": job.namespace,
        "ownerReferences": [owner_of(job)],
        "labels": {**(inside.get("labels") or {}), **_labels(job, task, index)},
        "annotations": {**(inside.get("annotations") or {}), **_annotations(job, task, index)},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    for plugin in plugins:
        plugin.on_pod(job, pod, index)
    return pod


def _annotations(job: VolcanoJob, task: TaskSpec, index: int) -> dict[str, str]:
    found = {
        names.TASK_INDEX: str(index),
        names.TASK_SPEC: task.name,
        GROUP_ANNOTATION: group_name(job),
        names.JOB_NAME: job.name,
        names.JOB_QUEUE: job.spec.queue,
        names.JOB_VERSION: str(job.status.version),
        names.TEMPLATE: f"{job.name}-{task.name}",
        names.JOB_RETRIES: str(job.status.retry_count),
    }
    if task.topology_policy:
        found[names.NUMA_POLICY] = task.topology_policy
    found |= {key: job.annotations[key] for key in _ANNOTATIONS if key in job.annotations}
    budget = next((key for key in (names.BUDGET_LEAST, names.BUDGET_MOST) if key in job.annotations), None)
    return found if budget is None else {**found, budget: job.annotations[budget]}


def _labels(job: VolcanoJob, task: TaskSpec, index: int) -> dict[str, str]:
    found = {
        names.TASK_INDEX: str(index),
        names.JOB_NAME: job.name,
        names.TASK_SPEC: task.name,
        names.JOB_NAMESPACE: job.namespace,
        names.JOB_QUEUE: job.spec.queue,
    }
    found |= {key: job.labels[key] for key in _LABELS if key in job.labels}
    if task.partition_policy is not None:
        found[names.PARTITION] = str(index // max(task.partition_policy.partition_size, 1))
    return found


def _mount(job: VolcanoJob, spec: Document) -> None:
    """Mount the job's volumes in every container."""
    mounted: dict[str, str] = {}
    for index, volume in enumerate(job.spec.volumes):
        claim = claim_name(job, index)
        if claim in mounted:
            continue
        name = mounted[claim] = f"volume-{index}-{job.name}"[:_VOLUME_NAME].rstrip("-.")
        made = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        spec["volumes"] = [*spec.get("volumes", ()), made]
        for container in spec.get("containers", ()):
            mount = {"mountPath": volume.mount_path, "name": name}
            container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
