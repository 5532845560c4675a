"""NodeResourcesBalancedAllocation: 75 where the pod changes nothing, more where it evens out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.pod import Pod
from mooring.framework import CycleState
from mooring.framework.status import Code
from mooring.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation, balance
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.agreement import FORMS, Agreement, events, play, squeezed
from tests.plugins.reference.node_resources import Balanced
from tests.plugins.resource_world import RESOURCES, nodes, pods

GPU = "example.com/gpu"
NODE = make_node("n").capacity({"cpu": 10, "memory": "10Gi", GPU: 4})
LOPSIDED = make_pod("busy").req(cpu=5, memory="1Gi").node("n").obj()


def resources(*names: str) -> dict[str, Any]:
    return {"resources": [{"name": name, "weight": 1} for name in names]}


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([], 100),
        ([(3, 10)], 100),
        ([(5, 10), (1, 2)], 100),
        ([(0, 10), (10, 10)], 50),
        ([(0, 10), (99, 10)], 50),
        ([(1, 3), (2, 3)], 83),
        ([(1, 10), (2, 10), (3, 10)], 91),
        ([(0, 1), (0, 1), (1, 1)], 52),
    ],
)
def test_balance(amounts: Any, expected: int) -> None:
    """The mean deviation of the used shares, taken from 100 and cut."""
    assert balance(amounts) == expected


CASES = {
    "evens out": (None, make_pod("p").req(memory="4Gi"), 85),
    "no change": (None, make_pod("p").req(cpu=1, memory="1Gi"), 75),
    "makes it worse": (None, make_pod("p").req(cpu=5), 62),
    "no defaults for what is not asked for": (None, make_pod("p").req(cpu=1), 72),
    "one resource is always even": (resources("cpu"), make_pod("p").req(cpu=1), 75),
    "three resources": (resources("cpu", "memory", GPU), make_pod("p").req({"memory": "4Gi", GPU: 2}), 86),
    "an extended resource not asked for has no say": (
        resources("cpu", "memory", GPU),
        make_pod("p").req(memory="4Gi"),
        85,
    ),
    "nor one the node has none of": (resources("cpu", "x.io/y"), make_pod("p").req({"cpu": 1, "x.io/y": 1}), 75),
    "nor one nobody counts, which is asked for": (resources("unheard-of"), make_pod("p").req({"unheard-of": 1}), 75),
    "requests of the whole pod count": (None, make_pod("p").req(memory="1Gi").pod_req(memory="4Gi"), 85),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_score(case: str, form: Any) -> None:
    """A node with half of its cpu and a tenth of its memory in use."""
    args, pod, expected = CASES[case]
    harness = PluginHarness(NodeResourcesBalancedAllocation, args=args, nodes=[NODE.obj()], pods=[LOPSIDED])
    assert harness.score(CycleState(), pod.obj(), harness.nodes(), form=form)[2] == {"n": expected}


@pytest.mark.parametrize("pod", [make_pod("p"), make_pod("p").req(cpu=0), make_pod("p").req({GPU: 1})])
def test_skips_pods_that_ask_for_nothing_that_counts(pod: Any) -> None:
    """Best-effort pods are not rated: all would go to one node."""
    assert run_plugin(NodeResourcesBalancedAllocation, pod.obj(), nodes=[NODE.obj()]).pre_score.code is Code.SKIP


@pytest.mark.parametrize(("pod", "expected"), [(make_pod("p"), 0), (make_pod("p").req(memory="4Gi"), 85)])
def test_scores_without_pre_score(pod: Any, expected: int) -> None:
    """Where PreScore is disabled, Score looks itself; a best-effort pod gets 0."""
    harness = PluginHarness(NodeResourcesBalancedAllocation, nodes=[NODE.obj()], pods=[LOPSIDED])
    state = CycleState()
    assert harness.plugin.score(state, pod.obj(), harness.info("n")) == expected
    assert harness.plugin.score_nodes(state, pod.obj(), harness.nodes()) == expected


ARGS = st.none() | st.lists(st.sampled_from(RESOURCES), min_size=1, max_size=4, unique=True).map(
    lambda r: resources(*r)
)


@settings(max_examples=60, deadline=None)
@given(happened=events(nodes(), pods()), pod=pods(placed=False), args=ARGS, seed=st.integers(0, 99))
def test_agrees_with_the_reference(happened: Any, pod: Pod, args: Any, seed: int) -> None:
    """Columns and the per-node form give what the plain formula gives, as the cluster changes."""
    play(Agreement(NodeResourcesBalancedAllocation, Balanced, args), happened, pod, seed)


@settings(max_examples=30, deadline=None)
@given(
    cluster=st.lists(nodes(sized=True), min_size=8, max_size=9, unique_by=lambda node: node.name),
    running=st.lists(pods(), max_size=10),
    waiting=st.lists(pods(placed=False), min_size=1, max_size=2),
    args=ARGS,
    seed=st.integers(0, 99),
)
def test_columns_agree_on_whole_clusters(cluster: Any, running: Any, waiting: Any, args: Any, seed: int) -> None:
    """The same with enough nodes, all of some size, for the columns to be used throughout, pod by pod."""
    agreement = Agreement(NodeResourcesBalancedAllocation, Balanced, args)
    agreement.put(*cluster)
    with squeezed():
        for pod in waiting:
            play(agreement, [("put", other) for other in running], pod, seed)
