"""resource-strategy-fit: strategies per resource, scarce and proportional resources."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mooring.batch.plugins.resource_strategy_fit import _strategies
from mooring.batch.session_nodes import SessionNodes
from tests.batch.cases import conf, group, node, pod, session_of, tasks_of

GPU = "nvidia.com/gpu"


def member(requests: dict[str, str], annotations: dict[str, str] | None = None, on: str = "") -> dict[str, Any]:
    made = pod(f"p-{on}", "g", on=on, containers=[{"name": "c", "image": "i", "resources": {"requests": requests}}])
    made["metadata"]["annotations"] |= annotations or {}
    return made


def scored(arguments: dict[str, Any], made: dict[str, Any], *nodes: dict[str, Any]) -> list[float]:
    text = conf(("resource-strategy-fit",), resource_strategy_fit=json.dumps(arguments))
    session = session_of(text, *nodes, group("g", 1), member({"cpu": "1"}, on=nodes[0]["metadata"]["name"]), made)
    scores = session.total_scores(tasks_of(session)["p-"], SessionNodes(session))
    assert scores is not None
    return [round(float(score), 3) for score in scores]


NODES = node("used", "4"), node("free", "4")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [500.0, 750.0]),
        ({"resourceStrategyFitWeight": 1}, [50.0, 75.0]),
        ({"resources": {"cpu": {"type": "MostAllocated", "weight": 1}}}, [500.0, 250.0]),
        ({"resources": {"cpu": {"type": "Junk"}}}, [500.0, 750.0]),
        ({"resources": {"memory": {"type": "MostAllocated"}}}, [0.0, 0.0]),
        ({"resourceStrategyFitWeight": 0, "sra": {"enable": True, "weight": 1, "resources": GPU}}, [100.0, 100.0]),
    ],
)
def test_strategies(arguments: dict[str, Any], expected: list[float]) -> None:
    """One core on nodes of four, one of which has a core in use. A resource without a strategy does not count."""
    assert scored(arguments, member({"cpu": "1"}), *NODES) == expected


def test_a_pod_has_its_own_strategy() -> None:
    own = {
        "volcano.sh/resource-strategy-scoring-type": "MostAllocated",
        "volcano.sh/resource-strategy-weight": '{"cpu": 1}',
    }
    assert scored({}, member({"cpu": "1"}, own), *NODES) == [500.0, 250.0]
    invalid = {**own, "volcano.sh/resource-strategy-weight": "junk"}
    assert scored({}, member({"cpu": "1"}, invalid), *NODES) == [0.0, 0.0]


def test_too_much_scores_nothing() -> None:
    assert scored({}, member({"cpu": "4"}), *NODES) == [0.0, 0.0]
    assert scored({"resources": {"cpu": {"type": "MostAllocated"}}}, member({"cpu": "4"}), *NODES) == [0.0, 1000.0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"cpu": ("LeastAllocated", 1), "memory": ("LeastAllocated", 1)}),
        ({"a/*": {"type": "MostAllocated", "weight": 3}}, {"a/*": ("MostAllocated", 3)}),
        ({"*": {}, "a*b": {}, "a**": {}}, {}),
        ({"cpu": {"weight": -1}}, {"cpu": ("LeastAllocated", 1)}),
        ({"cpu": None}, {"cpu": ("LeastAllocated", 1)}),
    ],
)
def test_reading_strategies(given: dict[str, Any], expected: dict[str, tuple[str, int]]) -> None:
    assert {name: tuple(each) for name, each in _strategies(given).items()} == expected


def test_the_longest_prefix_applies() -> None:
    resources = {"nvidia.com/*": {"type": "LeastAllocated"}, "nvidia.com/gpu*": {"type": "MostAllocated"}}
    made = member({GPU: "1"})
    assert scored({"resources": resources}, made, node("a", "4", **{GPU: "4"})) == [250.0]


def test_scarce_resources_are_avoided() -> None:
    arguments = {
        "resourceStrategyFitWeight": 0,
        "sra": {"enable": True, "weight": 2, "resources": f"{GPU}, example.com/x"},
    }
    nodes = node("gpu", "4", **{GPU: "4"}), node("plain", "4")
    assert scored(arguments, member({"cpu": "1"}), *nodes) == [100.0, 200.0]
    assert scored(arguments, member({GPU: "1"}), *nodes) == [100.0, 0.0], "a node without the request scores nothing"


@pytest.mark.parametrize(
    ("requests", "rejected"),
    [({"cpu": "2"}, [False, False]), ({"cpu": "3"}, [True, False]), ({"cpu": "3", GPU: "1"}, [False, False])],
)
def test_proportional_resources_are_reserved(requests: dict[str, str], rejected: list[bool]) -> None:
    """Two GPUs need one core each: of four cores two may go to pods without GPU."""
    arguments = {"proportional": {"enable": True, "resources": GPU, "resourceProportion": {f"{GPU}.cpu": 1}}}
    arguments["proportional"]["resourceProportion"][f"{GPU}.memory"] = 0
    text = conf(("resource-strategy-fit",), resource_strategy_fit=json.dumps(arguments))
    session = session_of(text, node("gpu", "4", **{GPU: "2"}), node("plain", "4"), group("g", 1), member(requests))
    (predicate,) = session.all("predicate")
    verdicts = predicate.function(tasks_of(session)["p-"], SessionNodes(session))
    found = np.zeros(2) if verdicts is None else verdicts.codes
    assert [bool(code) for code in found.tolist()] == rejected
