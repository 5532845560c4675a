"""backfill: place best-effort tasks, which request nothing."""

from __future__ import annotations

from mooring.batch.actions.allocate import ERROR_CACHE
from mooring.batch.heap import Heap
from mooring.batch.job import JobInfo
from mooring.batch.search import ErrorCache, best_node, find_nodes, nowhere, pre_predicate
from mooring.batch.session import Session
from mooring.batch.task import PENDING, PIPELINED, TaskInfo


def backfill(session: Session) -> None:
    """Place best-effort tasks one by one, regardless of queues and gangs."""
    cached = session.conf.arguments("backfill").boolean(ERROR_CACHE, True)
    for task in _waiting(session):
        job = session.jobs[task.job]
        error = pre_predicate(session, task)
        if error:
            job.fit_errors[task.uid] = nowhere(session, error)
            continue
        found = find_nodes(session, task, "backfill", ErrorCache(enabled=cached))
        if not len(found.rows):
            job.fit_errors[task.uid] = found.errors
            continue
        node = best_node(session, task, found.rows)
        if node is not None:
            session.allocate(task, node.name)


def _waiting(session: Session) -> list[TaskInfo]:
    """Return best-effort tasks by queue, job and task; pipelined ones are unplaced first."""
    queues = session.queue_heap()
    jobs: dict[str, Heap[JobInfo]] = {}
    tasks: dict[str, Heap[TaskInfo]] = {}
    for job in session.jobs.values():
        if job.is_pending or session.job_valid(job) is not None:
            continue
        waiting = []
        for task in job.of_status(PENDING):
            if task.best_effort and task.gated:
                session.admit(task)  # every queue has room for it; Volcano never removes the gate
            elif task.best_effort:
                waiting.append(task)
        for task in job.of_status(PIPELINED):
            if task.best_effort:
                session.unplace(task)
                waiting.append(task)
        if not waiting:
            continue
        tasks[job.uid] = session.task_heap(waiting)
        if job.queue not in jobs:
            queues.push(session.queues[job.queue])
            jobs[job.queue] = session.job_heap()
        jobs[job.queue].push(job)
    found = []
    while queues:
        waiting_jobs = jobs[queues.pop().name]
        while waiting_jobs:
            heap = tasks[waiting_jobs.pop().uid]
            while heap:
                found.append(heap.pop())
    return found
