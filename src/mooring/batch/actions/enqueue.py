"""enqueue: admit pending PodGroups to their queues, one per queue in turn."""

from __future__ import annotations

from mooring.batch.heap import Heap
from mooring.batch.job import INQUEUE, JobInfo
from mooring.batch.session import Session


def enqueue(session: Session) -> None:
    """Admit the groups that plugins permit; a group without minimum resources is always admitted."""
    queues = session.queue_heap()
    waiting: dict[str, Heap[JobInfo]] = {}
    seen: set[str] = set()
    for job in session.jobs.values():
        if job.queue not in seen:
            seen.add(job.queue)
            queues.push(session.queues[job.queue])
        if job.is_pending and not job.held:
            waiting.setdefault(job.queue, session.job_heap()).push(job)
    while queues:
        queue = queues.pop()
        jobs = waiting.get(queue.name)
        if not jobs:
            continue
        job = jobs.pop()
        if job.min_resources is None or session.job_enqueueable(job):
            session.job_enqueued(job)
            job.phase = INQUEUE
        queues.push(queue)
