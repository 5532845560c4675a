"""Allocations: results, configurations and node selectors."""

from __future__ import annotations

from typing import Any

from mooring.plugins.dynamic_resources.allocation import allocation_result
from tests.plugins.device_world import claim, exactly, gpu_class, gpu_slice, plans, pools, search

GPUS = (gpu_class(),)


def allocate(made: Any, *slices: Any, classes: Any = GPUS) -> Any:
    found = pools(*slices)
    solution = search(found, made, classes=classes)
    assert solution is not None
    (plan,) = plans(made, classes=classes)
    return allocation_result(plan, solution[0], found, "n0", lambda: "share")


def test_devices_of_a_node() -> None:
    made = allocate(claim(exactly(2)), gpu_slice())
    assert [(each.request, each.device, each.share_id) for each in made.devices.results] == [
        ("r", "gpu-0", None),
        ("r", "gpu-1", None),
    ]
    (term,) = made.node_selector.node_selector_terms
    assert term.match_fields[0].values == ("n0",)


def test_shares() -> None:
    device = {"name": "d", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}}
    request = exactly(capacity={"requests": {"memory": "2048Mi"}})
    (result,) = allocate(claim(request), gpu_slice(devices=[device])).devices.results
    assert (result.share_id, result.consumed_capacity) == ("share", {"memory": "2Gi"})


def test_configurations_of_a_class_come_once_and_before_those_of_the_claim() -> None:
    config = [{"opaque": {"driver": "d", "parameters": {"a": 1}}}]
    own = {"config": [{"requests": ["r"], "opaque": {"driver": "d"}}, {"opaque": {"driver": "e"}}]}
    made = allocate(
        claim(exactly(name="r"), exactly(name="q"), devices=own), gpu_slice(), classes=(gpu_class(config=config),)
    )
    assert [(each.source, each.requests) for each in made.devices.config] == [
        ("FromClass", ("r", "q")),
        ("FromClaim", ("r",)),
        ("FromClaim", ()),
    ]


def test_selectors_of_slices_are_combined() -> None:
    def shared(name: str, key: str) -> Any:
        term = {"matchExpressions": [{"key": key, "operator": "Exists"}, {"key": "both", "operator": "Exists"}]}
        return gpu_slice(name, 1, nodeSelector={"nodeSelectorTerms": [term]})

    made = allocate(claim(exactly(2)), shared("a", "x"), shared("b", "y"))
    (term,) = made.node_selector.node_selector_terms
    assert [each.key for each in term.match_expressions] == ["x", "both", "y"]
    assert allocate(claim(), gpu_slice(allNodes=True)).node_selector is None
