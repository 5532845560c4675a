"""NodeName: the node a pod names, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.pod import Pod
from mooring.framework import ActionType, CycleState
from mooring.plugins.node_name import NodeName
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.agreement import FORMS, Agreement, events, play
from tests.plugins.reference.small_filters import NodeNameReference

REASON = ("node(s) didn't match the requested node name",)
NODES = [make_node(name).obj() for name in ("a", "b")]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("wanted", "rejected"), [("", set()), ("a", {"b"}), ("x", {"a", "b"})])
def test_filter(wanted: str, rejected: set[str], form: Any) -> None:
    """A pod that names a node goes nowhere else."""
    result = run_plugin(NodeName, make_pod("p").node(wanted).obj(), nodes=NODES, form=form)
    assert result.rejected == dict.fromkeys(rejected, REASON)


def test_no_name_costs_nothing() -> None:
    """Most pods name no node: no column is made for them."""
    harness = PluginHarness(NodeName, nodes=NODES)
    assert harness.plugin.filter_nodes(CycleState(), make_pod("p").obj(), harness.nodes()) is None


def test_events() -> None:
    """A node that comes may be the one; there is no hint to ask."""
    (event,) = PluginHarness(NodeName).plugin.events_to_register()
    assert (event.resource, event.actions, event.hint) == ("Node", ActionType.ADD, None)


NAMES = st.sampled_from(["a", "b", "c", "d"])


@settings(max_examples=40, deadline=None)
@given(
    happened=events(NAMES.map(lambda name: make_node(name).obj()), st.just(make_pod("other").node("a").obj())),
    pod=(NAMES | st.just("")).map(lambda name: make_pod("p").node(name).obj()),
    seed=st.integers(0, 99),
)
def test_agrees_with_the_reference(happened: Any, pod: Pod, seed: int) -> None:
    """Rows move when nodes go; the name stays."""
    agreement = Agreement(NodeName, NodeNameReference)
    play(agreement, happened, pod, seed)
    agreement.check_what_if(pod, seed=seed)
