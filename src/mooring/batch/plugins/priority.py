"""priority: jobs and tasks with a higher priority come first and may preempt those with a lower one."""

from __future__ import annotations

from mooring.batch.callbacks import PERMIT
from mooring.batch.eviction import EvictionContext
from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo


class Priority(BatchPlugin):
    """Orders jobs and tasks by priority."""

    name = "priority"

    def on_session_open(self, session: Session) -> None:
        """Register callbacks for orders, victims and starvation."""
        self._jobs = session.jobs
        session.add_task_order(lambda left, right: right.priority - left.priority)
        session.add_job_order(lambda left, right: right.priority - left.priority)
        session.add_preemptable(self._preemptable)
        session.add_unified_evictable(self._evictable)
        session.add_job_starving(_is_starving)

    def _preemptable(self, preemptor: TaskInfo, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        """Return tasks of jobs with lower priority; within a job, tasks with lower priority."""
        own = self._jobs.get(preemptor.job)
        if own is None:
            return [], PERMIT
        victims = []
        for task in candidates:
            job = self._jobs.get(task.job)
            if job is None:
                continue
            less = task.priority < preemptor.priority if job is own else job.priority < own.priority
            if less:
                victims.append(task)
        return victims, PERMIT

    def _evictable(self, context: EvictionContext, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        if context.kind == "reclaim":
            return candidates, PERMIT
        return [task for task in candidates if self._jobs[task.job].priority < context.job.priority], PERMIT


def _is_starving(job: JobInfo) -> bool:
    return job.ready_count + job.waiting_count < len(job.tasks)
