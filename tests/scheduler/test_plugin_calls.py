"""Filters and scorers are called with either of their methods, and every failure names the plugin."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable
from mooring.framework import CycleState, Plugin, Status, Verdicts
from mooring.scheduler.answers import PluginFailure
from mooring.scheduler.plugin_calls import call_filter, call_score, passing_nodes, weighted_scores
from mooring.scheduler.profile import FilterPlugin, ScorePlugin
from mooring.testing import make_node, make_pod

POD = make_pod("p").obj()


class Nothing(Plugin):
    """A plugin without methods: the tests pass functions."""


def nodes(count: int = 3) -> Nodes:
    table = NodeTable()
    for number in range(count):
        table.add_node(make_node(f"n{number}").obj())
    return Nodes(table)


def a_filter(**methods: Any) -> FilterPlugin:
    methods = {"filter_nodes": None, "filter": None, **methods}
    return FilterPlugin(name="Mine", plugin=Nothing(), depends=None, per_node=False, **methods)


def a_scorer(*, weight: int = 1, **methods: Any) -> ScorePlugin:
    methods = {"score_nodes": None, "score": None, "on_fractions": None, **methods}
    return ScorePlugin(
        name="Mine", plugin=Nothing(), weight=weight, normalize=None, depends=None, trusted=False,
        zero_if_skipped=False, **methods,
    )  # fmt: skip


def rejects_the_second(state: CycleState, pod: object, node: Any) -> str | None:
    return "no" if node.name == "n1" else None


def rejects_the_third(state: CycleState, pod: object, nodes: Nodes) -> Verdicts:
    return Verdicts(np.array([0, 0, 1]), lambda code: Status.unschedulable("no"))


def test_both_forms_of_filters_have_verdicts() -> None:
    one = call_filter(a_filter(filter=rejects_the_second), CycleState(), POD, nodes())
    many = call_filter(a_filter(filter_nodes=rejects_the_third), CycleState(), POD, nodes())
    assert one is not None
    assert many is not None
    assert ((one.codes != 0).tolist(), (many.codes != 0).tolist()) == ([False, True, False], [False, False, True])
    assert call_filter(a_filter(filter_nodes=lambda *_: None), CycleState(), POD, nodes()) is None


@pytest.mark.parametrize(
    ("base", "expected"),
    [(True, [True, False, False]), (np.array([False, True, True]), [False, False, False])],
)
def test_a_node_passes_all_filters(base: Any, expected: list[bool]) -> None:
    filters = [a_filter(filter=rejects_the_second), a_filter(filter_nodes=rejects_the_third)]
    assert list(passing_nodes(filters, CycleState(), POD, nodes(), base)) == expected
    assert passing_nodes([], CycleState(), POD, nodes(), True) is True


def raises(*_: object) -> None:
    raise ValueError("broken")


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        ({"filter": raises}, 'running "Mine" filter plugin: .*broken'),
        ({"filter": lambda *_: 5}, 'running "Mine" filter plugin: .*returned int'),
        ({"filter": lambda *_: Status.error("bad")}, 'running "Mine" filter plugin: bad'),
        ({"filter_nodes": raises}, 'running "Mine" filter plugin: .*broken'),
        ({"filter_nodes": lambda *_: [0]}, "filter_nodes returned list of 1"),
        ({"filter_nodes": lambda *_: Verdicts(np.zeros(2, dtype=int), raises)}, "filter_nodes returned Verdicts"),
        (
            {"filter_nodes": lambda *_: Verdicts(np.array([0, 1, 0]), lambda _: Status.error("bad"), may_fail=True)},
            'running "Mine" filter plugin: bad',
        ),
    ],
)
def test_failing_filters_are_named(methods: dict[str, Any], text: str) -> None:
    with pytest.raises(PluginFailure) as caught:
        call_filter(a_filter(**methods), CycleState(), POD, nodes())
    assert caught.value.status.plugin == "Mine"
    assert re.search(text, caught.value.status.message)


def test_errors_can_be_kept_with_the_message_of_kube_scheduler() -> None:
    failing = a_filter(
        filter_nodes=lambda *_: Verdicts(np.array([0, 1, 0]), lambda _: Status.error("bad"), may_fail=True)
    )
    found = call_filter(failing, CycleState(), POD, nodes(), keep_errors=True)
    assert found is not None
    assert found.status(1).message == 'running "Mine" filter plugin: bad'


def test_both_forms_of_scorers_have_scores() -> None:
    names = a_scorer(score=lambda state, pod, node: int(node.name[1:]), weight=3)
    assert list(call_score(names, CycleState(), POD, nodes())) == [0, 1, 2]
    assert list(weighted_scores(names, CycleState(), POD, nodes())) == [0, 3, 6]
    same = a_scorer(score_nodes=lambda *_: 7, weight=2)
    assert (call_score(same, CycleState(), POD, nodes()), weighted_scores(same, CycleState(), POD, nodes())) == (7, 14)


@pytest.mark.parametrize("methods", [{"score": raises}, {"score_nodes": raises}, {"score": lambda *_: "high"}])
def test_failing_scorers_are_named(methods: dict[str, Any]) -> None:
    with pytest.raises(PluginFailure) as caught:
        call_score(a_scorer(**methods), CycleState(), POD, nodes())
    assert 'running Score plugin "Mine"' in caught.value.status.message
