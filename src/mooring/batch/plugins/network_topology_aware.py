"""network-topology-aware: the domains of a gang by tier, and the scores of domains and nodes.

Hot path. The amounts of all domains are columns, and every domain is scored at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mooring.batch.hyper_nodes import Domain
from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.plugins.weights import resource_weights
from mooring.batch.registrations import Purpose, on_node_alone
from mooring.batch.resource import MIN_RESOURCE, Resource
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.sub_job import SubJob
from mooring.batch.task import ALLOCATED, PENDING, PIPELINED, TaskInfo

Floats = npt.NDArray[np.float64]

_FULL = 100.0
_FADING = 0.8
_MAX_EVICTION_DOMAINS = 8


class NetworkTopologyAware(BatchPlugin):
    """Places gangs in the smallest domain that has room for them, and fills domains before it starts others."""

    name = "network-topology-aware"

    def on_session_open(self, session: Session) -> None:
        """Sum the amounts of all domains, and register callbacks."""
        arguments, tree, amounts = self.arguments, session.hyper_nodes, session.amounts
        self._session, self._tree = session, tree
        weight = arguments.integer("weight", 1)
        self._scale = _FULL * (1 if weight < 0 else weight)
        self._weights = resource_weights(arguments, "hypernode.binpack")
        self._scores_others = arguments.boolean("hypernode.binpack.normal-pod.enable", True)
        fading = arguments.number("hypernode.binpack.normal-pod.fading", _FADING)
        self._fading = _FADING if fading < 0 else fading
        most = arguments.integer("hypernode.gradient.evict.max-hypernodes", _MAX_EVICTION_DOMAINS)
        self._most = most if most > 0 else _MAX_EVICTION_DOMAINS
        self._allocatable = _per_domain(session, amounts.allocatable)
        self._used = _per_domain(session, amounts.used)
        #: As in Volcano, these do not change during a session.
        self._idle = _per_domain(session, amounts.idle)
        self._future = _per_domain(session, amounts.future)
        self._tiers = np.array([each.tier for each in tree.domains])
        self._by_tier = [(tier, tree.of_tier(tier)) for tier in tree.tiers]
        #: Part -> the number of its tasks in each domain of the lowest tier.
        self._placed: dict[str, npt.NDArray[np.int64]] = {}
        #: Part, and whether only pending tasks count -> the position in the changes, and the sum of the requests.
        self._requests: dict[tuple[str, bool], tuple[int, Resource]] = {}
        #: The index of a domain -> how near each domain is to it.
        self._nearness: dict[int, Floats] = {}
        session.add_hyper_node_gradient(self._gradient)
        session.add_hyper_node_order(self._domain_scores)
        session.add_batch_node_order(self._node_scores, columns=True, depends=on_node_alone, live=True)
        session.add_event_handler(self._count, self._discount)

    # The domains of a gang

    def _gradient(self, subject: JobInfo | SubJob, within: Domain, purpose: Purpose) -> list[list[Domain]]:
        """Return the domains with room for a job or a part by tier, the lowest first (to evict: the highest first)."""
        highest = subject.highest_tier
        if highest is None:
            return [[within]]
        if isinstance(subject, JobInfo):
            allocated, least = subject.allocated_domain, subject.minimum()
        else:
            allocated, least = subject.allocated, self._request(subject, pending=True)
        root = self._root(within, highest, allocated)
        if root is None:
            return []
        domains = root.subtree()
        places = [each.index for each in domains]
        suits = self._tiers[places] <= highest
        if allocated is None:
            suits &= self._has_room(least, purpose)[places]
        groups: dict[int, list[Domain]] = {}
        for place in np.flatnonzero(suits).tolist():
            groups.setdefault(domains[place].tier, []).append(domains[place])
        ascending = [groups[tier] for tier in sorted(groups)]
        return ascending if purpose == "allocate" else self._capped(ascending)

    def _root(self, within: Domain, highest: int, allocated: Domain | None) -> Domain | None:
        """Return the domain to search: within the given one, and around the tasks that have a node."""
        if allocated is None:
            return within
        allowed = [each for each in allocated.ancestors() if each.tier <= highest]
        if not allowed or allocated.tier > highest:
            return None
        limit = allowed[-1]
        common = self._tree.common(within, limit)
        return within if common is limit else limit if common is within else None

    def _has_room(self, least: Resource, purpose: Purpose) -> npt.NDArray[np.bool_]:
        if purpose == "evict":
            return self._fits(least, self._allocatable)
        return self._fits(least, self._idle) | self._fits(least, self._future)

    def _fits(self, least: Resource, room: Floats) -> npt.NDArray[np.bool_]:
        result = np.ones(len(self._tiers), dtype=np.bool_)
        for name in least.names():
            slot = self._session.amounts.slots.get(name)
            enough = 0.0 if slot is None else room[slot]
            result &= enough > least.get(name) - MIN_RESOURCE
        return result

    def _capped(self, ascending: list[list[Domain]]) -> list[list[Domain]]:
        left, result = self._most, []
        for group in reversed(ascending):
            if left:
                result.append(group[-left:])
                left -= len(result[-1])
        return result

    def _request(self, part: SubJob, *, pending: bool) -> Resource:
        """Return the sum of the requests of all (pending) tasks of a part; it is the same until a task is moved."""
        position = self._session.changes.position
        known = self._requests.get((part.uid, pending))
        if known is None or known[0] != position:
            total = Resource()
            for task in part.tasks.values():
                if not pending or task.status == PENDING:
                    total.add(task.request)
            known = self._requests[(part.uid, pending)] = (position, total)
        return known[1]

    # Scores of domains

    def _domain_scores(self, part: SubJob, domains: Sequence[Domain]) -> Floats:
        """Prefer the fullest domain; among equal ones, that with most tasks of the part."""
        places = [each.index for each in domains]
        scores: Floats = self._fullness(self._request(part, pending=False))[places]
        top = scores == scores.max()
        if np.count_nonzero(top) > 1 and part.tasks:
            for place in np.flatnonzero(top).tolist():
                scores[place] += self._tasks_within(part, domains[place]) / len(part.tasks)
        return scores * self._scale

    def _fullness(self, request: Resource) -> Floats:
        """Return the utilization of every domain with a further request; 0 where it does not fit."""
        total, weights = np.zeros(len(self._tiers)), 0
        too_full = np.zeros(len(self._tiers), dtype=np.bool_)
        for name in request.names():
            weight, slot = self._weights.get(name), self._session.amounts.slots.get(name)
            if weight is None:
                continue
            needed = request.get(name)
            offered = 0.0 * total if slot is None else self._allocatable[slot]
            in_use = needed + (0.0 if slot is None else self._used[slot])
            too_full |= in_use > offered
            total += np.divide(in_use * weight, offered, out=np.zeros(len(total)), where=offered > 0)
            weights += weight
        if weights <= 0:
            return np.zeros(len(total))
        return np.where(too_full, 0.0, total / weights)

    def _tasks_within(self, part: SubJob, domain: Domain) -> int:
        rows = (self._tree.row_of.get(task.node_name) for task in part.tasks.values() if task.node_name)
        return sum(row is not None and domain.index in self._tree.containing(row) for row in rows)

    # Scores of nodes

    def _node_scores(self, task: TaskInfo, nodes: SessionNodes) -> Floats:
        job = self._session.jobs.get(task.job)
        if job is None:
            return np.zeros(len(nodes))
        part = job.part_of(task)
        if part is None or part.topology is None:
            return self._scores_of_others(task, nodes) * self._scale
        if part.current is None:
            return np.zeros(len(nodes))
        lowest = self._tree.lowest if nodes.rows is None else self._tree.lowest[nodes.rows]
        near = self._nearness.get(part.current.index)
        if near is None:
            near = self._nearness[part.current.index] = self._near(part.current)
        scores: Floats = near[lowest]  # the last entry is that of nodes in no domain
        top = scores == scores.max(initial=0.0)
        if np.count_nonzero(top) > 1:
            counts = self._counts(part)
            scores[top] += counts[lowest[top]] / len(part.tasks)
        return scores * self._scale

    def _near(self, current: Domain) -> Floats:
        """Return a score for each domain: the higher, the lower the tier of the domain that contains both."""
        tiers = self._tree.tiers
        least, most = tiers[0], tiers[-1]
        scores = np.zeros(len(self._tiers) + 1)
        for each in self._tree.domains:
            if each is current or least == most:
                scores[each.index] = 1.0
            elif each.tier == least:
                common = self._tree.common(each, current)
                assert common is not None, "the cluster contains both"
                scores[each.index] = (most - common.tier) / (most - least)
        return scores

    def _scores_of_others(self, task: TaskInfo, nodes: SessionNodes) -> Floats:
        """Pods without a topology fill domains, so that others stay empty; nodes outside of domains come first."""
        scores = np.zeros(len(nodes))
        if not self._scores_others:
            return scores
        fullness = np.append(self._fullness(task.request), 1.0)
        tiers, total = dict(self._by_tier), 0.0
        for tier in range(self._tree.tiers[0], self._tree.tiers[-1] + 1):
            weight = self._fading ** (tier - 1) if self._fading or tier >= 1 else 0.0
            total += weight
            owners = tiers.get(tier)
            if owners is None:
                scores += weight
            else:
                scores += weight * fullness[owners if nodes.rows is None else owners[nodes.rows]]
        return scores / total if total > 0 else np.zeros(len(nodes))

    # Placements

    def _counts(self, part: SubJob) -> npt.NDArray[np.int64]:
        counts = self._placed.get(part.uid)
        if counts is None:
            counts = self._placed[part.uid] = np.zeros(len(self._tiers) + 1, dtype=np.int64)
            for task in part.tasks.values():
                row = self._tree.row_of.get(task.node_name)
                if row is not None:
                    counts[self._tree.lowest[row]] += 1
            counts[-1] = 0
        return counts

    def _count(self, task: TaskInfo) -> None:
        self._change(task, 1, task.status in (ALLOCATED, PIPELINED))

    def _discount(self, task: TaskInfo) -> None:
        self._change(task, -1, task.status == PENDING)

    def _change(self, task: TaskInfo, sign: int, moved: bool) -> None:
        row = self._tree.row_of.get(task.node_name)
        if row is None:
            return
        domains = self._tree.containing(row)
        for slot, amount in self._session.amounts.by_slot(task.request):
            self._used[slot, domains] += sign * amount
        job = self._session.jobs.get(task.job)
        part = None if job is None else job.part_of(task)
        counts = None if part is None else self._placed.get(part.uid)
        if moved and counts is not None and self._tree.lowest[row] >= 0:
            counts[self._tree.lowest[row]] += sign


def _per_domain(session: Session, columns: Floats) -> Floats:
    return np.array([session.hyper_nodes.sums(column) for column in columns])
