"""NodeUnschedulable: cordoned nodes, and who goes there all the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.pod import Pod
from mooring.framework import CycleState, Hint
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.agreement import FORMS, Agreement, events, play
from tests.plugins.reference.small_filters import NodeUnschedulableReference

KEY = "node.kubernetes.io/unschedulable"
OPEN, CLOSED = make_node("n").obj(), make_node("n").unschedulable().obj()
PODS = {
    "no toleration": (make_pod("p"), False),
    "tolerates the taint": (make_pod("p").toleration(KEY, None, "NoSchedule"), True),
    "tolerates it with the empty value": (make_pod("p").toleration(KEY, "", "NoSchedule"), True),
    "tolerates everything": (make_pod("p").toleration(), True),
    "another effect": (make_pod("p").toleration(KEY, None, "NoExecute"), False),
    "another key": (make_pod("p").toleration("x"), False),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", PODS)
def test_filter(case: str, form: Any) -> None:
    """An open node takes all pods, a closed one those that tolerate it."""
    pod, welcome = PODS[case]
    nodes = [make_node("open").obj(), make_node("closed").unschedulable().obj()]
    expected = {} if welcome else {"closed": ("node(s) were unschedulable",)}
    assert run_plugin(NodeUnschedulable, pod.obj(), nodes=nodes, form=form).rejected == expected


def test_open_nodes_cost_nothing() -> None:
    """No column is made while no node is cordoned."""
    harness = PluginHarness(NodeUnschedulable, nodes=[OPEN])
    assert harness.plugin.filter_nodes(CycleState(), make_pod("p").obj(), harness.nodes()) is None


NODE_HINTS = [
    (None, OPEN, Hint.QUEUE),
    (None, CLOSED, Hint.SKIP),
    (CLOSED, OPEN, Hint.QUEUE),
    (OPEN, OPEN, Hint.SKIP),
    (OPEN, CLOSED, Hint.SKIP),
    (CLOSED, CLOSED, Hint.SKIP),
]


@pytest.mark.parametrize(("old", "new", "expected"), NODE_HINTS)
def test_hints_on_nodes(old: Any, new: Any, expected: Hint) -> None:
    """Worth an attempt when an open node comes, or a closed one is opened."""
    event = PluginHarness(NodeUnschedulable).plugin.events_to_register()[0]
    assert event.hint(make_pod("p").obj(), old, new) is expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (make_pod("p").toleration(KEY), Hint.QUEUE),
        (make_pod("p").toleration("x"), Hint.SKIP),
        (make_pod("other").toleration(KEY), Hint.SKIP),
    ],
)
def test_hints_on_pods(changed: Any, expected: Hint) -> None:
    """Worth an attempt when the pod itself tolerates it now."""
    event = PluginHarness(NodeUnschedulable).plugin.events_to_register()[1]
    assert event.hint(make_pod("p").obj(), make_pod("p").obj(), changed.obj()) is expected


@st.composite
def nodes(draw: st.DrawFn) -> Any:
    node = make_node(draw(st.sampled_from(["a", "b", "c", "d"])))
    return (node.unschedulable() if draw(st.booleans()) else node).obj()


@settings(max_examples=40, deadline=None)
@given(
    happened=events(nodes(), st.just(make_pod("other").node("a").obj())),
    pod=st.sampled_from([pod.obj() for pod, _ in PODS.values()]),
    seed=st.integers(0, 99),
)
def test_agrees_with_the_reference(happened: Any, pod: Pod, seed: int) -> None:
    """As nodes are cordoned and uncordoned."""
    agreement = Agreement(NodeUnschedulable, NodeUnschedulableReference)
    play(agreement, happened, pod, seed)
    agreement.check_what_if(pod, seed=seed)
