"""Messages about why jobs and tasks are pending."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from mooring.batch.job import JobInfo
from mooring.batch.task import ALLOCATED, PENDING, PIPELINED, TaskInfo

READY = "pod group is ready"
NOT_READY = "pod group is not ready"
UNAVAILABLE = "all nodes are unavailable"


class Reason(NamedTuple):
    """The reason why a task is not bound, for its PodScheduled condition, and its nominated node."""

    reason: str
    message: str
    nominated_node: str = ""


def job_message(job: JobInfo) -> str:
    """Return the states of a job's tasks and why they are pending."""
    counts: dict[str, int] = {status: len(tasks) for status, tasks in job.by_status.items()}
    text = f"{READY if job.is_ready else NOT_READY}, {_listed({**counts, 'minAvailable': job.min_available})}"
    pending = Counter(task_reason(job, task).reason for task in job.of_status(PENDING))
    if pending:
        text += f"; {PENDING}: {_listed(pending)}"
    if job.fit_error:
        return f"{text}. Origin reason is: {job.fit_error}"
    for task in job.tasks.values():
        errors = job.fit_errors.get(task.uid)
        if errors is not None:
            return f"{text}. Origin reason is {task.name}: {errors.text()}"
    return text


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(sorted(f"{count} {name}" for name, count in counts.items()))


def task_reason(job: JobInfo, task: TaskInfo) -> Reason:
    """Return why a task is not bound."""
    last = task.outcome
    where = f"Pod {task.namespace}/{task.name} can possibly be assigned to {last.node_name}, once"
    if last.status == ALLOCATED:
        return Reason("Schedulable", f"{where} minAvailable is satisfied")
    if last.status == PIPELINED:
        text = f"{where} resource is released and minAvailable is satisfied"
        return Reason("Unschedulable", text, last.node_name if last.evicted else "")
    if last.status == PENDING:
        errors = job.fit_errors.get(task.uid)
        return Reason("Unschedulable", errors.text() if errors is not None else job.fit_error)
    return Reason(last.status, job.fit_error)
