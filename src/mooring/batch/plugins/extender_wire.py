"""The JSON form of tasks, nodes, jobs and queues for extenders, with Volcano's field names."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.codec import to_dict
from mooring.batch.job import JobInfo
from mooring.batch.queue import QueueInfo
from mooring.batch.resource import Resource
from mooring.batch.session_nodes import SessionNode
from mooring.batch.task import Status, TaskInfo

#: Volcano represents a status as a bit.
_BIT: Final[dict[Status, int]] = {
    "Pending": 1,
    "Allocated": 2,
    "Pipelined": 4,
    "Binding": 8,
    "Bound": 16,
    "Running": 32,
    "Releasing": 64,
    "Succeeded": 128,
    "Failed": 256,
    "Unknown": 512,
}


def resource_json(amounts: Resource) -> dict[str, Any]:
    """Return the JSON form of amounts."""
    return {
        "MilliCPU": amounts.cpu,
        "Memory": amounts.memory,
        "ScalarResources": amounts.scalars,
        "MaxTaskNum": amounts.max_tasks,
    }


def task_json(task: TaskInfo) -> dict[str, Any]:
    """Return the JSON form of a task with its pod."""
    request = resource_json(task.request)
    return {
        "UID": task.uid,
        "Job": task.job,
        "Name": task.name,
        "Namespace": task.namespace,
        "TaskRole": task.role,
        "Resreq": request,
        "InitResreq": request,
        "NodeName": task.node_name,
        "EvictionOccurred": task.evicted,
        "Status": _BIT[task.status],
        "Priority": task.priority,
        "Preemptable": task.preemptable,
        "BestEffort": task.best_effort,
        "SchGated": task.gated,
        "RevocableZone": task.revocable_zone,
        "Pod": to_dict(task.pod),
    }


def node_json(node: SessionNode) -> dict[str, Any]:
    """Return the JSON form of a node with its amounts; its tasks do not include their pods."""
    tasks = {task.key: {**task_json(task), "Pod": None} for task in node.tasks.values()}
    return {
        "Name": node.name,
        "Node": to_dict(node.node),
        "Idle": resource_json(node.idle),
        "Used": resource_json(node.used),
        "Releasing": resource_json(node.releasing),
        "Allocatable": resource_json(node.allocatable),
        "Tasks": tasks,
        "RevocableZone": node.revocable_zone,
    }


def job_json(job: JobInfo) -> dict[str, Any]:
    """Return the JSON form of a job with its tasks."""
    return {
        "UID": job.uid,
        "Name": job.name,
        "Namespace": job.namespace,
        "Queue": job.queue,
        "Priority": job.priority,
        "MinAvailable": job.min_available,
        "Tasks": {task.uid: task_json(task) for task in job.tasks.values()},
        "TaskMinAvailable": job.role_minimums,
        "Allocated": resource_json(job.allocated),
        "TotalRequest": resource_json(job.total_request),
        "CreationTimestamp": job.group.metadata.creation_timestamp,
        "PodGroup": to_dict(job.group),
        "Preemptable": job.preemptable,
        "RevocableZone": job.revocable_zone,
    }


def queue_json(queue: QueueInfo) -> dict[str, Any]:
    """Return the JSON form of a queue."""
    return {
        "UID": queue.uid,
        "Name": queue.name,
        "Weight": queue.weight,
        "Weights": queue.hierarchy_weights,
        "Hierarchy": queue.hierarchy,
        "Queue": to_dict(queue.queue),
    }
