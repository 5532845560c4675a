"""allocate: place the tasks of jobs, by queue and job order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mooring.batch.fit_errors import FitErrors
from mooring.batch.heap import Heap
from mooring.batch.job import INQUEUE, JobInfo
from mooring.batch.score_cache import ScoreCache
from mooring.batch.search import ErrorCache, Found, best_with_room, find_nodes, nowhere, pre_predicate
from mooring.batch.session import Session
from mooring.batch.statement import Statement
from mooring.batch.task import PENDING, PIPELINED, TaskInfo, has_only_queue_gate

ERROR_CACHE = "predicateErrorCacheEnable"


def allocate(session: Session) -> Iterator[None]:
    """Place gangs completely or not at all, and tasks beyond a gang's minimum one per turn. Each step is a turn."""
    return Allocation(session).run()


class Allocation:
    """One run of the action."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cache = session.conf.arguments("allocate").boolean(ERROR_CACHE, True)
        self._queues = session.queue_heap()
        self._jobs: dict[str, Heap[JobInfo]] = {}
        self._tasks: dict[str, Heap[TaskInfo]] = {}
        self._scores = ScoreCache(session)

    def run(self) -> Iterator[None]:
        """Process the queues until no job is left."""
        session = self._session
        self._collect()
        queues = self._queues
        while queues:
            queue = queues.pop()
            if session.overused(queue):
                continue
            jobs = self._jobs[queue.name]
            if not jobs:
                continue
            job = jobs.pop()
            statement = self._allocate_job(job)
            if statement is not None and session.job_ready(job):  # a job with pipelined tasks only is not committed
                statement.commit()
                if self._tasks[job.uid]:
                    jobs.push(job)
            queues.push(queue)
            yield

    def _collect(self) -> None:
        session = self._session
        gated_by_enqueue = "enqueue" in session.conf.actions
        for job in session.jobs.values():
            if job.is_pending:
                if gated_by_enqueue or job.held:
                    continue
                job.phase = INQUEUE
            if session.job_valid(job) is not None:
                continue
            tasks = placeable(job) + job.promised
            if not tasks:
                continue
            if job.queue not in self._jobs:
                self._jobs[job.queue] = session.job_heap()
                self._queues.push(session.queues[job.queue])
            self._jobs[job.queue].push(job)
            self._tasks[job.uid] = session.task_heap(tasks)

    def place(self, job: JobInfo, tasks: list[TaskInfo]) -> Statement | None:
        """Place some tasks of a job outside its turn, in their order."""
        self._tasks[job.uid] = self._session.task_heap(tasks)
        return self._allocate_job(job)

    def _allocate_job(self, job: JobInfo) -> Statement | None:
        """Place tasks until the job is ready. Return None, and place nothing, if the job is not even pipelined."""
        session, tasks = self._session, self._tasks[job.uid]
        if not session.node_list:
            return None
        statement = session.statement()
        cache = ErrorCache(enabled=self._cache)
        while tasks:
            if not self._try_task(job, tasks.pop(), statement, cache):
                break
        if session.job_ready(job) or session.job_pipelined(job):
            return statement
        statement.discard()
        return None

    def allows(self, job: JobInfo, task: TaskInfo) -> bool:
        """Return whether the job's queue may allocate what a task requests."""
        return self._session.allocatable(self._session.queues[job.queue], task)

    def _try_task(self, job: JobInfo, task: TaskInfo, statement: Statement, cache: ErrorCache) -> bool:
        """Try one task; return whether to continue with the next."""
        session = self._session
        if task.gated or not self.allows(job, task):
            return True
        if task.role and job.fit_errors and task.role in job.failed_roles():
            text = f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
            job.fit_errors[task.uid] = FitErrors(message=text)
            return True
        error = pre_predicate(session, task)
        if error:
            job.fit_errors[task.uid] = nowhere(session, error)
            return job.worth_continuing()
        if not task.pod.status.nominated_node_name and task.status == PENDING:
            quick = self._scores.best(task)
            if quick is not None:
                error = statement.allocate(task, quick.name)
                return bool(error) or not session.job_ready(job)
        found = self._find(task, cache)
        if not len(found.rows):
            job.fit_errors[task.uid] = found.errors
            return job.worth_continuing()
        if task.status == PIPELINED:
            return True  # Volcano may place it twice; here it keeps its node
        node = best_with_room(session, task, found.rows)
        if node is None:
            return True
        if session.amounts.fits_row(task.request, session.amounts.idle, node.row):
            error = statement.allocate(task, node.name)
        else:
            error = statement.pipeline(task, node.name, evicted=False)
        return bool(error) or not session.job_ready(job)

    def _find(self, task: TaskInfo, cache: ErrorCache) -> Found:
        session = self._session
        nominated = session.nodes.get(task.pod.status.nominated_node_name)
        if nominated is not None and session.amounts.fits_row(task.request, session.amounts.future, nominated.row):
            only = np.zeros(len(session.node_list), dtype=np.bool_)
            only[nominated.row] = True
            found = find_nodes(session, task, "allocate", cache, only)
            if len(found.rows):
                return found
        return find_nodes(session, task, "allocate", cache)


def placeable(job: JobInfo) -> list[TaskInfo]:
    """Return pending tasks without best-effort ones (see backfill) and gated ones (except by Volcano's own gate)."""
    return [
        task
        for task in job.of_status(PENDING)
        if not task.best_effort and (not task.gated or has_only_queue_gate(task.pod))
    ]
