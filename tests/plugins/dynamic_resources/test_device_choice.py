"""The possible allocations on a node, and the choice among them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import DeviceAllocation, Pod
from mooring.framework.device_allocations import AllocationScorer
from mooring.plugins.dynamic_resources.allocator import Usage
from mooring.plugins.dynamic_resources.device_choice import MOST_CANDIDATES, CandidateSearch, DeviceChoice
from mooring.plugins.dynamic_resources.device_index import NodePools
from mooring.plugins.dynamic_resources.device_state import FOUND, AllocationPlan, Outcome
from mooring.testing import make_pod
from tests.plugins.device_world import DRIVER, UNUSED, claim, exactly, gpu_slice, names, plans, pools, search

POD = make_pod("p").obj()


def distinct(count: int) -> list[dict[str, Any]]:
    return [{"name": f"gpu-{n}", "attributes": {"uuid": {"string": str(n)}}} for n in range(count)]


def candidates(found: Any, *claims: Any, usage: Usage = UNUSED) -> list[Any]:
    first = search(found, *claims, usage=usage)
    assert first is not None
    solutions = CandidateSearch(plans(*claims), found, usage, lambda: None).candidates(first)
    return [names(found, each) for each in solutions]


@pytest.mark.parametrize(
    ("devices", "count", "expected"),
    [
        (3, 2, [["gpu-0", "gpu-1"]]),  # devices with equal content are interchangeable
        (distinct(3), 1, [["gpu-0"], ["gpu-1"], ["gpu-2"]]),
        (distinct(3), 2, [["gpu-0", "gpu-1"], ["gpu-0", "gpu-2"], ["gpu-1", "gpu-2"]]),
        (distinct(2), 2, [["gpu-0", "gpu-1"]]),
    ],
)
def test_candidates(devices: Any, count: int, expected: list[list[str]]) -> None:
    assert candidates(pools(gpu_slice("n0", devices)), claim(exactly(count))) == [[each] for each in expected]


def test_the_number_of_candidates_is_limited() -> None:
    found = candidates(pools(gpu_slice("n0", distinct(16))), claim(exactly(8)))
    assert len(found) <= MOST_CANDIDATES


def test_the_order_of_a_prioritized_list_comes_first() -> None:
    alternatives = [{"name": f"s{n}", **exactly(n)["exactly"]} for n in (2, 1)]
    made = claim({"name": "l", "firstAvailable": alternatives})
    assert all(len(each[0]) == 2 for each in candidates(pools(gpu_slice("n0", distinct(3))), made))


def choice(found: Any, made: Any, score: Any, usage: Usage = UNUSED) -> Any:
    plan, solution = AllocationPlan(tuple(plans(made))), search(found, made, usage=usage)
    chooser = DeviceChoice(POD, (AllocationScorer("Mine", 1, score),), usage)
    return chooser.of(plan, NodePools(tuple(found)), Outcome(FOUND, solution))


def test_the_highest_score_is_chosen_and_the_first_among_equal_ones() -> None:
    found = pools(gpu_slice("n0", distinct(3)))

    def high(_pod: Pod, allocation: DeviceAllocation) -> int:
        return 10 * int(str(allocation.chosen_devices[0].attribute("uuid")))

    best = choice(found, claim(), high)
    assert (names(found, best.solution), best.scores) == ([["gpu-2"]], {"Mine": 20})
    assert names(found, choice(found, claim(), lambda *_: 7).solution) == [["gpu-0"]]


def test_partitions_are_not_free_without_counters() -> None:
    """A device of two halves: one of them takes what the whole needs."""
    counters = [{"counterSet": "gpu-0", "counters": {"slices": {"value": value}}} for value in ("2", "1")]
    devices = [
        {"name": "whole", "consumesCounters": counters[:1]},
        {"name": "half-0", "attributes": {"half": {"bool": True}}, "consumesCounters": counters[1:]},
        {"name": "half-1", "attributes": {"half": {"bool": True}}, "consumesCounters": counters[1:]},
    ]
    shared = [{"name": "gpu-0", "counters": {"slices": {"value": "2"}}}]
    both = {"pool": {"resourceSliceCount": 2}}
    found = pools(
        gpu_slice("n0", devices, **both),
        gpu_slice("n0", [], name="counters", sharedCounters=shared, **both),
    )
    seen = []

    def note(_pod: Pod, allocation: DeviceAllocation) -> int:
        seen.append((allocation.free_before, allocation.chosen, allocation.free_after))
        assert {device.counter_sets for device in allocation.devices} == {("gpu-0",)}
        return 0

    choice(found, claim(), note)
    assert seen == [
        ((True, True, True), (0,), (False, False, False)),
        ((True, True, True), (1,), (False, False, True)),
    ]
    seen.clear()
    choice(found, claim(), note, Usage({(DRIVER, "n0", "half-0"): 1}, {}, {}))
    assert seen == [((False, False, True), (2,), (False, False, False))]
