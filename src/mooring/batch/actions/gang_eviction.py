"""gangpreempt and gangreclaim: evict tasks for a whole gang at once, within one domain of the network.

A *bundle* is a set of tasks of one job that are evicted together: *safe* ones, without which its gang still has its
minimum, or the *whole* rest of it.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

import numpy as np

from mooring.batch.actions.allocate import ERROR_CACHE
from mooring.batch.domain_search import gradient, worksheet
from mooring.batch.eviction import EvictionContext, curable_nodes
from mooring.batch.heap import Heap
from mooring.batch.hyper_nodes import Domain
from mooring.batch.job import JobInfo
from mooring.batch.queue import QueueInfo
from mooring.batch.resource import Resource
from mooring.batch.search import ErrorCache, best_with_room, find_nodes, pre_predicate
from mooring.batch.session import Session
from mooring.batch.statement import SavedOperation, Statement, save
from mooring.batch.sub_job import SubJob
from mooring.batch.task import ALLOCATED, BINDING, BOUND, EVICTABLE, PENDING, PREEMPTABLE, RUNNING, SUCCEEDED, TaskInfo

_MAX_DOMAINS = 8
Item = TypeVar("Item")
#: A part of a gang (None: the whole gang, which is not split) and its pending tasks in order.
Waiting = tuple[SubJob | None, list[TaskInfo]]


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
        most = arguments.integer("maxDomains", _MAX_DOMAINS)
        self._most = most if most > 0 else _MAX_DOMAINS
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
        parts = self._waiting(job)
        pending = [task for _, tasks in parts for task in tasks]
        if not pending or not session.nodes:
            return None
        if self._kind == "reclaim" and not session.preemptive(queue, pending):
            return None
        need = total(pending)
        for domain in self._domains(job):
            plan = self._plan_in(domain, queue, job, parts, need)
            if plan is not None:
                return plan
        return None

    def _waiting(self, job: JobInfo) -> list[Waiting]:
        """Return the pending tasks of the parts of a gang; of a gang that is ready already, those of one part."""
        session = self._session
        pending = [task for task in job.of_status(PENDING) if not task.gated and not task.best_effort]
        if not job.sub_jobs:
            return [(None, _in_order(session.task_heap(pending)))]
        sheet = worksheet(session, job, pending)
        order: list[Waiting] = [(part, _in_order(sheet.tasks[part.uid])) for part in _in_order(sheet.parts)]
        return order[:1] if session.job_ready(job) else order

    def _domains(self, job: JobInfo) -> list[Domain]:
        """Return the domains in which tasks may be evicted, the largest first."""
        cluster = self._session.hyper_nodes.cluster
        found = [domain for group in gradient(self._session, job, cluster, "evict") for domain in group]
        if not found and not job.searches_tiers:
            found = [cluster]
        return found[: self._most]

    def _plan_in(
        self, domain: Domain, queue: QueueInfo, job: JobInfo, parts: list[Waiting], need: Resource
    ) -> list[SavedOperation] | None:
        """Return the operations that place a gang within a domain."""
        session = self._session
        room = Resource()
        for row in domain.rows.tolist():
            node = session.node_list[row]
            room.add(node.idle).add(node.releasing)
        victims: list[TaskInfo] = []
        for bundle in self._bundles(job, need, domain):
            victims += bundle.tasks
            if need.fits(room.clone().add(total(victims))):
                plan = self._try(queue, job, parts, victims, domain)
                if plan is not None:
                    return plan
        return None

    def _bundles(self, job: JobInfo, need: Resource, domain: Domain) -> list[Bundle]:
        """Return the bundles that may be evicted for a job within a domain, in order."""
        session = self._session
        by_job: dict[str, list[TaskInfo]] = {}
        for row in domain.rows.tolist():
            for task in session.node_list[row].tasks.values():
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
        self, queue: QueueInfo, job: JobInfo, parts: list[Waiting], victims: list[TaskInfo], domain: Domain
    ) -> list[SavedOperation] | None:
        """Evict and pipeline the gang, then roll it back; return the operations, None if the gang did not fit."""
        session = self._session
        was_ready = session.job_ready(job)
        steps = [session.statement()]
        for victim in victims:
            steps[0].evict(victim, f"gang{self._kind}")
        fits = False
        for part, tasks in parts:
            step = self._pipeline_part(queue, job, part, tasks, domain)
            if step is None:
                fits = False
                break
            steps.append(step)
            fits = session.job_pipelined(job)
            if was_ready or fits:
                break
        plan = save(*steps) if fits else None
        for step in reversed(steps):
            step.discard()
        return plan

    def _pipeline_part(
        self, queue: QueueInfo, job: JobInfo, part: SubJob | None, tasks: list[TaskInfo], within: Domain
    ) -> Statement | None:
        """Pipeline all tasks of a part in the first domain, from the largest, that has room for them."""
        session = self._session
        domains = [within]
        if part is not None and job.searches_tiers:
            domains = [domain for group in gradient(session, part, within, "evict") for domain in group]
        for domain in domains:
            step = session.statement()
            if self._pipeline_all(step, queue, tasks, domain) and (
                session.sub_job_ready(job, part) or session.sub_job_pipelined(job, part)
            ):
                return step
            step.discard()
        return None

    def _pipeline_all(self, statement: Statement, queue: QueueInfo, tasks: list[TaskInfo], domain: Domain) -> bool:
        session = self._session
        cache = ErrorCache(enabled=self._cached)
        inside = None
        if domain is not session.hyper_nodes.cluster:
            inside = np.zeros(len(session.node_list), dtype=np.bool_)
            inside[domain.rows] = True
        for task in tasks:
            if not session.allocatable(queue, task) or pre_predicate(session, task):
                return False
            curable = curable_nodes(session, task)
            allowed = curable if inside is None else inside if curable is None else inside & curable
            found = find_nodes(session, task, "simulate", cache, allowed)
            node = best_with_room(session, task, found.rows)
            if node is None or not session.amounts.fits_row(task.request, session.amounts.future, node.row):
                return False
            if statement.pipeline(task, node.name, evicted=True):
                return False
        return True


def _in_order(heap: Heap[Item]) -> list[Item]:
    return [heap.pop() for _ in range(len(heap))]


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
    parts = _PartSurplus(job)
    safe, rest = [], []
    for task in tasks:
        counted = task.role in minimums
        if surplus > 0 and (not counted or spare[task.role] > 0) and parts.can_lose(task):
            safe.append(task)
            surplus -= 1
            parts.lose(task)
            if counted:
                spare[task.role] -= 1
        else:
            rest.append(task)
    return [Bundle(job, part, safe=is_safe) for part, is_safe in ((safe, True), (rest, False)) if part]


class _PartSurplus:
    """How many complete parts of each policy a job can lose. A part that lost a task is not complete any more."""

    def __init__(self, job: JobInfo) -> None:
        self._job = job if job.has_policies else None
        self._broken = {part.uid for part in job.sub_jobs.values() if not part.is_ready}
        self._spare = job.spare_parts()

    def can_lose(self, task: TaskInfo) -> bool:
        """Return whether enough parts are complete without a task."""
        part = None if self._job is None else self._job.part_of(task)
        return part is None or part.uid in self._broken or self._spare[part.policy] > 0

    def lose(self, task: TaskInfo) -> None:
        """Count a task as evicted."""
        part = None if self._job is None else self._job.part_of(task)
        if part is not None and part.uid not in self._broken:
            self._broken.add(part.uid)
            self._spare[part.policy] -= 1


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
