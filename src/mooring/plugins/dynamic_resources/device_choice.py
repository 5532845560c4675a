"""DeviceChoice: chooses among the possible allocations on a node the one that plugins score highest.

kube-scheduler takes the first devices that satisfy the claims. Without a plugin that scores allocations, so do we.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.quantity import Quantity
from mooring.framework import Nodes
from mooring.framework.device_allocations import AllocationScorer, DeviceAllocation, NodeDevice
from mooring.plugins.dynamic_resources.allocator import (
    ClaimSolution,
    Position,
    Search,
    SearchLimitError,
    Solution,
    Usage,
)
from mooring.plugins.dynamic_resources.claim_plan import AllocationError, ClaimPlan, attribute_value
from mooring.plugins.dynamic_resources.device_index import DeviceIndex, NodePools
from mooring.plugins.dynamic_resources.device_state import AllocationPlan, Budget, Outcome
from mooring.plugins.dynamic_resources.pools import DeviceContent, Pool

#: The most allocations that are compared on a node.
MOST_CANDIDATES: Final = 256
#: The limits on one search, and on the time for all nodes in an attempt. Later nodes keep the first allocation.
_MOST_STEPS: Final = 20_000
_MOST_SECONDS: Final = 0.2

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
_Left = dict[tuple[str, str], Quantity]


class CandidateSearch(Search):
    """Finds several solutions; devices with equal content in one pool count as the same."""

    def __init__(
        self, claims: Sequence[ClaimPlan], pools: Sequence[Pool], usage: Usage, spend: Callable[[], None]
    ) -> None:
        super().__init__(claims, pools, usage, spend)
        self._found: list[Solution] = []

    def candidates(self, first: Solution) -> tuple[Solution, ...]:
        """Return the first solution and others with the same alternatives of prioritized lists."""
        # If upstream would not evaluate something, or there is no time, the solutions so far remain.
        with contextlib.suppress(AllocationError, SearchLimitError):
            self.run()
        wanted, positions = [part.alternatives for part in first], _positions(first)
        found = [each for each in self._found if [part.alternatives for part in each] == wanted]
        return (first, *(each for each in found if _positions(each) != positions))

    def _complete(self) -> bool:
        self._found.append(tuple(map(self._claim_solution, self._claims, self._results)))
        return len(self._found) >= MOST_CANDIDATES

    def _claim_solution(self, claim: ClaimPlan, devices: Sequence[object]) -> ClaimSolution:
        taken = tuple(devices)
        requests = {id(each.request) for each in taken}  # type: ignore[attr-defined]
        alternatives = tuple(
            next((place for place, request in enumerate(each) if id(request) in requests), 0) for each in claim.requests
        )
        return ClaimSolution(taken, alternatives)  # type: ignore[arg-type]


def _positions(solution: Solution) -> list[list[Position]]:
    return [[each.position for each in part.devices] for part in solution]


class Candidate(NamedTuple):
    """A possible allocation on the nodes with one signature."""

    solution: Solution
    allocation: DeviceAllocation


class Choice(NamedTuple):
    """The chosen solution, and its score by plugin."""

    solution: Solution
    scores: dict[str, float]


class DeviceChoice:
    """The choices for one pod."""

    def __init__(self, pod: Pod, scorers: tuple[AllocationScorer, ...], usage: Usage) -> None:
        self._pod = pod
        self._scorers = scorers
        self._usage = usage
        self._budget = Budget(_MOST_STEPS, _MOST_SECONDS)
        self._choices: dict[Outcome, Choice] = {}

    def of(self, plan: AllocationPlan, pools: NodePools, outcome: Outcome) -> Choice:
        """Return the choice for the nodes with the signature of an outcome, which has a solution."""
        found = self._choices.get(outcome)
        if found is None:
            found = self._choices[outcome] = self._choose(self._candidates(plan, pools, outcome))
        return found

    def scores(self, plan: AllocationPlan, index: DeviceIndex, rows: Rows, scorer: str) -> Ints:
        """Return the scores that a plugin gives to the choices on some rows."""
        signatures, firsts, inverse = np.unique(index.column[rows], return_index=True, return_inverse=True)
        found = np.zeros(len(signatures), dtype=np.int64)
        for number, (signature, first) in enumerate(zip(signatures.tolist(), firsts.tolist(), strict=True)):
            outcome = plan.outcome(signature)
            if outcome is not None and outcome.solution is not None:
                found[number] = int(self.of(plan, index.of_row(int(rows[first])), outcome).scores[scorer])
        return found[inverse]

    def _choose(self, candidates: Sequence[Candidate]) -> Choice:
        best: Choice | None = None
        highest = 0.0
        for solution, allocation in candidates:
            scores = {each.name: float(each.call(self._pod, allocation)) for each in self._scorers}
            total = sum(each.weight * scores[each.name] for each in self._scorers)
            if best is None or total > highest:
                best, highest = Choice(solution, scores), total
        assert best is not None
        return best

    def _candidates(self, plan: AllocationPlan, pools: NodePools, outcome: Outcome) -> Sequence[Candidate]:
        if outcome.candidates:
            return outcome.candidates  # type: ignore[return-value]
        first = outcome.solution
        assert first is not None
        self._budget.renew()
        solutions: tuple[Solution, ...] = (first,)
        if not self._budget.is_over():
            search = CandidateSearch(plan.claims, pools.pools, self._usage, self._budget.spend)
            solutions = search.candidates(first)
        devices = _Devices(pools.pools, self._usage)
        made = [Candidate(each, devices.with_solution(each)) for each in solutions]
        if not self._budget.out_of_time:
            outcome.candidates = made
        return made


class NodeScores:
    """The scores of a pod's allocations, for the plugins that give them."""

    def __init__(self, scores: Callable[[str, Nodes], Ints]) -> None:
        self._scores = scores

    def of(self, plugin: str, nodes: Nodes) -> Ints:
        """Return the score that a plugin gives to the allocation on each node."""
        return self._scores(plugin, nodes)


class _Devices:
    """The devices of a node before an allocation."""

    def __init__(self, pools: Sequence[Pool], usage: Usage) -> None:
        self._contents: list[tuple[int, DeviceContent]] = []
        self._place: dict[tuple[int, int], int] = {}
        self._left: list[_Left] = []
        unused: list[bool] = []
        for number, pool in enumerate(pools):
            left = {(n, c): amount for n, each in pool.counter_sets.items() for c, amount in each.items()}
            pairs = (*zip(pool.ids, pool.contents, strict=True), *zip(pool.other_ids, pool.other_contents, strict=True))
            for device, content in pairs:
                if content.counters and usage.is_allocated(device):
                    _consume(left, content)
            self._left.append(left)
            for place, content in enumerate(pool.contents):
                if not pool.on_node or pool.on_node[place]:
                    self._place[number, place] = len(self._contents)
                    self._contents.append((number, content))
                    possible = pool.is_usable and content.is_selectable and not content.lacks_counters
                    unused.append(possible and pool.ids[place] not in usage.allocated)
        self._unused = tuple(unused)
        self._devices = tuple(_device(number, content) for number, content in self._contents)
        self._before = self._free(self._unused, self._left)

    def _free(self, unused: Sequence[bool], left: Sequence[_Left]) -> tuple[bool, ...]:
        return tuple(
            free and _suffices(left[number], content)
            for free, (number, content) in zip(unused, self._contents, strict=True)
        )

    def with_solution(self, solution: Solution) -> DeviceAllocation:
        """Return the devices with those of a solution."""
        unused, left = list(self._unused), list(self._left)
        chosen = []
        for each in (each for part in solution for each in part.devices):
            place = self._place[each.position]
            number, content = self._contents[place]
            chosen.append(place)
            if each.request.admin:
                continue
            unused[place] = unused[place] and content.multiple
            if content.counters:
                left[number] = dict(left[number])
                _consume(left[number], content)
        return DeviceAllocation(
            devices=self._devices,
            chosen=tuple(chosen),
            free_before=self._before,
            free_after=self._free(unused, left),
        )


def _consume(left: _Left, content: DeviceContent) -> None:
    for name, counters in content.counters:
        for counter, amount in counters:
            left[name, counter] = left[name, counter].minus(amount)


def _suffices(left: _Left, content: DeviceContent) -> bool:
    return not any(
        amount.exceeds(left[name, counter]) for name, counters in content.counters for counter, amount in counters
    )


def _device(pool: int, content: DeviceContent) -> NodeDevice:
    attributes: dict[str, str | int | bool] = {}
    for name, attribute in content.attributes.items():
        value = attribute_value(attribute)
        if value is not None:
            attributes[name] = value[1]  # type: ignore[assignment]  # of one of these types
    counter_sets = tuple(name for name, _ in content.counters)
    return NodeDevice(driver=content.driver, attributes=attributes, pool=pool, counter_sets=counter_sets)
