"""Decisions as the annotations of kube-scheduler-simulator."""

from __future__ import annotations

import random

import msgspec
import pytest

from mooring.config import default_config
from mooring.scheduler.engine import Engine
from mooring.scheduler.simulator_annotations import HISTORY, SELECTED, simulator_annotations
from mooring.testing import make_node, make_pod

_FILTER = "kube-scheduler-simulator.sigs.k8s.io/filter-result"


@pytest.fixture
def engine() -> Engine:
    made = Engine(default_config(), rng=random.Random(0))
    made.put(make_node("small").capacity(cpu="1", memory="1Gi", pods=9).obj())
    made.put(make_node("large").capacity(cpu="9", memory="9Gi", pods=9).obj())
    return made


def test_verdicts_and_scores_by_node_and_plugin(engine: Engine) -> None:
    pod = make_pod("p").req(cpu="4").obj()
    engine.cache.table.add_pod(pod, "large")
    found = simulator_annotations(engine.profiles.first, pod, "large")
    verdicts = msgspec.json.decode(found[_FILTER])
    assert verdicts["small"]["NodeResourcesFit"] == "Insufficient cpu"
    assert set(verdicts["large"].values()) == {"passed"}
    assert found[SELECTED] == "large"
    # The names in the simulator's packages annotation and storereflector.
    names = ("filter-result", "score-result", "finalscore-result", "selected-node", "result-history")
    assert set(found) == {f"kube-scheduler-simulator.sigs.k8s.io/{name}" for name in names}
    assert engine.cache.table.pods[pod.uid].node is not None, "the pod is on its node again"
    assert engine.cache.table.check() == []


@pytest.mark.parametrize("text", ["", "{", '{"a":1}', "[[]]", "[" * 100_000, "\ud800"], ids=range(6))
def test_a_history_that_a_tenant_wrote_is_harmless(engine: Engine, text: str) -> None:
    pod = make_pod("p").annotation({HISTORY: text}).obj()
    assert len(msgspec.json.decode(simulator_annotations(engine.profiles.first, pod, "")[HISTORY])) == 1


def test_the_history_has_the_last_results(engine: Engine) -> None:
    text = msgspec.json.encode([{"n": str(number)} for number in range(9)]).decode()
    pod = make_pod("p").annotation({HISTORY: text}).obj()
    history = msgspec.json.decode(simulator_annotations(engine.profiles.first, pod, "large")[HISTORY])
    assert [each.get("n") for each in history] == ["5", "6", "7", "8", None]
