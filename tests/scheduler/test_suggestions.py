"""Suggestions: every first suggestion makes the pod schedulable in a new engine, and the running one is not changed."""

from __future__ import annotations

import random

import pytest

from bench.suggestions import CAUSES, cluster, engine_with, works
from mooring.api.meta import KubeObject
from mooring.scheduler.engine import Engine
from mooring.scheduler.pod_explanation import explain, explain_with_pauses
from mooring.scheduler.suggestions import suggest
from mooring.testing import make_node, make_pod

OBJECTS: list[KubeObject] = cluster(22, random.Random(0))
FIRST = {
    "cpu": "reduce-request",
    "unknown resource": "reduce-request",
    "node selector": "relax",
    "taint": "tolerate",
    "cordoned": "uncordon",
    "host port": "relax",
    "spread": "relax",
    "claim": "volume",
    "gate": "remove-gate",
    "selector and cpu": "relax,reduce-request",
}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return engine_with(OBJECTS)


@pytest.mark.parametrize("cause", CAUSES)
def test_the_first_suggestion_works(engine: Engine, cause: str) -> None:
    found = suggest(engine, CAUSES[cause]("pending", random.Random(1)), seconds=60)
    assert found
    assert works(OBJECTS, found[0])
    assert cause not in FIRST or found[0].change.kind == FIRST[cause]
    assert len({each.change.text for each in found}) == len(found)


@pytest.mark.parametrize("cause", ["cpu", "cordoned", "node selector"])
def test_every_suggestion_works(engine: Engine, cause: str) -> None:
    for each in suggest(engine, CAUSES[cause]("pending", random.Random(1)), seconds=60):
        assert works(OBJECTS, each), each.change.text


def test_the_table_is_restored(engine: Engine) -> None:
    names = [node.name for node in engine.cache.table.nodes]
    for cause in CAUSES:
        suggest(engine, CAUSES[cause]("pending", random.Random(2)), seconds=60)
    assert [node.name for node in engine.cache.table.nodes] == names
    assert engine.cache.table.check() == []


def test_a_schedulable_pod_gets_no_suggestion(engine: Engine) -> None:
    assert suggest(engine, make_pod("fine").obj()) == []


def test_no_suggestion_while_a_decision_is_in_progress(engine: Engine) -> None:
    engine.lock.take()
    try:
        assert suggest(engine, CAUSES["cpu"]("pending", random.Random(1))) == []
    finally:
        engine.lock.release()


def test_explanations_contain_suggestions() -> None:
    engine = engine_with([make_node("a").capacity(cpu="2").obj()])
    engine.put(make_pod("big").req(cpu="3").obj())
    engine.schedule_one()
    found = explain(engine, "default/big")
    assert found is not None
    assert [each.text for each in found.suggestions] == ["Reduce the request for cpu from 3 to 2"]
    assert found.suggestions[0].node == "a"


def test_the_search_for_a_gated_pod_pauses_too() -> None:
    engine = engine_with(OBJECTS)
    pod = CAUSES["gate and cpu"]("pending", random.Random(1))
    engine.put(pod)
    search = explain_with_pauses(engine, pod.key)
    pauses = 0
    while True:
        try:
            search.send(None)
        except StopIteration as done:
            found = done.value
            break
        pauses += 1
    assert found is not None
    assert found.suggestions
    assert pauses > 10, "it pauses after each change that it lists and tries"
