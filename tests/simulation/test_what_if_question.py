"""What-if questions as data: decoding, limits, and answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.yaml_writer import documents_text
from mooring.config import ConfigError, default_config
from mooring.loading import Catalog, Setup
from mooring.simulation.sources import Given, InputError, Source, given_in
from mooring.simulation.what_if import Comparison, Fit
from mooring.simulation.what_if_question import AddNodes, Question, Scale, ask, read_question
from tests.simulation.manifests import node, pod
from tests.simulation.test_what_if import deployment

SETUP = Setup(default_config(), Catalog())


def cluster() -> list[Given]:
    text = documents_text([node("a", cpu="4"), node("b", cpu="4"), deployment("web", 4)])
    return given_in(Source("cluster", text.encode()))


def test_all_changes_in_one_question() -> None:
    question = Question(
        add_nodes=[AddNodes(type="a", count=2)],
        drain=["b"],
        scale=[Scale(kind="deployment", name="web", replicas=6)],
        add=documents_text([pod("more", cpu="1")]),
    )
    found = ask(question, cluster(), present=SETUP)
    assert isinstance(found, Comparison)
    assert len(found.after.nodes) == 4
    assert not found.pending
    assert {each.pod for each in found.scheduled} >= {"default/more"}


def test_how_many_copies_fit() -> None:
    found = ask(Question(fit=documents_text([pod("more", cpu="1")])), cluster(), present=SETUP)
    assert isinstance(found, Fit)
    assert found.copies == 4


def test_weights_are_compared_with_the_present_ones() -> None:
    found = ask(Question(weights={"ImageLocality": 50}), cluster(), present=SETUP)
    assert isinstance(found, Comparison)
    assert "placed again" in found.notes[0]
    with pytest.raises(InputError, match="Missing is not enabled"):
        ask(Question(weights={"Missing": 1}), cluster(), present=SETUP)


def test_another_configuration_is_compared_with_the_present_one() -> None:
    packed = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}],
            plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]}}}]
"""
    found = ask(Question(config=packed), cluster(), present=SETUP)
    assert isinstance(found, Comparison)
    assert "placed again" in found.notes[0]
    assert len(found.moved) == 2, "all four pods are on one node"
    with pytest.raises(ConfigError):
        ask(Question(config="profiles: 7"), cluster(), present=SETUP)
    probing = f"{packed}extenders: [{{urlPrefix: https://a, filterVerb: f, tlsConfig: {{caFile: /etc/shadow}}}}]"
    with pytest.raises(InputError, match="extenders are not called"):
        ask(Question(config=probing), cluster(), present=SETUP)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("{", "not valid"),
        ({"unknown": 1}, "unknown"),
        ({"drain": "a"}, "Expected `array`"),
        ({"addNodes": [{"type": "a", "count": 0}]}, "count must be from 1"),
        ({"scale": [{"kind": "deployment", "name": "web", "replicas": -1}]}, "replicas must be from 0"),
        ({"cordon": ["a"] * 1001}, "1001 changes"),
        ({"limit": 0}, "limit"),
    ],
)
def test_invalid_questions_are_errors(given: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        read_question((given if isinstance(given, str) else json.dumps(given)).encode())
