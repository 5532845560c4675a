"""Topology-aware preemption: try evictions on many nodes without doing them, spare who can be spared, take the best."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.meta import parse_time
from mooring.batch.arguments import Arguments
from mooring.batch.eviction import suffices
from mooring.batch.queue import QueueInfo
from mooring.batch.session import Session, Simulation
from mooring.batch.session_nodes import SessionNode
from mooring.batch.statement import Statement
from mooring.batch.task import TaskInfo

_OFFSET = 2**31


class Candidate(NamedTuple):
    """A node, and who would have to go."""

    node: SessionNode
    victims: list[TaskInfo]


class _Trial:
    """One node as it would be with some tasks gone."""

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
        return self._task.request.fits(self._room) and self.will_do()

    def will_do(self) -> bool:
        return all(simulation.predicate(self._task, self._node) for simulation in self._predicates)


class DryRun:
    """Preemption by trial."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self._session = session
        self._percentage = arguments.integer("minCandidateNodesPercentage", 10)
        self._least = arguments.integer("minCandidateNodesAbsolute", 1)
        self._most = arguments.integer("maxCandidateNodesAbsolute", 100)

    def preempt(
        self, statement: Statement, task: TaskInfo, chooses: Callable[[TaskInfo], bool], rows: npt.NDArray[np.intp]
    ) -> bool:
        """Evict on the node where it hurts least; whether there was one."""
        session = self._session
        count = len(rows)
        if not count:
            return False
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
        """Who would have to go from a node; nobody if it would not help."""
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
        if not gone or not trial.will_do():
            return []
        victims = []
        for each in reversed(gone):  # spare the most important first
            if not trial.add(each):
                return []
            if not trial.fits():
                if not trial.remove(each):
                    return []
                victims.append(each)
        return victims

    def _best(self, candidates: list[Candidate]) -> Candidate:
        """The least important victims, then the least sum of priorities, the fewest, those that started last."""
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
