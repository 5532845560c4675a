"""Bundles: the tasks of a job that would be evicted together for a gang."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable

from mooring.batch.job import JobInfo
from mooring.batch.resource import Resource
from mooring.batch.task import ALLOCATED, BINDING, BOUND, RUNNING, SUCCEEDED, TaskInfo

Less = Callable[["Bundle", "Bundle"], bool | None]


class Bundle:
    """Tasks of one job: *safe* ones, without which its gang still holds, or the *whole* rest of it."""

    __slots__ = ("freed", "job", "lost", "safe", "tasks")

    def __init__(self, job: JobInfo, tasks: list[TaskInfo], *, safe: bool) -> None:
        self.job = job
        self.tasks = tasks
        self.safe = safe
        self.freed = total(tasks)
        #: What is lost with it: nothing if the gang still holds, else everything the job asks for.
        self.lost = Resource() if safe else total(job.tasks.values())

    def only(self, allowed: set[str]) -> Bundle | None:
        """The bundle with allowed tasks only; a whole bundle goes whole or not at all."""
        tasks = [task for task in self.tasks if task.uid in allowed]
        if not tasks or (not self.safe and len(tasks) < len(self.tasks)):
            return None
        return self if len(tasks) == len(self.tasks) else Bundle(self.job, tasks, safe=self.safe)

    def worth(self, need: Resource) -> float:
        """What it frees of the need, for what is lost."""
        lost = _against(self.lost, need, capped=False)
        return math.inf if lost == 0 else _against(self.freed, need, capped=True) / lost

    @property
    def identity(self) -> tuple[str, str, int]:
        """Decides between bundles that are worth the same."""
        return self.job.uid, self.tasks[0].uid if self.tasks else "", len(self.tasks)


def total(tasks: Iterable[TaskInfo]) -> Resource:
    """What some tasks ask for together."""
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
    """Split evictable tasks of a job, the least important first, into what it can spare and the rest."""
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
    """Safe bundles before whole ones, then as ``first`` says, then the most worth, then by name."""

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
