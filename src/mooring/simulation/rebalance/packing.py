"""Packing: finds room for pods by moving others, in columns.

The search is an ejection search, as for vehicle routing (Nagata and Bräysy, 2009). A pod that fits nowhere takes the
place of pods that seem easy to place: of those that failed least often so far, and of small ones. They go into a pool
and are placed next. The search ends when the pool is empty, and can be stopped at any time. Short attempts from the
present placement come first, because they need few moves.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: The number of ejections of the attempts from the present placement; the last number repeats.
_LENGTHS = (20, 20, 40, 40, 80, 150, 300, 600)
#: How many nodes are considered for an ejection: those that lack least, and others at random.
_NEAREST, _RANDOM = 96, 32
#: How many pods of a node are considered. All sets of up to three of the first twelve are compared; of larger sets only
#: one, whose pods free most for their cost.
_MOST, _WIDTH, _TOGETHER = 64, 12, 3
#: The number of successful attempts of which the one with the fewest moves is chosen.
_TRIES = 6


class Problem(msgspec.Struct, frozen=True):
    """Pods on nodes, and pods without a node. A kind is a set of pods with equal requests and rules."""

    #: The room of each node with all pods where they are, by resource. The number of pods is a resource.
    free: Ints
    #: The requests of each kind.
    sizes: Ints
    #: Whether a kind may be placed on a node, apart from its requests.
    allowed: Mask
    #: The kind of each pod, and its node: -1 if it has none.
    kinds: Ints
    homes: Ints
    #: The disruption budget of each pod, -1 for none, and the pods of each budget that may be moved.
    budget_of: Ints
    budgets: Ints


class Packing:
    """A placement of all pods of a problem that has a node, and the search for a better one."""

    def __init__(self, problem: Problem, *, seed: int = 0, clock: Callable[[], float] = time.perf_counter) -> None:
        self._problem = problem
        self._rng = np.random.default_rng(seed)
        self._clock = clock
        self._sizes = problem.sizes[problem.kinds]
        largest = np.maximum(problem.sizes.max(axis=0, initial=1), 1)
        #: Requests as fractions of the largest ones, and their sum.
        self._scale = 1.0 / largest
        self._weights: Floats = (self._sizes * self._scale).sum(axis=1)
        self._failures: Floats = np.zeros(len(problem.kinds) + 1)
        self.rows: Ints = problem.homes.copy()
        self._load(self.rows)

    def _load(self, rows: Ints) -> None:
        """Set the node of every pod."""
        problem = self._problem
        self.rows = rows.copy()
        self._free = problem.free.copy()
        moved = np.flatnonzero(rows != problem.homes)
        old, new = moved[problem.homes[moved] >= 0], moved[rows[moved] >= 0]
        np.add.at(self._free, problem.homes[old], self._sizes[old])
        np.subtract.at(self._free, rows[new], self._sizes[new])
        self._left = problem.budgets.copy()
        covered = old[problem.budget_of[old] >= 0]
        np.subtract.at(self._left, problem.budget_of[covered], 1)
        self._members: list[list[int]] = [[] for _ in range(len(problem.free))]
        for item in np.flatnonzero(rows >= 0).tolist():
            self._members[rows[item]].append(item)

    @property
    def moved(self) -> Ints:
        """The pods that are on another node than at first."""
        found: Ints = np.flatnonzero((self._problem.homes >= 0) & (self.rows != self._problem.homes))
        return found

    def place(self, items: Sequence[int], movable: Mask, deadline: float, *, most_moves: int | None = None) -> bool:
        """Find a node for each of some pods, all or none. Only ``movable`` pods are moved."""
        start, best, found = self.rows.copy(), None, 0
        limit = len(self.rows) if most_moves is None else most_moves
        self._failures[:] = 0
        for length in itertools.chain(_LENGTHS, itertools.repeat(_LENGTHS[-1])):
            if self._clock() >= deadline or found >= _TRIES or (best is not None and length > _LENGTHS[4]):
                break
            self._load(start)
            if not self._attempt(list(items), movable, length, deadline):
                continue
            self._return_home(movable)
            count = len(self.moved)
            if count > limit:
                continue
            found += 1
            if best is None or count < best[0]:
                best = (count, self.rows.copy())
            if count <= 1:
                break
        self._load(start if best is None else best[1])
        return best is not None

    def empty(self, row: int, movable: Mask) -> bool:
        """Move all movable pods of a node to nodes that have pods, all or none."""
        start, items = self.rows.copy(), [item for item in self._members[row] if movable[item]]
        for item in sorted(items, key=lambda item: -self._weights[item]):
            if not self._can_leave(item):
                break
            rows = np.array([each for each in self._fitting(item).tolist() if each != row and self._members[each]])
            if not len(rows):
                break
            self._remove(item)
            self._put(item, int(rows[np.argmin((self._free[rows] * self._scale).sum(axis=1))]))
        else:
            return bool(items)
        self.restore(start)
        return False

    def restore(self, rows: Ints) -> None:
        """Return to an earlier placement."""
        self._load(rows)

    @property
    def free(self) -> Ints:
        """The room of each node."""
        return self._free

    def is_impossible(self, items: Sequence[int], movable: Mask) -> bool:
        """Return whether the pods cannot be placed, whatever is moved. False if that is not known."""
        problem = self._problem
        sizes = self._sizes[list(items)]
        if (np.maximum(self._free, 0).sum(axis=0) < sizes.sum(axis=0)).any():
            return True
        room = self._free.copy()
        here = np.flatnonzero(movable & (self.rows >= 0))
        np.add.at(room, self.rows[here], self._sizes[here])
        return any(
            not (problem.allowed[problem.kinds[item]] & (room >= size).all(axis=1)).any()
            for item, size in zip(items, sizes, strict=True)
        )

    def _attempt(self, pool: list[int], movable: Mask, limit: int, deadline: float) -> bool:
        pool.sort(key=lambda item: self._weights[item])
        for _ in range(limit):
            while pool and self._insert(pool[-1]):
                pool.pop()
            if not pool:
                return True
            if self._clock() >= deadline:
                return False
            item = pool.pop()
            self._failures[item] += 1
            found = self._ejection(item, movable)
            if found is None:
                return False
            row, ejected = found
            for other in ejected:
                self._remove(other)
            self._put(item, row)
            pool += sorted(ejected, key=lambda other: self._weights[other])
            self._shift(movable)
        return False

    # Single changes

    def _put(self, item: int, row: int) -> None:
        self.rows[item] = row
        self._free[row] -= self._sizes[item]
        self._members[row].append(item)
        if row == self._problem.homes[item] and self._problem.budget_of[item] >= 0:
            self._left[self._problem.budget_of[item]] += 1

    def _remove(self, item: int) -> None:
        row = int(self.rows[item])
        self.rows[item] = -1
        self._free[row] += self._sizes[item]
        self._members[row].remove(item)
        if row == self._problem.homes[item] and self._problem.budget_of[item] >= 0:
            self._left[self._problem.budget_of[item]] -= 1

    def _fitting(self, item: int) -> Ints:
        """Return the rows with room for a pod."""
        fits = (self._free >= self._sizes[item]).all(axis=1)
        found: Ints = np.flatnonzero(fits & self._problem.allowed[self._problem.kinds[item]])
        return found

    def _insert(self, item: int) -> bool:
        """Place a pod where it was, or where it leaves the least room, if there is room at all."""
        home = int(self._problem.homes[item])
        if home >= 0 and (self._free[home] >= self._sizes[item]).all():
            self._put(item, home)
            return True
        rows = self._fitting(item)
        if not len(rows):
            return False
        left = (self._free[rows] * self._scale).sum(axis=1)
        self._put(item, int(rows[np.argmin(left + self._rng.random(len(rows)) * 0.3)]))
        return True

    def _shift(self, movable: Mask) -> None:
        """Move one pod at random among nodes with room, so that the search does not repeat itself."""
        item = int(self._rng.integers(len(self.rows)))
        if self.rows[item] < 0 or not movable[item] or not self._can_leave(item):
            return
        rows = self._fitting(item)
        if len(rows):
            self._remove(item)
            self._put(item, int(rows[self._rng.integers(len(rows))]))

    def _return_home(self, movable: Mask) -> None:
        """Move pods back where that is possible, one by one and as swaps with room elsewhere."""
        changed = True
        while changed:
            changed = False
            for item in self.moved.tolist():
                home = int(self._problem.homes[item])
                if (self._free[home] >= self._sizes[item]).all():
                    self._remove(item)
                    self._put(item, home)
                    changed = True

    def _can_leave(self, item: int) -> bool:
        budget = int(self._problem.budget_of[item])
        return budget < 0 or self.rows[item] != self._problem.homes[item] or self._left[budget] > 0

    # Ejection

    def _ejection(self, item: int, movable: Mask) -> tuple[int, list[int]] | None:
        """Return a node and the pods that leave it for another pod: those with the lowest cost."""
        size = self._sizes[item]
        rows = np.flatnonzero(self._problem.allowed[self._problem.kinds[item]])
        if not len(rows):
            return None
        lacking = np.maximum(size - self._free[rows], 0)
        if len(rows) > _NEAREST + _RANDOM:
            distance = (lacking * self._scale).sum(axis=1)
            near = np.argpartition(distance, _NEAREST)[:_NEAREST]
            chosen = np.union1d(near, self._rng.choice(len(rows), _RANDOM, replace=False))
            rows, lacking = rows[chosen], lacking[chosen]
        slots = self._slots(rows.tolist(), movable)
        if slots is None:
            return None
        amounts = np.vstack([self._sizes, np.zeros_like(size)])[slots]
        weights = np.append(self._weights, 0.0)[slots]
        at_home = np.append(self.rows == self._problem.homes, False)[slots]
        costs = self._failures[slots] + 0.2 * weights + 0.1 * at_home
        costs[slots < 0] = np.inf
        best: tuple[float, int, list[int]] | None = None
        for cost, number, places in [
            *self._small_sets(amounts[:, :_WIDTH], costs[:, :_WIDTH], lacking),
            *self._large_sets(amounts, costs, lacking),
        ]:
            if best is None or cost < best[0]:
                leaving = slots[number, places].tolist()
                if self._within_budgets(leaving):
                    best = (cost, int(rows[number]), leaving)
        return None if best is None else (best[1], best[2])

    def _small_sets(self, amounts: Ints, costs: Floats, lacking: Ints) -> Iterator[tuple[float, int, Ints]]:
        """Yield the cheapest sets of one, two and three pods that leave enough room: cost, number of the node, pods."""
        for together in range(1, min(_TOGETHER, costs.shape[1]) + 1):
            groups = _groups(costs.shape[1], together)
            enough = (amounts[:, groups].sum(axis=2) >= lacking[:, None, :]).all(axis=2)
            total = costs[:, groups].sum(axis=2)
            total = np.where(enough, total + self._rng.random(total.shape) * 0.2, np.inf)
            place = int(np.argmin(total))
            cost = float(total.flat[place])
            if np.isfinite(cost):
                number, group = divmod(place, len(groups))
                yield cost, number, groups[group]

    def _large_sets(self, amounts: Ints, costs: Floats, lacking: Ints) -> Iterator[tuple[float, int, Ints]]:
        """Yield one larger set, chosen greedily on each node."""
        if costs.shape[1] <= _TOGETHER:
            return
        useful = (np.minimum(amounts, lacking[:, None, :]) / np.maximum(lacking, 1)[:, None, :]).sum(axis=2)
        order = np.argsort(costs / np.maximum(useful, 1e-9) + self._rng.random(costs.shape) * 0.05, axis=1)
        freed = np.cumsum(np.take_along_axis(amounts, order[:, :, None], axis=1), axis=1)
        enough: Mask = np.all(freed >= lacking[:, None, :], axis=2)
        total = np.cumsum(np.take_along_axis(costs, order, axis=1), axis=1)
        first = np.argmax(enough, axis=1)
        nodes = np.arange(len(costs))
        cost: Floats = np.where(enough[nodes, first], total[nodes, first], np.inf)
        number = int(np.argmin(cost))
        if not np.isfinite(cost[number]):
            return
        chosen = order[number, : first[number] + 1].tolist()
        spare = freed[number, first[number]] - lacking[number]
        for place in sorted(chosen, key=lambda place: -costs[number, place]):  # what is not needed stays
            if (amounts[number, place] <= spare).all():
                spare = spare - amounts[number, place]
                chosen.remove(place)
        yield float(costs[number, chosen].sum()), number, np.array(chosen, dtype=np.int64)

    def _slots(self, rows: list[int], movable: Mask) -> Ints | None:
        """Return the pods that may leave some nodes, by node; -1 where there are fewer."""
        lists = []
        for row in rows:
            members = [other for other in self._members[row] if movable[other] and self._can_leave(other)]
            if len(members) > _WIDTH:
                members = self._rng.permutation(members)[:_MOST].tolist()
            lists.append(members)
        width = max(map(len, lists), default=0)
        if not width:
            return None
        slots = np.full((len(rows), width), -1, dtype=np.int64)
        for number, members in enumerate(lists):
            slots[number, : len(members)] = members
        return slots

    def _within_budgets(self, items: list[int]) -> bool:
        needed: dict[int, int] = {}
        for item in items:
            budget = int(self._problem.budget_of[item])
            if budget >= 0 and self.rows[item] == self._problem.homes[item]:
                needed[budget] = needed.get(budget, 0) + 1
        return all(self._left[budget] >= count for budget, count in needed.items())


_GROUPS: dict[tuple[int, int], Ints] = {}


def _groups(width: int, together: int) -> Ints:
    """Return all sets of ``together`` slots."""
    found = _GROUPS.get((width, together))
    if found is None:
        found = _GROUPS[width, together] = np.array(
            list(itertools.combinations(range(width), together)), dtype=np.int64
        ).reshape(-1, together)
    return found
