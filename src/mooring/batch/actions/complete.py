"""complete: before anything else, place what gangs lack that are bound in part.

A gang is decided about whole, but bound pod by pod, and a fault may come between: a bind that fails, a process that
dies. Its room is still free then, and must go to nobody else: by drf's order, a gang that has nothing yet would come
first. Volcano has no such action; it runs on live clusters, whatever the configuration says.
"""

from __future__ import annotations

from mooring.batch.actions.allocate import Allocation, placeable
from mooring.batch.job import INQUEUE, JobInfo
from mooring.batch.session import Session
from mooring.batch.task import BINDING, BOUND, RUNNING, TaskInfo


class _Completion(Allocation):
    """Queues have no say: they let the gang in when it was decided about."""

    def may_have(self, job: JobInfo, task: TaskInfo) -> bool:
        """Always."""
        return True


def complete(session: Session) -> None:
    """Place the missing tasks of gangs of which some have a node, if all that are needed find one now."""
    broken = [job for job in session.jobs.values() if _is_broken(session, job)]
    if not broken:
        return
    allocation = _Completion(session)
    for job in sorted(broken, key=lambda each: (each.created, each.uid)):
        statement = allocation.place(job, placeable(job))
        if statement is None:
            continue
        if session.job_ready(job):
            job.phase = INQUEUE if job.is_pending else job.phase
            statement.commit()
        else:
            statement.discard()


def _is_broken(session: Session, job: JobInfo) -> bool:
    if not (BOUND in job.by_status or RUNNING in job.by_status or BINDING in job.by_status):
        return False
    return not session.job_ready(job) and session.job_valid(job) is None
