"""gangpreempt and gangreclaim: evict tasks for a whole gang at once.

A *bundle* is a set of tasks of one job that are evicted together: *safe* ones, without which its gang still has its
minimum, or the *whole* rest of it.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

from mooring.batch.actions.allocate import ERROR_CACHE
from mooring.batch.eviction import EvictionContext, curable_nodes
from mooring.batch.heap import Heap
from mooring.batch.job import JobInfo
from mooring.batch.queue import QueueInfo
from mooring.batch.resource import Resource
from mooring.batch.search import ErrorCache, best_with_room, find_nodes, pre_predicate
from mooring.batch.session import Session
from mooring.batch.statement import SavedOperation, Statement, save
from mooring.batch.task import ALLOCATED, BINDING, BOUND, EVICTABLE, PENDING, PREEMPTABLE, RUNNING, SUCCEEDED, TaskInfo


def gangpreempt(session: Session) -> None:
    """Evict tasks of less important jobs of the same queue, so that a gang fits."""
    GangEviction(session, "preempt").run()


def gangreclaim(session: Session) -> None:
    """Evict tasks of other queues, so that a gang fits."""
    GangEviction(session, "reclaim").run()


class GangEviction:
    """One run of either action."""

    def __init__(self, session: Session, kind: Literal["preempt", "reclaim"]) -> None:
        self._session = session
        self._kind = kind
        arguments = session.conf.arguments(f"gang{kind}")
        self._whole = arguments.boolean("allowWholeBundle", True)
        self._cached = session.conf.arguments("allocate").boolean(ERROR_CACHE, True)

    def run(self) -> None:
        """Process the queues and their starving jobs in order."""
        session = self._session
        queues = session.queue_heap()
        seen: set[str] = set()
        starving: dict[str, Heap[JobInfo]] = {}
        for job in session.jobs.values():
            if job.is_pending or session.job_valid(job) is not None:
                continue
            if job.queue not in seen:
                seen.add(job.queue)
                queues.push(session.queues[job.queue])
            if job.has_hard_topology:
                continue  # room outside of a domain does not help
            if session.job_starving(job):
                starving.setdefault(job.queue, session.job_heap()).push(job)
        while queues:
            queue = queues.pop()
            jobs = starving.get(queue.name)
            if not jobs or (self._kind == "reclaim" and session.overused(queue)):
                continue
            while jobs:
                self._make_room(queue, jobs.pop())

    def _make_room(self, queue: QueueInfo, job: JobInfo) -> None:
        session = self._session
        statement = session.statement()
        plan = self._plan(queue, job)
        if plan is not None:
            statement.recover(plan)
        if session.job_pipelined(job):
            statement.commit()
            job.promised += [step.task for step in plan or () if step.kind == "pipeline"]
        else:
            statement.discard()

    def _plan(self, queue: QueueInfo, job: JobInfo) -> list[SavedOperation] | None:
        """Return the operations that evict tasks and place the gang; None if no eviction helps."""
        session = self._session
        pending = [task for task in job.of_status(PENDING) if not task.gated and not task.best_effort]
        if not pending or not session.node_list:
            return None
        if self._kind == "reclaim" and not session.preemptive(queue, pending):
            return None
        need = total(pending)
        room = Resource()
        for node in session.node_list:
            room.add(node.idle).add(node.releasing)
        victims: list[TaskInfo] = []
        for bundle in self._bundles(job, need):
            victims += bundle.tasks
            if need.fits(room.clone().add(total(victims))):
                plan = self._try(queue, job, pending, victims)
                if plan is not None:
                    return plan
        return None

    def _bundles(self, job: JobInfo, need: Resource) -> list[Bundle]:
        """Return the bundles that may be evicted for a job, in order."""
        session = self._session
        by_job: dict[str, list[TaskInfo]] = {}
        for node in session.node_list:
            for task in node.tasks.values():
                if self._is_candidate(job, task):
                    by_job.setdefault(task.job, []).append(task)
        bundles = [bundle for uid, tasks in by_job.items() for bundle in job_bundles(session.jobs[uid], tasks)]
        if not bundles:
            return []
        first = self._by_job if self._kind == "preempt" else self._by_queue(job)
        candidates = [task for bundle in in_order(bundles, need, first) for task in bundle.tasks]
        allowed = {task.uid for task in session.unified_evictable(EvictionContext(self._kind, job), candidates)}
        narrowed = [bundle.only(allowed) for bundle in bundles]
        kept = [bundle for bundle in narrowed if bundle is not None and (bundle.safe or self._whole)]
        return in_order(kept, need, first)

    def _is_candidate(self, job: JobInfo, task: TaskInfo) -> bool:
        session = self._session
        owner = session.jobs.get(task.job)
        if owner is None or not task.preemptable or not _may_be_disturbed(owner):
            return False
        if self._kind == "preempt":
            more_important = job.priority > owner.priority
            return task.status in EVICTABLE and owner.queue == job.queue and more_important and owner is not job
        return task.status == RUNNING and owner.queue != job.queue and session.queues[owner.queue].reclaimable

    def _by_job(self, left: Bundle, right: Bundle) -> int:
        """Order the bundles of the job that comes last first."""
        if left.job is right.job:
            return 0
        return 1 if self._session.job_less(left.job, right.job) else -1

    def _by_queue(self, job: JobInfo):  # type: ignore[no-untyped-def]
        session = self._session
        own = session.queues[job.queue]

        def first(left: Bundle, right: Bundle) -> int:
            mine, theirs = session.queues[left.job.queue], session.queues[right.job.queue]
            if mine is theirs:
                return 0
            before = session.victim_queue_less(mine, theirs, own)
            after = session.victim_queue_less(theirs, mine, own)
            return 0 if before == after else -1 if before else 1

        return first

    def _try(
        self, queue: QueueInfo, job: JobInfo, pending: list[TaskInfo], victims: list[TaskInfo]
    ) -> list[SavedOperation] | None:
        """Evict and pipeline the whole gang, then roll it back; return the operations, None if the gang did not fit."""
        session = self._session
        evictions = session.statement()
        for victim in victims:
            evictions.evict(victim, f"gang{self._kind}")
        pipelined = session.statement()
        placed = self._pipeline_all(pipelined, queue, pending)
        plan = save(evictions, pipelined) if placed and session.job_pipelined(job) else None
        pipelined.discard()
        evictions.discard()
        return plan

    def _pipeline_all(self, statement: Statement, queue: QueueInfo, pending: list[TaskInfo]) -> bool:
        session = self._session
        cache = ErrorCache(enabled=self._cached)
        tasks = session.task_heap(pending)
        while tasks:
            task = tasks.pop()
            if not session.allocatable(queue, task) or pre_predicate(session, task):
                return False
            found = find_nodes(session, task, "simulate", cache, curable_nodes(session, task))
            node = best_with_room(session, task, found.rows)
            if node is None or not session.amounts.fits_row(task.request, session.amounts.future, node.row):
                return False
            if statement.pipeline(task, node.name, evicted=True):
                return False
        return True


def _may_be_disturbed(job: JobInfo) -> bool:
    """Return whether a PodGroup is preemptable or does not specify it."""
    said = PREEMPTABLE in job.group.annotations or PREEMPTABLE in job.group.labels
    return job.preemptable or not said


class Bundle:
    """Tasks of one job that are evicted together."""

    __slots__ = ("freed", "job", "lost", "safe", "tasks")

    def __init__(self, job: JobInfo, tasks: list[TaskInfo], *, safe: bool) -> None:
        self.job = job
        self.tasks = tasks
        self.safe = safe
        self.freed = total(tasks)
        #: The cost: nothing if the gang keeps its minimum, else everything the job requests.
        self.lost = Resource() if safe else total(job.tasks.values())

    def only(self, allowed: set[str]) -> Bundle | None:
        """Return the bundle with allowed tasks only; None for a whole bundle that is not allowed completely."""
        tasks = [task for task in self.tasks if task.uid in allowed]
        if not tasks or (not self.safe and len(tasks) < len(self.tasks)):
            return None
        return self if len(tasks) == len(self.tasks) else Bundle(self.job, tasks, safe=self.safe)

    def worth(self, need: Resource) -> float:
        """Return the ratio of benefit (the freed part of the need) to cost."""
        lost = _against(self.lost, need, capped=False)
        return math.inf if lost == 0 else _against(self.freed, need, capped=True) / lost

    @property
    def identity(self) -> tuple[str, str, int]:
        """The sort key that breaks ties."""
        return self.job.uid, self.tasks[0].uid if self.tasks else "", len(self.tasks)


def total(tasks: Iterable[TaskInfo]) -> Resource:
    """Return the sum of the requests of tasks."""
    result = Resource()
    for task in tasks:
        result.add(task.request)
    return result


def _against(amounts: Resource, need: Resource, *, capped: bool) -> float:
    score = 0.0
    for name in need.names():
        needed = need.get(name)
        if needed > 0:
            amount = amounts.get(name)
            score += (min(amount, needed) if capped else amount) / needed
    return score


def job_bundles(job: JobInfo, tasks: list[TaskInfo]) -> list[Bundle]:
    """Split evictable tasks of a job, the least important first, into those beyond its minimum and the rest."""
    tasks = sorted(tasks, key=lambda task: (task.priority, task.uid))
    surplus = job.ready_count - job.min_available
    if surplus < 0:
        return [Bundle(job, tasks, safe=True)]
    spare: Counter[str] = Counter()
    minimums = job.role_minimums if job.counts_roles else {}
    if minimums:
        ready = job.roles_in(BOUND, BINDING, RUNNING, ALLOCATED, SUCCEEDED, best_effort=True)
        spare.update({role: ready[role] - needed for role, needed in minimums.items()})
    safe, rest = [], []
    for task in tasks:
        counted = task.role in minimums
        if surplus > 0 and (not counted or spare[task.role] > 0):
            safe.append(task)
            surplus -= 1
            if counted:
                spare[task.role] -= 1
        else:
            rest.append(task)
    return [Bundle(job, part, safe=is_safe) for part, is_safe in ((safe, True), (rest, False)) if part]


def in_order(bundles: Iterable[Bundle], need: Resource, first: Callable[[Bundle, Bundle], int]) -> list[Bundle]:
    """Sort safe bundles before whole ones, then by ``first``, then by the highest worth, then by name."""

    def compare(left: Bundle, right: Bundle) -> int:
        if left.safe != right.safe:
            return -1 if left.safe else 1
        answer = first(left, right)
        if answer:
            return answer
        mine, theirs = left.worth(need), right.worth(need)
        if mine != theirs:
            return -1 if mine > theirs else 1
        return -1 if left.identity < right.identity else int(left.identity > right.identity)

    return sorted(bundles, key=functools.cmp_to_key(compare))
