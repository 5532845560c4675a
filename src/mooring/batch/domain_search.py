"""The search for a domain of the network in which a gang, and each part of it, has room.

Volcano places the gang in every domain of a tier, rolls it back, and takes the domain with the best score. Scores do
not depend on these placements, so here all domains are scored first, domains that are too small are left out, and the
best ones are tried first. The first one in which the gang fits is the one that Volcano chooses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.batch.heap import Heap
from mooring.batch.hyper_nodes import Domain
from mooring.batch.job import JobInfo
from mooring.batch.registrations import Purpose
from mooring.batch.resource import MIN_RESOURCE
from mooring.batch.session import Session
from mooring.batch.statement import SavedOperation, Statement, save
from mooring.batch.sub_job import SubJob
from mooring.batch.task import TaskInfo

Floats = npt.NDArray[np.float64]

#: Places tasks of a part within a domain; returns None, and places nothing, if the part is not even pipelined.
PlaceTasks = Callable[[JobInfo, SubJob, Heap[TaskInfo], Domain], Statement | None]


class Worksheet:
    """The tasks of a job that are not placed yet, by part, and the order of the parts."""

    def __init__(self, parts: Heap[SubJob], tasks: dict[str, Heap[TaskInfo]]) -> None:
        self.parts = parts
        self.tasks = tasks

    def __bool__(self) -> bool:
        return bool(self.parts)

    def copy(self) -> Worksheet:
        """Return a copy that can be worked off independently."""
        return Worksheet(self.parts.copy(), {uid: tasks.copy() for uid, tasks in self.tasks.items()})

    def replace(self, other: Worksheet) -> None:
        """Become another worksheet."""
        self.parts, self.tasks = other.parts, other.tasks


def worksheet(session: Session, job: JobInfo, tasks: Sequence[TaskInfo]) -> Worksheet:
    """Return the worksheet of a job: first the parts that its policies need, then the others."""
    found: Counter[str] = Counter()
    unready: Heap[SubJob] = Heap(session.sub_job_less)
    for part in job.sub_jobs.values():
        if session.sub_job_ready(job, part):
            found[part.policy] += 1
        else:
            unready.push(part)
    needed: set[str] = set()
    while unready:
        part = unready.pop()
        if job.needs_part(part, found):
            needed.add(part.uid)
            found[part.policy] += 1

    def less(left: SubJob, right: SubJob) -> bool:
        if (left.uid in needed) != (right.uid in needed):
            return left.uid in needed
        return session.sub_job_less(left, right)

    by_part: dict[str, list[TaskInfo]] = {}
    for task in tasks:
        owner = job.part_of(task)
        assert owner is not None, "jobs with policies or a topology have parts"
        by_part.setdefault(owner.uid, []).append(task)
    heaps = {uid: session.task_heap(waiting) for uid, waiting in by_part.items()}
    return Worksheet(Heap(less, [part for uid, part in job.sub_jobs.items() if uid in heaps]), heaps)


def gradient(session: Session, subject: JobInfo | SubJob, within: Domain, purpose: Purpose) -> list[list[Domain]]:
    """Return the domains to try for a job or a part by tier. The first plugin decides; without one, ``within``."""
    for function in session.all("hyper_node_gradient"):
        found: list[list[Domain]] = function(subject, within, purpose)
        return found
    return [[within]]


class Solution(NamedTuple):
    """A domain in which a job has room."""

    domain: Domain
    score: float
    operations: list[SavedOperation]
    rest: Worksheet
    allocated: dict[str, Domain | None]


class DomainSearch:
    """Finds the domains of jobs in one session."""

    def __init__(self, session: Session, place: PlaceTasks) -> None:
        self._session = session
        self._place = place
        #: Job -> the domain of its last placement, and those of its parts, until the placement is committed.
        self._decisions: dict[str, tuple[Domain, dict[str, Domain | None]]] = {}

    def place(self, job: JobInfo, sheet: Worksheet) -> Statement | None:
        """Place a job in the best domain of the lowest tier. Return None, and place nothing, if it fits in none."""
        self._decisions.pop(job.uid, None)
        before = {uid: part.allocated for uid, part in job.sub_jobs.items()}
        for domains in gradient(self._session, job, self._session.hyper_nodes.cluster, "allocate"):
            statement = self._place_in_group(job, sheet, domains, before)
            if statement is not None:
                return statement
        if not job.fit_errors:
            job.fit_error = self._explain(job)
        return None

    def committed(self, job: JobInfo) -> None:
        """Note the domains of a job whose last placement was committed."""
        decision = self._decisions.pop(job.uid, None)
        if decision is None:
            return
        tree = self._session.hyper_nodes
        job.allocated_domain = tree.common(job.allocated_domain, decision[0])
        for uid, domain in decision[1].items():
            job.sub_jobs[uid].allocated = tree.common(job.sub_jobs[uid].allocated, domain)

    def _place_in_group(
        self, job: JobInfo, sheet: Worksheet, domains: Sequence[Domain], before: dict[str, Domain | None]
    ) -> Statement | None:
        """Place a job in the best of some domains."""
        best: Solution | None = None
        candidates = self._by_bound(job, sheet, domains)
        for number, (bound, domain) in enumerate(candidates):
            if best is not None and bound <= best.score:
                break
            job.fit_errors.clear()
            job.fit_error = ""
            rest = sheet.copy()
            statements, score = self._place_parts(job, rest, domain)
            allocated = {uid: part.allocated for uid, part in job.sub_jobs.items()}
            for uid, part in job.sub_jobs.items():
                part.allocated = before[uid]
            if not statements:
                continue
            fits = self._session.job_ready(job) or self._session.job_pipelined(job)
            if fits and (best is None or score > best.score):
                beaten = number + 1 == len(candidates) or candidates[number + 1][0] <= score
                if beaten:  # no other domain can be better: the placement stays
                    whole = self._session.statement()
                    for statement in statements:
                        whole.merge(statement)
                    return self._decided(job, sheet, Solution(domain, score, [], rest, allocated), whole)
                best = Solution(domain, score, save(*statements), rest, allocated)
            for statement in statements:
                statement.discard()
        if best is None:
            return None
        final = self._session.statement()
        if final.recover(best.operations):
            final.discard()
            return None
        return self._decided(job, sheet, best, final)

    def _decided(self, job: JobInfo, sheet: Worksheet, solution: Solution, statement: Statement) -> Statement:
        sheet.replace(solution.rest)
        self._decisions[job.uid] = (solution.domain, solution.allocated)
        return statement

    def _place_parts(self, job: JobInfo, rest: Worksheet, domain: Domain) -> tuple[list[Statement], float]:
        """Place the parts of a job within a domain, until the job is ready."""
        statements: list[Statement] = []
        total = 0.0
        while rest.parts:
            part = rest.parts.pop()
            statement, score = self._place_part(job, part, rest, domain)
            if statement is None:
                continue
            statements.append(statement)
            total += score
            if rest.tasks[part.uid]:
                rest.parts.push(part)
            if self._session.job_ready(job):
                break
        return statements, total

    def _place_part(
        self, job: JobInfo, part: SubJob, rest: Worksheet, within: Domain
    ) -> tuple[Statement | None, float]:
        """Place a part in the best domain of the lowest tier within a domain. Return its score too."""
        tasks = rest.tasks[part.uid]
        if not tasks:
            return None, 0.0
        room = self._room(part.tasks, self._missing(job, part))
        for group in gradient(self._session, part, within, "allocate"):
            domains = [domain for domain in group if room[domain.index] >= 1.0]
            while domains:
                scores = self._scores(part, domains)
                ties = np.flatnonzero(scores == scores.max())
                place = int(ties[0] if len(ties) == 1 else ties[int(self._session.random.random() * len(ties))])
                domain, score = domains.pop(place), float(scores[place])
                for uid in part.tasks:
                    job.fit_errors.pop(uid, None)
                left = tasks.copy()
                statement = self._place(job, part, left, domain)
                if statement is None or not statement.operations:
                    continue
                part.allocated = self._session.hyper_nodes.common(part.allocated, domain)
                rest.tasks[part.uid] = left
                return statement, score
        return None, 0.0

    def _scores(self, part: SubJob, domains: Sequence[Domain]) -> Floats:
        scores = np.zeros(len(domains))
        for function in self._session.all("hyper_node_order"):
            scores += function(part, domains)
        return scores

    def _by_bound(self, job: JobInfo, sheet: Worksheet, domains: Sequence[Domain]) -> list[tuple[float, Domain]]:
        """Return the domains with the best score that the job can get in each, the highest first.

        The scores of a job with several parts, or with tasks that have a node, are known only after a placement.
        """
        parts = list(job.sub_jobs.values())
        if len(parts) > 1 or any(task.node_name for task in job.tasks.values()):
            whole = self._room(job.tasks, self._missing(job, None))
            return [(np.inf, domain) for domain in domains if whole[domain.index] >= 1.0]
        (part,) = parts
        room = self._room(part.tasks, self._missing(job, part))
        found: list[tuple[float, Domain]] = []
        for domain in domains:
            groups = gradient(self._session, part, domain, "allocate")
            inner = [each for group in groups for each in group if room[each.index] >= 1.0]
            if inner:
                found.append((float(self._scores(part, inner).max()), domain))
        self._session.random.shuffle(found)
        return sorted(found, key=lambda each: -each[0])

    def _missing(self, job: JobInfo, part: SubJob | None) -> int:
        """Return how many more tasks must be placed in a domain; at least one, which suffices without gangs."""
        split = part is not None and job.has_policies
        if not self._session.all("sub_job_pipelined" if split else "job_pipelined"):
            return 1
        return max(part.missing if split and part is not None else job.missing_count, 1)

    def _room(self, tasks: Mapping[str, TaskInfo], missing: int) -> Floats:
        """Return, for every domain, for which share of the missing tasks it has room, at most.

        Below 1 they cannot fit: even tasks that all request only the smallest amount of each resource do not.
        """
        amounts = self._session.amounts
        waiting = [task for task in tasks.values() if not task.node_name and not task.best_effort]
        least: dict[int, float] = {}
        for number, task in enumerate(waiting):
            given = dict(amounts.by_slot(task.request))
            if number == 0:
                least = given
            else:
                least = {slot: min(amount, given[slot]) for slot, amount in least.items() if slot in given}
        rows = np.full(amounts.future.shape[1], float(len(waiting)))
        for slot, amount in least.items():
            if amount > 0:
                np.minimum(rows, np.floor((amounts.future[slot] + MIN_RESOURCE) / amount), out=rows)
        np.maximum(rows, 0.0, out=rows)
        return self._session.hyper_nodes.sums(rows) / missing

    def _explain(self, job: JobInfo) -> str:
        """Return why no domain is large enough, for users."""
        tiers = [tier for tier in (job.highest_tier, *(part.highest_tier for part in job.sub_jobs.values())) if tier]
        limit = f" up to tier {min(tiers)}" if tiers else ""
        if job.allocated_domain is not None and job.highest_tier is not None:
            if job.allocated_domain.tier > job.highest_tier:
                return f"the running pods are not within one HyperNode{limit}, so that no other pod can join them"
            return f"no HyperNode{limit} that contains the running pods has room for the other pods"
        return f"no HyperNode{limit} has room for the gang"
