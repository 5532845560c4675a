"""reclaim: evict tasks of other queues, so that a queue gets what it deserves."""

from __future__ import annotations

from mooring.batch.actions.allocate import ERROR_CACHE
from mooring.batch.eviction import curable_nodes, suffices
from mooring.batch.heap import Heap
from mooring.batch.job import JobInfo
from mooring.batch.queue import QueueInfo
from mooring.batch.search import ErrorCache, find_nodes, pre_predicate
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.statement import Statement
from mooring.batch.task import PENDING, RUNNING, TaskInfo


def reclaim(session: Session) -> None:
    """Evict tasks of reclaimable queues for the starving jobs of queues that are not overused."""
    cached = session.conf.arguments("reclaim").boolean(ERROR_CACHE, True)
    queues = session.queue_heap()
    seen: set[str] = set()
    starving: dict[str, Heap[JobInfo]] = {}
    tasks: dict[str, Heap[TaskInfo]] = {}
    for job in session.jobs.values():
        if job.is_pending or session.job_valid(job) is not None:
            continue
        if job.queue not in seen:
            seen.add(job.queue)
            queues.push(session.queues[job.queue])
        if session.job_starving(job):
            starving.setdefault(job.queue, session.job_heap()).push(job)
            tasks[job.uid] = session.task_heap([task for task in job.of_status(PENDING) if not task.gated])
    while queues:
        queue = queues.pop()
        jobs = starving.get(queue.name)
        if session.overused(queue) or not jobs:
            continue
        while jobs:
            job = jobs.pop()
            _reclaim_for_job(session, queue, job, tasks[job.uid], cached)
            if jobs:
                queues.push(queue)


def _reclaim_for_job(session: Session, queue: QueueInfo, job: JobInfo, tasks: Heap[TaskInfo], cached: bool) -> None:
    statement = session.statement()
    while session.job_starving(job) and tasks:
        task = tasks.pop()
        if not task.pod.may_preempt or not session.preemptive(queue, [task]) or pre_predicate(session, task):
            continue
        _reclaim_for_task(session, statement, task, job, cached)
    if session.job_pipelined(job):
        statement.commit()
    else:
        statement.discard()


def _reclaim_for_task(session: Session, statement: Statement, task: TaskInfo, job: JobInfo, cached: bool) -> None:
    """Evict on the first node where that makes room."""
    found = find_nodes(session, task, "evict", ErrorCache(enabled=cached), curable_nodes(session, task))
    for row in found.rows.tolist():
        node = session.node_list[row]
        candidates = _candidates(session, node, job.queue)
        if not candidates:
            continue
        victims = session.reclaimable(task, candidates)
        if not suffices(task, node, victims):
            continue
        if _evict_and_pipeline(session, statement, task, node, victims):
            return


def _candidates(session: Session, node: SessionNode, queue: str) -> list[TaskInfo]:
    found = []
    for task in node.tasks.values():
        if task.status != RUNNING or not task.preemptable:
            continue
        job = session.jobs.get(task.job)
        if job is not None and job.queue != queue and session.queues[job.queue].reclaimable:
            found.append(task)
    return found


def _evict_and_pipeline(
    session: Session, statement: Statement, task: TaskInfo, node: SessionNode, victims: list[TaskInfo]
) -> bool:
    waiting = session.victim_heap(victims, task)
    room = node.future_idle
    step = session.statement()
    evicted = False
    while waiting and not task.request.fits(room):
        victim = waiting.pop()
        step.evict(victim, "reclaim")
        room.add(victim.request)
        evicted = True
    if not task.request.fits(room) or step.pipeline(task, node.name, evicted=evicted):
        step.discard()
        return False
    statement.merge(step)
    return True
