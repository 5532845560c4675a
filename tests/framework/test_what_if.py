"""Victims as arrays, for what-if models."""

from __future__ import annotations

import numpy as np

from mooring.columns.table import CPU
from mooring.framework import Status, Verdicts, WhatIf
from mooring.plugins.node_name import NodeName
from mooring.testing import PluginHarness, make_node, make_pod
from mooring.testing.harness import make_victims


def victims_of_two_nodes():
    harness = PluginHarness(NodeName)
    harness.add(make_node("a").obj(), make_node("b").obj())
    for name, node, cpu in (("p", "a", "1"), ("q", "a", "2"), ("r", "b", "1")):
        harness.add(make_pod(name).uid(name).req(cpu=cpu).node(node).obj())
    return make_victims(harness, {"a": ["p", "q"], "b": ["r"]})


def test_victims_are_arrays_of_candidates_and_pods() -> None:
    victims = victims_of_two_nodes()
    assert victims.present.tolist() == [[True, True], [True, False]]
    assert victims.info(0, 1).name == "q"
    assert victims.amounts(CPU).tolist() == [[1000, 2000], [1000, 0]]


def test_numbers_by_template_are_computed_once_per_template() -> None:
    victims, asked = victims_of_two_nodes(), []

    def answer(template) -> int:
        asked.append(template)
        return template.requests["cpu"]

    assert victims.by_template(answer).tolist() == [[1000, 2000], [1000, 0]]
    assert len(asked) == 2
    assert victims.by_pod(lambda info: ord(info.name)).tolist() == [[ord("p"), ord("q")], [ord("r"), 0]]


def test_a_constant_model_has_no_counters() -> None:
    victims = victims_of_two_nodes()
    verdicts = Verdicts.reject(np.array([True, False]), Status.unresolvable("no"))
    model = WhatIf.constant(verdicts, victims)
    assert model.values.shape == (0, 2)
    assert model.effects.shape == (0, 2, 2)
    assert model.verdicts(model.values) is verdicts
