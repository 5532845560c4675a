"""gang: a job starts when its minimum number of tasks can start, and keeps that many."""

from __future__ import annotations

import msgspec

from mooring.api.meta import format_time
from mooring.api.volcano import PodGroupCondition
from mooring.batch.callbacks import PERMIT, REJECT, Invalid
from mooring.batch.job import JobInfo
from mooring.batch.pending_reasons import job_message
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import Session
from mooring.batch.task import HOLDING, PENDING, TaskInfo

UNSCHEDULABLE = "Unschedulable"
SCHEDULED = "Scheduled"


class Gang(BatchPlugin):
    """Schedules at least the minimum of a job, or nothing."""

    name = "gang"

    def on_session_open(self, session: Session) -> None:
        """Register callbacks."""
        self._jobs = session.jobs
        session.add_job_valid(_problem)
        session.add_preemptable(self._surplus)
        session.add_reclaimable(self._surplus)
        session.add_unified_evictable(lambda _context, candidates: (candidates, PERMIT))
        session.add_job_order(lambda left, right: int(left.is_ready) - int(right.is_ready))
        session.add_job_ready(lambda job: job.is_ready and job.roles_ready and job.parts_ready)
        session.add_job_pipelined(
            lambda job: PERMIT if job.is_pipelined and job.roles_pipelined and job.parts_pipelined else REJECT
        )
        session.add_sub_job_order(lambda left, right: int(left.is_ready) - int(right.is_ready))
        session.add_sub_job_ready(lambda part: part.is_ready)
        session.add_sub_job_pipelined(lambda part: PERMIT if part.is_pipelined else REJECT)
        session.add_job_starving(lambda job: job.is_starving)

    def _surplus(self, _evictor: TaskInfo, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        """Return tasks beyond the minimum of their jobs."""
        spare: dict[str, int] = {}
        victims = []
        for task in candidates:
            job = self._jobs.get(task.job)
            if job is None:
                continue
            left = spare.get(job.uid)
            if left is None:
                left = job.ready_count - job.min_available
            if left > 0:
                left -= 1
                victims.append(task)
            spare[job.uid] = left
        return victims, PERMIT

    def on_session_close(self, session: Session) -> None:
        """Set the Scheduled or Unschedulable condition of the PodGroups."""
        now = format_time(session.now)
        for job in session.jobs.values():
            if not job.tasks:
                continue
            if job.is_ready:
                condition = PodGroupCondition(
                    type=SCHEDULED, status="True", reason="tasks in gang are ready to be scheduled"
                )
            else:
                missing = job.min_available - _schedulable(job)
                text = f"{missing}/{len(job.tasks)} tasks in gang unschedulable: {job_message(job)}"
                condition = PodGroupCondition(
                    type=UNSCHEDULABLE, status="True", reason="NotEnoughResources", message=text
                )
            job.set_condition(msgspec.structs.replace(condition, transition_id=session.uid, last_transition_time=now))


def _schedulable(job: JobInfo) -> int:
    """Return the number of placed tasks, including those that were placed until the gang did not fit."""
    nearly = sum(task.outcome.status in HOLDING for task in job.of_status(PENDING))
    return nearly + job.ready_count


def _problem(job: JobInfo) -> Invalid | None:
    if not job.roles_valid:
        return Invalid("NotEnoughPodsOfTask", "Not enough valid pods of each task for gang-scheduling")
    if not job.parts_valid:
        return Invalid("NotEnoughPodsOfTask", "Not enough valid subGroups of each task for gang-scheduling")
    valid = job.valid_count
    if valid < job.min_available:
        text = f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {job.min_available}"
        return Invalid("NotEnoughTasks", text)
    return None
