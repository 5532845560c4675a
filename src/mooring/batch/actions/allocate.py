"""allocate: place the tasks of jobs, by queue and job order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mooring.batch.domain_search import DomainSearch, Worksheet, worksheet
from mooring.batch.fit_errors import FitErrors
from mooring.batch.heap import Heap
from mooring.batch.hyper_nodes import Domain
from mooring.batch.job import INQUEUE, JobInfo
from mooring.batch.score_cache import ScoreCache
from mooring.batch.search import ErrorCache, Found, best_with_room, find_nodes, nowhere, pre_predicate
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.statement import Statement
from mooring.batch.sub_job import SubJob
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
        self._sheets: dict[str, Worksheet] = {}
        self._domains = DomainSearch(session, self._place_tasks)
        self._scores = ScoreCache(session)
        #: Job and role -> whether its tasks are all of one template.
        self._uniform: dict[tuple[str, str], bool] = {}

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
                self._domains.committed(job)
                if self._sheets[job.uid] if job.uid in self._sheets else self._tasks[job.uid]:
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
            if job.searches_domains:
                self._sheets[job.uid] = worksheet(session, job, tasks)
            else:
                self._tasks[job.uid] = session.task_heap(tasks)

    def place(self, job: JobInfo, tasks: list[TaskInfo]) -> Statement | None:
        """Place some tasks of a job outside its turn, in their order."""
        if job.searches_domains:
            self._sheets[job.uid] = worksheet(self._session, job, tasks)
            return self._allocate_job(job)
        self._tasks[job.uid] = self._session.task_heap(tasks)
        return self._allocate_job(job)

    def _allocate_job(self, job: JobInfo) -> Statement | None:
        """Place tasks until the job is ready. Return None, and place nothing, if the job is not even pipelined."""
        if not self._session.nodes:
            return None
        if job.uid in self._sheets:
            return self._domains.place(job, self._sheets[job.uid])
        return self._place_tasks(job, None, self._tasks[job.uid], self._session.hyper_nodes.cluster)

    def _place_tasks(
        self, job: JobInfo, part: SubJob | None, tasks: Heap[TaskInfo], domain: Domain
    ) -> Statement | None:
        """Place tasks of a job (or of a part of it) within a domain, until it is ready."""
        session = self._session
        turn = _Turn(session, job, part, domain, ErrorCache(enabled=self._cache))
        if part is not None:
            part.current = part.allocated
        while tasks:
            if not self._try_task(turn, tasks.pop()):
                break
        if part is not None:
            part.current = None
        if session.sub_job_ready(job, part) or session.sub_job_pipelined(job, part):
            return turn.statement
        turn.statement.discard()
        return None

    def allows(self, job: JobInfo, task: TaskInfo) -> bool:
        """Return whether the job's queue may allocate what a task requests."""
        return self._session.allocatable(self._session.queues[job.queue], task)

    def _try_task(self, turn: _Turn, task: TaskInfo) -> bool:
        """Try one task; return whether to continue with the next."""
        session, job, part = self._session, turn.job, turn.part
        if not self.allows(job, task):
            return True
        if task.gated:
            session.admit(task)
            return True
        if task.role and job.fit_errors and task.role in job.failed_roles(part):
            text = f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
            job.fit_errors[task.uid] = FitErrors(message=text)
            return True
        error = pre_predicate(session, task)
        if error:
            job.fit_errors[task.uid] = nowhere(session, error, turn.allowed)
            return job.worth_continuing(part)
        if not task.pod.status.nominated_node_name and task.status == PENDING and self._is_uniform(job, task):
            quick = self._scores.best(task, turn.rows)
            if quick is not None:
                return turn.allocate(task, quick)
        found = self._find(turn, task)
        if not len(found.rows):
            job.fit_errors[task.uid] = found.errors
            return job.worth_continuing(part)
        if task.status == PIPELINED:
            return True  # Volcano may place it twice; here it keeps its node
        node = best_with_room(session, task, found.rows)
        return True if node is None else turn.allocate(task, node)

    def _is_uniform(self, job: JobInfo, task: TaskInfo) -> bool:
        """Return whether all tasks of a role are equal.

        A node that rejected a task is not tried for other tasks of its role, even if they would fit (see ErrorCache).
        The cached scores do not know that, and for equal tasks they need not.
        """
        if not self._cache or not task.role:
            return True
        key = (job.uid, task.role)
        if key not in self._uniform:
            template = self._session.table.template
            first = template(task.pod)
            same = (template(each.pod) is first for each in job.tasks.values() if each.role == task.role)
            self._uniform[key] = all(same)
        return self._uniform[key]

    def _find(self, turn: _Turn, task: TaskInfo) -> Found:
        session, allowed = self._session, turn.allowed
        nominated = session.nodes.get(task.pod.status.nominated_node_name)
        if (
            nominated is not None
            and (allowed is None or allowed[nominated.row])
            and session.amounts.fits_row(task.request, session.amounts.future, nominated.row)
        ):
            only = np.zeros(len(session.node_list), dtype=np.bool_)
            only[nominated.row] = True
            found = find_nodes(session, task, "allocate", turn.cache, only)
            if len(found.rows):
                return found
        return find_nodes(session, task, "allocate", turn.cache, allowed)


class _Turn:
    """The placement of some tasks of a job within a domain."""

    def __init__(self, session: Session, job: JobInfo, part: SubJob | None, domain: Domain, cache: ErrorCache) -> None:
        self._session = session
        self.job = job
        self.part = part
        self.cache = cache
        self.statement = session.statement()
        #: The domain's nodes, as rows and as a mask; None for all nodes.
        self.rows = None if domain is session.hyper_nodes.cluster else domain.rows
        self.allowed: npt.NDArray[np.bool_] | None = None
        if self.rows is not None:
            self.allowed = np.zeros(len(session.node_list), dtype=np.bool_)
            self.allowed[self.rows] = True

    def allocate(self, task: TaskInfo, node: SessionNode) -> bool:
        """Allocate a task, or pipeline it if the node has no room yet; return whether to continue with the next."""
        session, part = self._session, self.part
        if session.amounts.fits_row(task.request, session.amounts.idle, node.row):
            error = self.statement.allocate(task, node.name)
        else:
            error = self.statement.pipeline(task, node.name, evicted=False)
        if error:
            return True
        if part is not None and part.topology is not None:
            tree = session.hyper_nodes
            lowest = int(tree.lowest[node.row])
            part.current = tree.common(part.current, tree.domains[lowest] if lowest >= 0 else None)
        return not session.sub_job_ready(self.job, part)


def placeable(job: JobInfo) -> list[TaskInfo]:
    """Return pending tasks without best-effort ones (see backfill) and gated ones (except by Volcano's own gate)."""
    return [
        task
        for task in job.of_status(PENDING)
        if not task.best_effort and (not task.gated or has_only_queue_gate(task.pod))
    ]
