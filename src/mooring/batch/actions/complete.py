"""complete: place the missing tasks of gangs that are bound in part, before any other action.

A gang is decided as a whole but bound pod by pod, and a bind or the process may fail in between. The room for the
missing tasks is then still free, and other gangs must not take it: in drf's order, a gang without tasks comes first.
Volcano has no such action. It runs on live clusters, regardless of the configuration.
"""

from __future__ import annotations

from mooring.batch.actions.allocate import Allocation, placeable
from mooring.batch.job import INQUEUE, JobInfo
from mooring.batch.session import Session
from mooring.batch.task import BINDING, BOUND, RUNNING, TaskInfo


class _Completion(Allocation):
    """Ignores the limits of queues, which admitted the gang before."""

    def allows(self, job: JobInfo, task: TaskInfo) -> bool:
        """Return True."""
        return True


def complete(session: Session) -> None:
    """Place the missing tasks of gangs that are bound in part, if the gang gets its minimum."""
    incomplete = [job for job in session.jobs.values() if _is_incomplete(session, job)]
    if not incomplete:
        return
    allocation = _Completion(session)
    for job in sorted(incomplete, key=lambda each: (each.created, each.uid)):
        # Gated tasks are left out: they have not been admitted.
        statement = allocation.place(job, [task for task in placeable(job) if not task.gated])
        if statement is None:
            continue
        if session.job_ready(job):
            job.phase = INQUEUE if job.is_pending else job.phase
            statement.commit()
        else:
            statement.discard()


def _is_incomplete(session: Session, job: JobInfo) -> bool:
    if not (BOUND in job.by_status or RUNNING in job.by_status or BINDING in job.by_status):
        return False
    return not session.job_ready(job) and session.job_valid(job) is None
