"""NodeDeclaredFeatures: what a pod relies on, and which nodes have it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.pod import Pod
from mooring.framework import CycleState, Hint, Status
from mooring.framework.status import Code
from mooring.plugins.node_declared_features import (
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_HOST_NETWORK,
    NodeDeclaredFeatures,
    needed_features,
)
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.agreement import FORMS, Agreement, events, play
from tests.plugins.reference.small_filters import NodeDeclaredFeaturesReference

REASON = ("node(s) didn't match Pod's required features",)
RESTARTS = make_pod("p").container(restart_rules=("RestartAllContainers",))
PODS = {
    "nothing special": (make_pod("p").container(), set()),
    "restart rules": (RESTARTS, {RESTART_ALL_CONTAINERS}),
    "of an init container": (make_pod("p").init(restart_rules=("RestartAllContainers",)), {RESTART_ALL_CONTAINERS}),
    "other rules": (make_pod("p").container(restart_rules=("Restart",)), set()),
    "host network with user namespaces": (make_pod("p").host_network(host_users=False), {USER_NAMESPACES_HOST_NETWORK}),
    "host network without": (make_pod("p").host_network(host_users=True), set()),
    "host network, not said": (make_pod("p").host_network(), set()),
    "both": (RESTARTS.host_network(host_users=False), {RESTART_ALL_CONTAINERS, USER_NAMESPACES_HOST_NETWORK}),
}


@pytest.mark.parametrize("case", PODS)
def test_needed_features(case: str) -> None:
    """Two features matter for placing a pod in 1.36."""
    pod, needed = PODS[case]
    assert needed_features(pod.obj()) == needed
    skipped = run_plugin(NodeDeclaredFeatures, pod.obj(), nodes=[make_node("n").obj()]).pre_filter.code is Code.SKIP
    assert skipped == (not needed)


@pytest.mark.parametrize("form", FORMS)
def test_filter(form: Any) -> None:
    """A node must declare all that is needed; more does no harm."""
    nodes = [
        make_node("none").obj(),
        make_node("other").features("Other").obj(),
        make_node("has").features("Other", RESTART_ALL_CONTAINERS).obj(),
    ]
    result = run_plugin(NodeDeclaredFeatures, RESTARTS.obj(), nodes=nodes, form=form)
    assert result.rejected == {"none": REASON, "other": REASON}


@pytest.mark.parametrize("form", FORMS)
def test_filter_needs_pre_filter(form: Any) -> None:
    """Where PreFilter is disabled, upstream's Filter misses its state."""
    harness = PluginHarness(NodeDeclaredFeatures, nodes=[make_node("n").obj()])
    found = harness.filter(CycleState(), RESTARTS.obj(), harness.nodes(), form=form)
    assert found["n"] == Status.error('error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found')


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, make_node("n"), Hint.QUEUE),
        (make_node("n").features("A"), make_node("n").features("A", "B"), Hint.QUEUE),
        (make_node("n").features("A"), make_node("n").features("A"), Hint.SKIP),
    ],
)
def test_hints_on_nodes(old: Any, new: Any, expected: Hint) -> None:
    """Worth an attempt when a node comes, or declares something else."""
    event = PluginHarness(NodeDeclaredFeatures).plugin.events_to_register()[0]
    assert event.hint(RESTARTS.obj(), old.obj() if old else None, new.obj()) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (RESTARTS, make_pod("p"), Hint.QUEUE),
        (RESTARTS, RESTARTS.label(a="b"), Hint.SKIP),
        (RESTARTS, make_pod("other"), Hint.SKIP),
    ],
)
def test_hints_on_pods(old: Any, new: Any, expected: Hint) -> None:
    """Worth an attempt when the pod itself needs something else now."""
    event = PluginHarness(NodeDeclaredFeatures).plugin.events_to_register()[1]
    assert event.hint(RESTARTS.obj(), old.obj(), new.obj()) is expected


FEATURES = st.lists(st.sampled_from([RESTART_ALL_CONTAINERS, USER_NAMESPACES_HOST_NETWORK, "Other"]), max_size=3)


@st.composite
def nodes(draw: st.DrawFn) -> Any:
    return make_node(draw(st.sampled_from(["a", "b", "c", "d"]))).features(*draw(FEATURES)).obj()


@settings(max_examples=40, deadline=None)
@given(
    happened=events(nodes(), st.just(make_pod("other").node("a").obj())),
    pod=st.sampled_from([pod.obj() for pod, _ in PODS.values()]),
    seed=st.integers(0, 99),
)
def test_agrees_with_the_reference(happened: Any, pod: Pod, seed: int) -> None:
    """As nodes declare this and that."""
    agreement = Agreement(NodeDeclaredFeatures, NodeDeclaredFeaturesReference)
    play(agreement, happened, pod, seed)
    agreement.check_what_if(pod, seed=seed)
