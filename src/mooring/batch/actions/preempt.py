"""preempt: evict tasks for starving jobs of the same queue, and for more important tasks of the same job.

Topology-aware preemption simulates evictions on many nodes, reprieves victims where possible, and chooses the best
node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.meta import parse_time
from mooring.batch.actions.allocate import ERROR_CACHE
from mooring.batch.arguments import Arguments
from mooring.batch.eviction import curable_nodes, suffices
from mooring.batch.fit_errors import Verdict
from mooring.batch.heap import Heap
from mooring.batch.job import JobInfo
from mooring.batch.queue import QueueInfo
from mooring.batch.registrations import Simulation
from mooring.batch.search import ErrorCache, find_nodes, pre_predicate, run_predicate, score_nodes
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.statement import Statement
from mooring.batch.task import EVICTABLE, PENDING, TaskInfo
from mooring.batch.unsupported_requests import NOT_SUPPORTED
from mooring.framework.status import Code

Chooses = Callable[[TaskInfo], bool]
_WITH_TOPOLOGY = (
    "the action preempt, as in Volcano, evicts no pods for a gang with networkTopology; "
    "add the action gangpreempt to the scheduler's configuration, which does"
)


def preempt(session: Session) -> None:
    """Evict tasks of less important jobs of the same queue, then less important tasks of the same job."""
    Preemption(session).run()


class Preemption:
    """One run of the action."""

    def __init__(self, session: Session) -> None:
        self._session = session
        arguments = session.conf.arguments("preempt")
        self._cache = ErrorCache(enabled=arguments.boolean(ERROR_CACHE, True))
        aware = arguments.boolean("enableTopologyAwarePreemption", False)
        self._dry_run = DryRun(session, arguments) if aware else None
        self._tasks: dict[str, Heap[TaskInfo]] = {}

    def run(self) -> None:
        """Process the queues in order."""
        session = self._session
        starving: dict[str, list[JobInfo]] = {}
        for job in session.jobs.values():
            if job.is_pending or session.job_valid(job) is not None or not session.job_starving(job):
                continue
            if job.has_topology:
                session.job_warnings.append((job, NOT_SUPPORTED, _WITH_TOPOLOGY))
                continue
            starving.setdefault(job.queue, []).append(job)
            self._tasks[job.uid] = self._pending(job)
        queues = session.queue_heap()
        for name in starving:
            queues.push(session.queues[name])
        while queues:
            jobs = starving[queues.pop().name]
            self._between_jobs(jobs)
            for job in jobs:
                self._within_job(job)

    def _pending(self, job: JobInfo) -> Heap[TaskInfo]:
        return self._session.task_heap([task for task in job.of_status(PENDING) if not task.gated])

    def _between_jobs(self, starving: list[JobInfo]) -> None:
        session = self._session
        jobs = session.job_heap()
        for job in starving:
            jobs.push(job)
        while jobs:
            job = jobs.pop()
            statement = session.statement()
            assigned = False
            tasks = self._tasks[job.uid]
            while session.job_starving(job) and tasks:
                task = tasks.pop()
                assigned = self._preempt(statement, task, self._of_other_jobs(job, task))
            if not session.job_pipelined(job):
                statement.discard()
                continue
            statement.commit()
            if assigned:
                jobs.push(job)

    def _within_job(self, job: JobInfo) -> None:
        tasks = self._pending(job)
        while tasks:
            task = tasks.pop()
            statement = self._session.statement()
            if not self._preempt(statement, task, _of_same_job(task)):
                statement.discard()
                break
            statement.commit()

    def _of_other_jobs(self, job: JobInfo, task: TaskInfo) -> Chooses:
        def chooses(other: TaskInfo) -> bool:
            if not _evictable(task, other) or other.job == task.job:
                return False
            owner = self._session.jobs.get(other.job)
            return owner is not None and owner.queue == job.queue

        return chooses

    def _preempt(self, statement: Statement, task: TaskInfo, chooses: Chooses) -> bool:
        """Evict some of the candidates for a task; return whether the task then has a node."""
        session = self._session
        if not self._eligible(task) or pre_predicate(session, task):
            return False
        found = find_nodes(session, task, "evict", self._cache, curable_nodes(session, task))
        if self._dry_run is not None:
            return self._dry_run.preempt(statement, task, chooses, found.rows)
        scores = score_nodes(session, task, found.rows)
        if scores is None:
            return False
        for place in np.argsort(-scores, kind="stable").tolist():
            if self._preempt_on(statement, task, chooses, int(found.rows[place])):
                return True
        return False

    def _preempt_on(self, statement: Statement, task: TaskInfo, chooses: Chooses, row: int) -> bool:
        session = self._session
        node = session.node_list[row]
        queue = session.queues[session.jobs[task.job].queue]
        victims = session.preemptable(task, [other for other in node.tasks.values() if chooses(other)])
        if not suffices(task, node, victims):
            return False

        def fits() -> bool:
            return session.allocatable(queue, task) and session.amounts.fits_row(
                task.request, session.amounts.future, row
            )

        step = session.statement()
        waiting = session.victim_heap(victims, task)
        evicted = False
        while waiting and not fits():
            victim = waiting.pop()
            step.evict(victim, "preempt")
            evicted = evicted or not victim.request.is_empty
        session.preemption_attempts += 1
        if fits() and not step.pipeline(task, node.name, evicted=evicted):
            statement.merge(step)
            return True
        step.discard()
        return False

    def _eligible(self, task: TaskInfo) -> bool:
        """Return whether a task may preempt: its policy allows it, and no preemption for it is in progress."""
        if not task.pod.may_preempt:
            return False
        nominated = task.pod.status.nominated_node_name
        if not nominated:
            return True
        node = self._session.nodes.get(nominated)
        verdict = self._verdict(task, node.row) if node is not None else None
        if node is None or verdict is None:
            return False
        if any(status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for status in verdict):
            return True
        return not any(
            other.pod.priority < task.pod.priority and _is_being_preempted(other) for other in node.tasks.values()
        )

    def _verdict(self, task: TaskInfo, row: int) -> Verdict | None:
        """Return the verdict of the first predicate that rejects a node; None if all pass."""
        session = self._session
        only = np.zeros(len(session.node_list), dtype=np.bool_)
        only[row] = True
        for callback in session.all("predicate"):
            outcome = run_predicate(session, task, callback, only)
            if outcome is not None and outcome.failed[row]:
                verdict: Verdict = outcome.verdict(row)
                return verdict
        return None


def _evictable(task: TaskInfo, other: TaskInfo) -> bool:
    return other.status in EVICTABLE and other.preemptable and (other.best_effort or not task.best_effort)


def _of_same_job(task: TaskInfo) -> Chooses:
    return lambda other: _evictable(task, other) and other.job == task.job


def _is_being_preempted(task: TaskInfo) -> bool:
    if not task.pod.is_terminating:
        return False
    condition = task.pod.condition("DisruptionTarget")
    return condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"


_OFFSET = 2**31


class Candidate(NamedTuple):
    """A node and the tasks to evict there."""

    node: SessionNode
    victims: list[TaskInfo]


class _Trial:
    """A simulation of one node without some tasks."""

    def __init__(self, session: Session, task: TaskInfo, node: SessionNode, queue: QueueInfo) -> None:
        self._task, self._node, self._queue = task, node, queue
        self._room = node.future_idle
        options = {option.name: option for option in session.conf.options()}
        made: list[tuple[str, Simulation]] = [(name, make(task)) for name, make in session.named("simulation")]
        self._moves = [s for n, s in made if options[n].enabled("Preemptable") or options[n].enabled("Allocatable")]
        self._quotas = [s for n, s in made if options[n].enabled("Allocatable")]
        self._predicates = [s for n, s in made if options[n].enabled("Predicate")]

    def remove(self, task: TaskInfo) -> bool:
        self._room.add(task.request)
        return all(simulation.remove(task, self._node) for simulation in self._moves)

    def add(self, task: TaskInfo) -> bool:
        self._room.sub(task.request)
        return all(simulation.add(task, self._node) for simulation in self._moves)

    def fits(self) -> bool:
        if not all(simulation.allocatable(self._queue, self._task) for simulation in self._quotas):
            return False
        return self._task.request.fits(self._room) and self.passes_predicates()

    def passes_predicates(self) -> bool:
        return all(simulation.predicate(self._task, self._node) for simulation in self._predicates)


class DryRun:
    """Topology-aware preemption."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self._session = session
        self._percentage = arguments.integer("minCandidateNodesPercentage", 10)
        self._least = arguments.integer("minCandidateNodesAbsolute", 1)
        self._most = arguments.integer("maxCandidateNodesAbsolute", 100)

    def preempt(
        self, statement: Statement, task: TaskInfo, chooses: Callable[[TaskInfo], bool], rows: npt.NDArray[np.intp]
    ) -> bool:
        """Evict on the best node; return whether there is one."""
        session = self._session
        count = len(rows)
        if not count:
            return False
        session.preemption_attempts += 1
        wanted = min(max(count * self._percentage // 100, self._least), self._most, count)
        start = int(session.random.random() * count)
        candidates: list[Candidate] = []
        for number in range(count):
            node = session.node_list[int(rows[(start + number) % count])]
            victims = self._victims(task, node, chooses)
            if victims:
                candidates.append(Candidate(node, victims))
                if len(candidates) >= wanted:
                    break
        if not candidates:
            return False
        best = self._best(candidates)
        step = session.statement()
        for victim in best.victims:
            step.evict(victim, "preempt")
        if step.pipeline(task, best.node.name, evicted=True):
            step.discard()
            return False
        statement.merge(step)
        return True

    def _victims(self, task: TaskInfo, node: SessionNode, chooses: Callable[[TaskInfo], bool]) -> list[TaskInfo]:
        """Return the tasks to evict from a node; none if evictions do not help."""
        session = self._session
        allowed = session.preemptable(task, [other for other in node.tasks.values() if chooses(other)])
        if not suffices(task, node, allowed):
            return []
        trial = _Trial(session, task, node, session.queues[session.jobs[task.job].queue])
        waiting = session.victim_heap(allowed, task)
        gone: list[TaskInfo] = []
        while waiting:
            gone.append(waiting.pop())
            if not trial.remove(gone[-1]):
                return []
            if trial.fits():
                break
        if not gone or not trial.passes_predicates():
            return []
        victims = []
        for each in reversed(gone):  # reprieve the most important first
            if not trial.add(each):
                return []
            if not trial.fits():
                if not trial.remove(each):
                    return []
                victims.append(each)
        return victims

    def _best(self, candidates: list[Candidate]) -> Candidate:
        """Return the best candidate: least important victims, lowest sum of priorities, fewest, started last."""
        now = self._session.now
        keys: tuple[Callable[[Candidate], float], ...] = (
            lambda each: -each.victims[0].pod.priority,
            lambda each: -sum(victim.pod.priority + _OFFSET for victim in each.victims),
            lambda each: -len(each.victims),
            lambda each: _earliest_start(each.victims, now),
        )
        for key in keys:
            top = max(map(key, candidates))
            candidates = [each for each in candidates if key(each) == top]
            if len(candidates) == 1:
                break
        return candidates[0]


def _earliest_start(victims: list[TaskInfo], now: float) -> float:
    top = max(victim.pod.priority for victim in victims)
    starts = (victim.pod.status.start_time for victim in victims if victim.pod.priority == top)
    return min(parse_time(start) if start else now for start in starts)
