"""The search: the first solution in order, backtracking, and its limits."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.plugins.dynamic_resources.allocator import Search, SearchLimitError, Usage
from mooring.plugins.dynamic_resources.claim_plan import AllocationError
from mooring.plugins.dynamic_resources.device_state import Budget
from tests.plugins.device_world import DRIVER, claim, exactly, gpu_class, gpu_slice, names, plans, pools, search


def numa(*values: str) -> list[dict[str, Any]]:
    return [{"name": f"gpu-{n}", "attributes": {"numa": {"string": value}}} for n, value in enumerate(values)]


MATCH = {"constraints": [{"matchAttribute": f"{DRIVER}/numa"}]}
DISTINCT = {"constraints": [{"distinctAttribute": f"{DRIVER}/numa"}]}


@pytest.mark.parametrize(
    ("devices", "made", "expected"),
    [
        (3, claim(exactly(2)), [["gpu-0", "gpu-1"]]),
        (1, claim(exactly(2)), None),
        (numa("a", "b", "b"), claim(exactly(2), devices=MATCH), [["gpu-1", "gpu-2"]]),
        (numa("a", "a", "b"), claim(exactly(2), devices=DISTINCT), [["gpu-0", "gpu-2"]]),
        (numa("a", "b", "a"), claim(exactly(3), devices=DISTINCT), [["gpu-0", "gpu-1", "gpu-2"]]),
        (
            3,
            claim(
                {
                    "name": "l",
                    "firstAvailable": [
                        _["exactly"] | {"name": _["name"]} for _ in (exactly(4, "s0"), exactly(2, "s1"))
                    ],
                }
            ),
            [["gpu-0", "gpu-1"]],
        ),
        (2, claim(exactly(0, allocationMode="All")), [["gpu-0", "gpu-1"]]),
    ],
)
def test_first_solution(devices: Any, made: Any, expected: Any) -> None:
    found = pools(gpu_slice(devices=devices))
    assert names(found, search(found, made)) == expected


def test_a_later_claim_makes_an_earlier_one_choose_again() -> None:
    found = pools(gpu_slice(devices=numa("a", "b")))
    picky = claim(exactly(selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].numa == "a"'}}]), name="p")
    assert names(found, search(found, claim(exactly()), picky)) == [["gpu-1"], ["gpu-0"]]


def test_devices_in_use_are_not_taken() -> None:
    found = pools(gpu_slice(devices=2))
    usage = Usage({(DRIVER, "n0", "gpu-0"): 1}, {}, {})
    assert names(found, search(found, claim(), usage=usage)) == [["gpu-1"]]
    assert names(found, search(found, claim(exactly(adminAccess=True)), usage=usage)) == [["gpu-0"]]


def test_counters_limit_partitions() -> None:
    counters = gpu_slice(
        devices=[],
        name="counters",
        sharedCounters=[{"name": "s", "counters": {"m": {"value": "40Gi"}}}],
        pool={"resourceSliceCount": 2},
    )
    uses = [{"counterSet": "s", "counters": {"m": {"value": "20Gi"}}}]
    parts = [{"name": f"p{n}", "consumesCounters": uses} for n in range(3)]
    found = pools(counters, gpu_slice(devices=parts, pool={"resourceSliceCount": 2}))
    assert names(found, search(found, claim(exactly(2)))) == [["p0", "p1"]]
    assert search(found, claim(exactly(3))) is None


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (claim(exactly(33)), "claim \0c: number of requested devices 33 exceeds the claim limit of 32"),
        (claim(exactly(allocationMode="Some")), "claim \0c, request r: unsupported count mode Some"),
        (
            claim(devices={"constraints": [{}]}),
            "claim \0c, constraint #0: empty constraint (unsupported constraint type?)",
        ),
        (
            claim(exactly(selectors=[{"cel": {"expression": "device.attributes['x'].y"}}])),
            "claim \0c: selector #0: CEL runtime error: no such key: y",
        ),
    ],
)
def test_errors(made: Any, text: str) -> None:
    with pytest.raises(AllocationError) as raised:
        search(pools(gpu_slice()), made)
    assert raised.value.text == text


def test_equal_devices_are_tried_once() -> None:
    """Upstream tries all combinations of 20 of 33 and runs into its time limit."""
    found = pools(gpu_slice(devices=33))
    hopeless = exactly(name="x", selectors=[{"cel": {"expression": "false"}}])
    budget = Budget(5_000, 60.0)
    assert Search(plans(claim(exactly(20), hopeless)), found, Usage({}, {}, {}), budget.spend).run() is None


def test_an_exponential_search_ends() -> None:
    devices = [{"name": f"gpu-{n}", "attributes": {"n": {"int": n}}} for n in range(33)]
    hopeless = exactly(name="x", selectors=[{"cel": {"expression": "false"}}])
    budget = Budget(5_000, 60.0)
    with pytest.raises(SearchLimitError):
        Search(
            plans(claim(exactly(20), hopeless)), pools(gpu_slice(devices=devices)), Usage({}, {}, {}), budget.spend
        ).run()


def test_more_devices_than_nested_calls_are_allowed() -> None:
    found = pools(
        *(
            gpu_slice(
                devices=[{"name": f"gpu-{s}-{n}"} for n in range(128)], name=f"s{s}", pool={"resourceSliceCount": 16}
            )
            for s in range(16)
        )
    )
    solution = search(found, *(claim(exactly(32), name=f"c{n}") for n in range(64)))
    assert solution is not None
    assert sum(len(part.devices) for part in solution) == 2048


def test_class_selectors_come_first() -> None:
    bad = gpu_class("gpu", "device.attributes['x'].y == 1")
    with pytest.raises(AllocationError) as raised:
        search(pools(gpu_slice()), claim(exactly(selectors=[{"cel": {"expression": "false"}}])), classes=(bad,))
    assert raised.value.text.startswith("class gpu: selector #0: CEL runtime error")
