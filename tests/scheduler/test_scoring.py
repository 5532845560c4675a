"""Scores of users' plugins in attempts: a declared range is scaled, and scores between 0 and 1 produce a warning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.framework import Plugin, depends_on
from mooring.loading import configuration
from mooring.observe.decision_records import DecisionRecords
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.observer import Observer
from mooring.testing import make_node, make_pod

WANTED = {"a": 0.1, "b": 0.9, "c": 0.25}


def score(self: Any, state: Any, pod: Any, node: Any) -> float:
    return WANTED[node.name]


def score_nodes(self: Any, state: Any, pod: Any, nodes: Any) -> Any:
    return np.array([WANTED[name] for name in nodes.names])


def declared(method: Any) -> Any:
    def copy(self: Any, *args: Any) -> Any:
        return method(self, *args)

    return depends_on("node")(copy)


def normalize(self: Any, state: Any, pod: Any, scores: Any) -> Any:
    return scores // 2


FORMS: dict[str, dict[str, Any]] = {
    "per node": {"score": score},
    "columns": {"score_nodes": score_nodes},
    "declared": {"score": declared(score), "score_nodes": declared(score_nodes)},
    "declared per node": {"score": declared(score)},
    "normalized": {"score": score, "normalize_scores": normalize},
}


class World:
    """An engine with one plugin and three nodes."""

    def __init__(self, **members: Any) -> None:
        cls = type("Model", (Plugin,), members)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.observer = Observer(records=DecisionRecords())
        config = configuration(None, plugins={"Model": cls}, source="")
        self.engine = Engine(
            config,
            plugins={"Model": cls},
            observer=self.observer,
            warn=lambda event, **details: self.told.append((event, details)),
        )
        for name in WANTED:
            self.engine.put(make_node(name).capacity(cpu="4", memory="8Gi", pods=110).obj())
        self._pods = 0

    def attempt(self) -> AssumedPod | FailedAttempt:
        self._pods += 1
        self.engine.put(make_pod(f"p{self._pods}").obj())
        outcome = self.engine.schedule_one()
        assert isinstance(outcome, AssumedPod | FailedAttempt)
        return outcome

    def scores(self) -> dict[str, int]:
        """Return the plugin's scores in the record of the last decision."""
        assert self.observer.records is not None
        (decision,) = self.observer.records.latest(1)
        place = decision.scorers.index("Model")
        return {each.node: each.scores[place] for each in decision.candidates}


@pytest.mark.parametrize("form", FORMS)
def test_scores_in_a_declared_range_decide(form: str) -> None:
    world = World(score_range=(0.0, 1.0), **FORMS[form])
    expected = {"a": 10, "b": 90, "c": 25}
    if form == "normalized":
        expected = {name: value // 2 for name, value in expected.items()}
    for _ in range(3):  # the first from all nodes, the others from the cache
        outcome = world.attempt()
        assert isinstance(outcome, AssumedPod), outcome.failure.message
        assert outcome.node_name == "b"
        assert world.scores() == expected
    assert world.told == []


@pytest.mark.parametrize("form", FORMS)
def test_a_score_outside_of_its_range_fails_the_attempt(form: str) -> None:
    world = World(score_range=(0.0, 0.5), **FORMS[form])
    outcome = world.attempt()
    assert isinstance(outcome, FailedAttempt)
    method = "score_nodes" if "score_nodes" in FORMS[form] else "score"
    text = f"{method} returned 0.9 for node b, which is outside of score_range = (0.0, 0.5)"
    assert text in outcome.failure.message
    (told,) = world.told
    assert text in told[1]["error"]


@pytest.mark.parametrize("form", FORMS)
def test_fractions_without_a_declared_range_are_reported_once(form: str) -> None:
    world = World(**FORMS[form])
    for _ in range(3):
        assert isinstance(world.attempt(), AssumedPod)
    (told,) = world.told
    assert told[0].startswith("tests/scheduler/test_scoring.py:")
    assert told[0].endswith(
        ": all scores are between 0 and 1, and only their whole part counts; "
        "declare score_range = (0.0, 1.0) in the class"
    )
    assert told[1] == {"plugin": "Model"}
    assert world.engine.guards.of("Model").placed_warnings() == [told[0]]


def test_normalized_fractions_are_reported() -> None:
    members = {
        "score": lambda self, state, pod, node: 7 if node.name == "b" else 5,
        "normalize_scores": lambda self, state, pod, scores: scores / scores.max(),
    }
    world = World(**members)
    assert isinstance(world.attempt(), AssumedPod)
    (told,) = world.told
    assert told[0].endswith("only their whole part counts; return 0 to 100")


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, 50.5])
def test_other_scores_are_not_reported(value: float) -> None:
    world = World(score=lambda self, state, pod, node: value)
    assert isinstance(world.attempt(), AssumedPod)
    assert world.told == []
