"""Resource allocation scores: how much of a node's resources a pod would leave or use, for NodeResourcesFit."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.resources import (
    CPU,
    DEFAULT_RULES,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    RequestRules,
    amounts,
    is_scalar,
    is_tracked,
    pod_requests,
    pod_requests_for_score,
)
from mooring.framework import NodeTable, PodTemplate
from mooring.framework.normalize import truncated, truncated_all
from mooring.framework.placements import Placements
from mooring.plugins.node_resources.columns import EXACT_LIMIT, ResourceColumns
from mooring.plugins.node_resources.scoring import ScoringStrategy, Strategy, make_strategy

Floats = npt.NDArray[np.float64]

Ints = npt.NDArray[np.int64]

Rows = npt.NDArray[np.intp]
#: For each resource that applies to a pod: its index, the request, its weight.
Plan = tuple[tuple[int, int, int], ...]

_ONE_BIT = np.int32(1)


class FitColumns(ResourceColumns):
    """Adds the dividend and the divisor of scores; a node without the resource divides by infinity and scores 0."""

    def __init__(self, table: NodeTable, resources: list[str], sign: int) -> None:
        super().__init__(table, resources, nonzero=True)
        self._sign = sign
        self.scaled: Floats = self.capacity
        self.scaled_rows: list[Floats] = list(self.scaled)
        self.divisor: Floats = self.capacity

    def _derive_all(self) -> None:
        self.scaled = 100 * (self.used if self._sign > 0 else self.capacity - self.used)
        self.scaled_rows = list(self.scaled)
        # The same column if possible: it is more often in the processor's cache.
        self.divisor = np.where(self.capacity == 0, np.inf, self.capacity) if self.any_missing else self.capacity

    def _derive(self, rows: Rows) -> None:
        capacity, used = self.capacity[:, rows], self.used[:, rows]
        self.scaled[:, rows] = 100 * (used if self._sign > 0 else capacity - used)
        self._separate_divisor()
        if self.divisor is not self.capacity:
            self.divisor[:, rows] = np.where(capacity == 0, np.inf, capacity)

    def _derive_use(self, row: int, amounts: list[tuple[int, int]]) -> None:
        scaled, sign = self.scaled, self._sign
        for index, (used, capacity) in enumerate(amounts):
            scaled[index, row] = 100.0 * (used if sign > 0 else capacity - used)

    def _separate_divisor(self) -> None:
        """Copy the column before a divisor is not the capacity."""
        if self.divisor is self.capacity and self.any_missing:
            self.divisor = self.capacity.copy()


def _is_huge(plan: Plan) -> bool:
    for _, amount, _ in plan:  # a plain loop, since this runs for every pod and plans are short
        if amount > EXACT_LIMIT:
            return True
    return False


class AllocationScorer:
    """Scores nodes for a pod by one strategy."""

    def __init__(self, table: NodeTable, args: ScoringStrategy) -> None:
        self._strategy: Strategy = make_strategy(args)
        # A resource that the scheduler does not track has no capacity on any node, and is ignored.
        self._resources = [spec for spec in args.resources if is_tracked(spec.name)]
        self._even = len({spec.weight for spec in self._resources}) == 1 and not self._strategy.picky
        #: For each resource its index, its name, its weight, and whether it applies only to pods that request it.
        self._terms = [
            (index, spec.name, spec.weight, is_scalar(spec.name)) for index, spec in enumerate(self._resources)
        ]
        self._columns = FitColumns(table, [spec.name for spec in self._resources], self._strategy.sign)

    def plan(self, template: PodTemplate) -> Plan:
        """Return the resources that apply to a pod: no unrequested extended resources."""
        asked = self._asked(template)
        plan = []
        for index, name, weight, if_requested in self._terms:
            amount = asked.get(name, 0)
            if amount or not if_requested:
                plan.append((index, amount, weight))
        return tuple(plan)

    @staticmethod
    def _asked(template: PodTemplate) -> dict[str, int]:
        pod = template.pod
        if pod.spec.resources is None and not has_given_amounts(pod):
            cpu, memory = template.nonzero
            return {**template.requests, CPU: cpu, MEMORY: memory}
        # Upstream's scorer ignores pod-level requests and allocated resources.
        return pod_requests_for_score(pod, use_status=False, rules=_CONTAINERS)

    def score_row(self, plan: Plan, row: int) -> int:
        """Return the score of one row."""
        strategy, columns = self._strategy, self._columns
        total = weights = 0
        for index, amount, weight in plan:
            capacity, used = columns.amounts_at(index, row)
            if capacity == 0:
                continue
            rating = strategy.rate(used + amount, capacity)
            if rating > 0 or not strategy.picky:
                total += rating * weight
                weights += weight
        if weights == 0:
            return 0
        return int(total / weights + 0.5) if strategy.picky else truncated(total, weights)

    def score_rows(self, plan: Plan, rows: Rows | None) -> Ints | int:
        """Return the scores of some rows (None: all), as a new vector."""
        columns = self._columns
        if not plan:
            return 0
        if rows is not None and columns.few(rows):
            return np.array([self.score_row(plan, row) for row in rows.tolist()], dtype=np.int64)
        columns.refresh()
        if not columns.exact or _is_huge(plan):
            return self._score_ints(plan, rows)
        if rows is None and self._even and len(plan) == len(self._terms) and not columns.any_missing:
            return self._score_all(plan)
        if columns.sparse(rows):
            return self._score_floats(plan, rows)
        scores = self._score_floats(plan, None)
        return scores if rows is None else scores[rows]

    def _score_floats(self, plan: Plan, rows: Rows | None) -> Ints:
        columns, strategy = self._columns, self._strategy
        count = len(columns.table) if rows is None else len(rows)
        total, work, weights = columns.scratch[:3, :count]
        if strategy.picky or any(columns.missing[index] for index, _, _ in plan):
            return self._score_unevenly(plan, rows, total, work, weights)
        for number, (index, amount, weight) in enumerate(plan):
            rated = work if number else total
            self._rate(index, amount, rows, rated)
            if weight != 1:
                rated *= weight
            if number:
                total += work
        even = sum(weight for _, _, weight in plan)
        if even == 2:
            total *= 0.5
        elif even != 1:
            total /= even
        scores: Ints = total.astype(np.int64)
        return scores

    def _score_all(self, plan: Plan) -> Ints:
        """Score the most frequent case: all rows, all resources, equal weights."""
        columns, factor, rated = self._columns, 100.0 * self._strategy.sign, self._columns.work
        rows, room, overcommitted = columns.work_rows, columns.room, False
        for (index, amount, _), scaled, row in zip(plan, columns.scaled_rows, rows, strict=True):
            np.add(scaled, factor * amount, row)
            if room[index] < amount and not columns.have_room(index, amount):
                overcommitted = True
        np.divide(rated, columns.divisor, rated)
        if overcommitted:
            self._strategy.limit_floats(rated, overcommitted=True)
        ratings = columns.whole  # from 0 to 100, so that dropping the fraction is rounding down
        ratings[:] = rated
        total, *others = columns.whole_rows
        for other in others:
            np.add(total, other, out=total)
        if len(plan) == 2:
            np.right_shift(total, _ONE_BIT, out=total)
        elif len(plan) > 2:
            np.floor_divide(total, np.int32(len(plan)), out=total)
        return total.astype(np.int64)

    def _rate(self, index: int, amount: int, rows: Rows | None, out: Floats) -> None:
        columns = self._columns
        scaled, divisor = columns.scaled[index], columns.divisor[index]
        if rows is not None:
            scaled, divisor = scaled[rows], divisor[rows]
        np.add(scaled, 100.0 * self._strategy.sign * amount, out=out)
        np.divide(out, divisor, out=out)
        self._strategy.limit_floats(out, overcommitted=True)
        self._strategy.rate_floats(out)

    def _score_unevenly(self, plan: Plan, rows: Rows | None, total: Floats, work: Floats, weights: Floats) -> Ints:
        """Score if the sum of weights differs between nodes."""
        picky = self._strategy.picky
        total[:] = 0
        weights[:] = 0
        for index, amount, weight in plan:
            self._rate(index, amount, rows, work)
            capacity = self._columns.capacity[index]
            counts = (capacity if rows is None else capacity[rows]) != 0
            if picky:
                counts &= work > 0
            work *= counts
            work *= weight
            total += work
            weights += counts * float(weight)
        np.maximum(weights, 1, out=weights)
        total /= weights
        if picky:
            total += 0.5
        return total.astype(np.int64)

    def score_placements(self, placements: Placements, pods: Mapping[PodTemplate, Ints]) -> Ints:
        """Return the scores of sets of nodes, each counted as one large node, with some pods of each template."""
        strategy, count = self._strategy, len(placements)
        total, weights = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for index, spec in enumerate(self._resources):
            asked = np.zeros(count, dtype=np.int64)
            for template, placed in pods.items():
                asked += self._asked(template).get(spec.name, 0) * placed
            capacity, used = self._columns.amounts(index)
            offered, taken = placements.sums(capacity), placements.sums(np.where(capacity == 0, 0, used))
            counted = (offered != 0) & ((asked != 0) | (not is_scalar(spec.name)))
            rated = strategy.rate_ints(taken + asked, np.where(counted, offered, 1))
            total += rated * counted * spec.weight
            weights += counted * spec.weight
        np.maximum(weights, 1, out=weights)
        return truncated_all(total, weights)

    def names_of(self, plan: Plan) -> list[str]:
        """Return the resources of a plan."""
        return [self._resources[index].name for index, _, _ in plan]

    def score_with_devices(self, plan: Plan, rows: Rows | None, counts: Mapping[str, tuple[Ints, Ints]]) -> Ints:
        """Return the scores of some rows if classes provide resources where no device plugin does.

        ``counts`` are the devices, and the allocated ones, of such resources by row.
        """
        self._columns.refresh()
        return self._score_ints(plan, rows, counts)

    def _score_ints(self, plan: Plan, rows: Rows | None, counts: Mapping[str, tuple[Ints, Ints]] | None = None) -> Ints:
        """Score amounts that floats cannot represent exactly."""
        strategy, count = self._strategy, len(self._columns.table)
        total, weights = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for index, amount, weight in plan:
            capacity, used = self._columns.amounts(index)
            devices = counts.get(self._resources[index].name) if counts else None
            if devices is not None:
                missing = (capacity == 0) & (devices[0] > 0)
                capacity, used = np.where(missing, devices[0], capacity), np.where(missing, devices[1], used)
            counted = capacity != 0
            rated = strategy.rate_ints(used + amount, np.where(counted, capacity, 1))
            if strategy.picky:
                counted &= rated > 0
            total += rated * counted * weight
            weights += counted * weight
        np.maximum(weights, 1, out=weights)
        scores = (total / weights + 0.5).astype(np.int64) if strategy.picky else truncated_all(total, weights)
        return scores if rows is None else scores[rows]


_BASE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_CONTAINERS = RequestRules(pod_level=False)


def has_given_amounts(pod: Pod) -> bool:
    """Return whether the node reports allocated resources of the pod, which count in addition to its requests."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources is not None)


def tracked_requests(pod: Pod, rules: RequestRules = DEFAULT_RULES) -> dict[str, int]:
    """Return the pod's requests for tracked resources, in the order in which they are reported."""
    return tracked(pod_requests(pod, rules=rules))


def tracked(asked: Mapping[str, int]) -> dict[str, int]:
    """Return the tracked resources, in the order in which they are reported."""
    found = {}
    for name in _BASE:
        if name in asked:
            found[name] = asked[name]
    if len(found) < len(asked):
        found.update((name, asked[name]) for name in sorted(asked) if name not in found and is_tracked(name))
    return found


def fits_empty(pod: Pod, node: Node, ignored: Collection[str] = (), rules: RequestRules = DEFAULT_RULES) -> bool:
    """Return whether the pod would fit on the node if it were empty; ``ignored`` resources do not count."""
    offered = amounts(node.status.allocatable)
    if offered.get(PODS, 0) < 1:
        return False
    return all(
        wanted <= offered.get(name, 0)
        for name, wanted in tracked_requests(pod, rules).items()
        if wanted > 0 and name not in ignored
    )


def grown(pod: Pod, old: Node, new: Node, rules: RequestRules = DEFAULT_RULES) -> bool:
    """Return whether a requested resource, or the maximum number of pods, of the node increased."""
    before, after = amounts(old.status.allocatable), amounts(new.status.allocatable)
    if after.get(PODS, 0) > before.get(PODS, 0):
        return True
    wanted = [name for name, amount in tracked_requests(pod, rules).items() if amount > 0]
    return any(after.get(name, 0) > before.get(name, 0) for name in wanted)


def freed_by(pod: Pod, old: Pod, new: Pod, rules: RequestRules = DEFAULT_RULES) -> bool:
    """Return whether another pod's resize frees a resource that the pod requests."""
    before, after, asked = (pod_requests(each, use_status=True, rules=rules) for each in (old, new, pod))
    wanted = [name for name, amount in asked.items() if amount != 0 and is_tracked(name)]
    return any(max(before.get(name, 0), 0) > max(after.get(name, 0), 0) for name in wanted)
