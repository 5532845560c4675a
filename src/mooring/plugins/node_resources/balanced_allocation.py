"""NodeResourcesBalancedAllocation: prefers nodes where the pod makes the use of resources more balanced."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.resources import is_scalar, is_tracked
from mooring.framework import CycleState, NodeInfo, Nodes, NodeTable, Plugin, PodTemplate, StateKey, Status, depends_on
from mooring.plugins.node_resources.columns import EXACT_LIMIT, ResourceColumns, Small
from mooring.plugins.node_resources.scoring import ResourceSpec

Ints = npt.NDArray[np.int64]

_PLAN: StateKey[Plan] = StateKey("PreScoreNodeResourcesBalancedAllocation")


class NodeResourcesBalancedAllocationArgs(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The resources to balance."""

    resources: tuple[ResourceSpec, ...] = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class NodeResourcesBalancedAllocation(Plugin[NodeResourcesBalancedAllocationArgs]):
    """Scores by how much the pod balances the use of a node's resources: 75 is no change, 100 the largest gain."""

    template_part = "requests"

    def setup(self) -> None:
        """Create the columns; resources that the scheduler does not track are ignored."""
        self._resources = [spec.name for spec in self.args.resources if is_tracked(spec.name)]
        self._everything = tuple(range(len(self._resources)))
        #: For each resource its index, its name, and whether it applies only to pods that request it.
        self._terms = [(index, name, is_scalar(name)) for index, name in enumerate(self._resources)]
        self._columns = BalanceColumns(self.handle.table, self._resources)

    @depends_on("template")
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Skip pods that request none of the resources."""
        plan = self._plan(pod)
        if plan is None:
            return Status.skip(template=True)
        state.write(_PLAN, plan)
        return None

    def signature(self, template: PodTemplate) -> Hashable:
        """Return the requests."""
        return template.resource_key

    @depends_on("node", "pods")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Return 50 + (50 + balance with the pod - balance without it) / 2."""
        plan, rows, some, columns = self._planned(state, pod), nodes.rows, None, self._columns
        if plan is None:
            return 0
        if rows is not None:
            if columns.few(rows):
                return np.array([self._score_row(plan, row) for row in rows.tolist()], dtype=np.int64)
            some = rows if columns.sparse(rows) else None
        columns.refresh()
        indexes = self._everything if len(plan) == len(self._everything) else tuple([index for index, _ in plan])
        scores = columns.balances(plan, some)
        offset = columns.offset(indexes)
        np.add(scores, offset if some is None else offset[some], scores)
        np.right_shift(scores, _ONE_BIT, scores)
        result: Ints = scores.astype(np.int64)
        return result if rows is None or some is not None else result[rows]

    @depends_on("node", "pods")
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score one node."""
        plan = self._planned(state, pod)
        return 0 if plan is None else self._score_row(plan, node.row)

    def _score_row(self, plan: Plan, row: int) -> int:
        after, before = self._columns.balance_at(plan, row)
        return (NEUTRAL + after - before) >> 1

    def _planned(self, state: CycleState, pod: Pod) -> Plan | None:
        plan = state.get(_PLAN)
        return self._plan(pod) if plan is None else plan

    def _plan(self, pod: Pod) -> Plan | None:
        """Return the resources that apply to a pod (no unrequested extended resources); None if it requests none."""
        template = self.handle.template(pod)
        kept = template.cache.get(self)
        if kept is None:
            kept = template.cache[self] = (self._make_plan(template),)
        return kept[0]  # type: ignore[index, no-any-return]  # the key is private to this class

    def _make_plan(self, template: PodTemplate) -> Plan | None:
        asked, plan = template.requests, []
        for spec in self.args.resources:
            if asked.get(spec.name):
                break
        else:
            return None
        for index, name, if_requested in self._terms:
            amount = asked.get(name, 0)
            if amount or not if_requested:
                plan.append((index, amount))
        return tuple(plan)


Floats = npt.NDArray[np.float64]

Rows = npt.NDArray[np.intp]
#: For each resource that applies: its index in the columns, and the pod's request.
Plan = tuple[tuple[int, int], ...]

#: A score is half of: this, plus the balance with the pod, minus the balance without it.
NEUTRAL = 150

_ONE_BIT = np.int32(1)

_ONE = np.float64(1)

_TWO = np.float64(2)

_FIFTY = np.float64(50)

_HUNDRED = np.float64(100)


def balance(amounts: Sequence[tuple[int, int]]) -> int:
    """Return 100 if the shares of resources (used, capacity) are equal, less the more they differ."""
    if len(amounts) == 2:
        (used, capacity), (other_used, other_capacity) = amounts
        difference = min(float(used) / float(capacity), 1.0) - min(float(other_used) / float(other_capacity), 1.0)
        return int((1 - abs(difference / 2)) * 100)
    shares = [min(float(used) / float(capacity), 1.0) for used, capacity in amounts]
    deviation = 0.0
    if len(shares) > 2:
        mean = _added(shares) / len(shares)
        deviation = math.sqrt(_added([(share - mean) * (share - mean) for share in shares]) / len(shares))
    return int((1 - deviation) * 100)


def _added(numbers: list[float]) -> float:
    total = 0.0
    for number in numbers:  # one by one, as upstream adds; sum() rounds differently from Python 3.12 on
        total += number
    return total


def _is_huge(plan: Sequence[tuple[int, int]]) -> bool:
    for _, amount in plan:
        if amount > EXACT_LIMIT:
            return True
    return False


class BalanceColumns(ResourceColumns):
    """The balance of all rows, with and without a pod."""

    def __init__(self, table: NodeTable, resources: Sequence[str]) -> None:
        super().__init__(table, resources, nonzero=False)
        #: NEUTRAL - balance without a pod, by the resources that apply; there are few such sets.
        self._offsets: dict[tuple[int, ...], Small] = {}
        self.used_rows: list[Floats] = list(self.used)

    def offset(self, indexes: tuple[int, ...]) -> Small:
        """Return the offset to add to the balance with a pod, for these resources. Read-only: it is the live column."""
        known = self._offsets.get(indexes)
        if known is None:
            known = self._offsets[indexes] = NEUTRAL - self.balances([(index, 0) for index in indexes], None)
        return known

    def _derive_all(self) -> None:
        self._offsets.clear()
        self.used_rows = list(self.used)

    def _derive(self, rows: Rows) -> None:
        for indexes, known in self._offsets.items():
            known[rows] = NEUTRAL - self.balances([(index, 0) for index in indexes], rows)

    def _derive_use(self, row: int, amounts: list[tuple[int, int]]) -> None:
        for indexes, known in self._offsets.items():
            chosen = amounts
            if self.any_missing or len(indexes) < len(amounts):
                chosen = [amounts[index] for index in indexes if amounts[index][1]]
            known[row] = NEUTRAL - balance(chosen)

    def balance_at(self, plan: Sequence[tuple[int, int]], row: int) -> tuple[int, int]:
        """Return the balance of one row with the pod, and without it."""
        before, after = [], []
        for index, amount in plan:
            capacity, used = self.amounts_at(index, row)
            if capacity:
                before.append((used, capacity))
                after.append((used + amount, capacity))
        return balance(after), balance(before)

    def balances(self, plan: Sequence[tuple[int, int]], rows: Rows | None) -> Small:
        """Return the balance of some rows (None: all) with the pod, as a new vector of numbers from 0 to 100."""
        count = len(self.table.nodes) if rows is None else len(rows)
        if self.any_missing and any(self.missing[index] for index, _ in plan):
            return self._uneven(plan, rows, count)
        if len(plan) < 2:
            return np.full(count, 100, dtype=np.int32)
        if rows is None and len(plan) == len(self._places) and self.exact and not _is_huge(plan):
            shares = self._all_shares(plan)
        else:
            shares = [self._share(index, amount, rows, count) for index, amount in plan]
        deviation = shares[0]
        if len(plan) == 2:
            # (2 - difference) * 50 is rounded exactly as (1 - difference / 2) * 100, since 2 is a power of two.
            np.subtract(deviation, shares[1], deviation)
            np.abs(deviation, deviation)
            np.subtract(_TWO, deviation, deviation)
            np.multiply(deviation, _FIFTY, deviation)
        else:
            deviation = self._deviation(shares, count)
            np.subtract(_ONE, deviation, out=deviation)
            deviation *= _HUNDRED
        result: Small = deviation.astype(np.int32)
        return result

    def _all_shares(self, plan: Sequence[tuple[int, int]]) -> list[Floats]:
        """Return the used shares of all resources on all rows."""
        out, rows, room, overcommitted = self.work, self.work_rows, self.room, False
        for (index, amount), used, row in zip(plan, self.used_rows, rows, strict=True):
            np.add(used, float(amount), row)
            if room[index] < amount and not self.have_room(index, amount):
                overcommitted = True
        np.divide(out, self.capacity, out)
        if overcommitted:
            np.minimum(out, _ONE, out=out)
        return rows

    def _share(self, index: int, amount: int, rows: Rows | None, count: int) -> Floats:
        """Return the used share of a resource, at most 1."""
        out = self.scratch[3 + index, :count]
        capacity = self.capacity[index] if rows is None else self.capacity[index, rows]
        if self.exact and amount <= EXACT_LIMIT:
            np.add(self.used[index] if rows is None else self.used[index, rows], float(amount), out=out)
        else:
            used = self.amounts(index)[1]
            out[:] = (used if rows is None else used[rows]) + amount
        np.divide(out, capacity, out=out)
        np.minimum(out, _ONE, out=out)
        return out

    def _deviation(self, shares: list[Floats], count: int) -> Floats:
        """Return the standard deviation of three or more shares."""
        mean, work = self.scratch[0, :count], self.scratch[1, :count]
        squares: Floats = self.scratch[2, :count]
        np.add(shares[0], shares[1], out=mean)
        for share in shares[2:]:
            mean += share
        mean /= len(shares)
        squares[:] = 0
        for share in shares:
            np.subtract(share, mean, out=work)
            work *= work
            squares += work
        squares /= len(shares)
        np.sqrt(squares, out=squares)
        return squares

    def _uneven(self, plan: Sequence[tuple[int, int]], rows: Rows | None, count: int) -> Small:
        """Return the balance if some nodes lack a resource; a missing resource does not count."""
        shares, has = [], []
        for index, amount in plan:
            capacity, used = (column if rows is None else column[rows] for column in self.amounts(index))
            present = capacity != 0
            share = np.minimum((used + amount).astype(np.float64) / np.where(present, capacity, 1), _ONE)
            shares.append(share * present)
            has.append(present)
        counts = np.add.reduce(has, dtype=np.float64)
        divisor = np.maximum(counts, 1)
        mean = sum(shares[1:], shares[0]) / divisor
        squares = np.zeros(count)
        for share, present in zip(shares, has, strict=True):
            squares += (share - mean) * (share - mean) * present
        deviation = np.sqrt(squares / divisor)
        # Two shares are compared directly; fewer do not deviate. A missing share is 0 and never the greater one.
        two = counts == 2
        lowest = np.minimum.reduce([np.where(p, s, np.inf) for s, p in zip(shares, has, strict=True)])
        deviation[two] = (np.maximum.reduce(shares)[two] - lowest[two]) / 2
        deviation[counts < 2] = 0
        result: Small = ((1 - deviation) * 100).astype(np.int32)
        return result
