"""NodeResourcesFit: room, reasons, codes, the three scoring strategies, hints."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import CycleState, Hint, NodeTable, Status
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.agreement import FORMS, Agreement, events, play, squeezed
from tests.plugins.reference.node_resources import Fit
from tests.plugins.resource_world import nodes, pods, strategies

GPU = "example.com/gpu"
NODE = make_node("n").capacity({"cpu": 4, "memory": "8Gi", "ephemeral-storage": "10Gi", GPU: 2, "pods": 3})
BUSY = make_pod("busy").req({"cpu": 2, "memory": "4Gi", GPU: 1}).node("n").obj()


def too_much(*reasons: str) -> Status:
    return Status.unschedulable(*reasons)


def hopeless(*reasons: str) -> Status:
    return Status.unresolvable(*reasons)


FILTER_CASES = {
    "asks for nothing": (make_pod("p"), None),
    "fits to the last bit": (make_pod("p").req({"cpu": 2, "memory": "4Gi", GPU: 1}), None),
    "too much cpu": (make_pod("p").req(cpu="2001m"), too_much("Insufficient cpu")),
    "too much of two": (make_pod("p").req(cpu=3, memory="5Gi"), too_much("Insufficient cpu", "Insufficient memory")),
    "more than there ever is": (make_pod("p").req(cpu=5), hopeless("Insufficient cpu")),
    "one of two beyond help": (
        make_pod("p").req(cpu=3, memory="9Gi"),
        hopeless("Insufficient cpu", "Insufficient memory"),
    ),
    "all reasons in order": (
        make_pod("p").req({"b.io/x": 1, "a.io/x": 1, "ephemeral-storage": "11Gi", "memory": "5Gi", "cpu": 3}),
        hopeless(
            "Insufficient cpu",
            "Insufficient memory",
            "Insufficient ephemeral-storage",
            "Insufficient a.io/x",
            "Insufficient b.io/x",
        ),
    ),
    "extended resource taken": (make_pod("p").req({GPU: 2}), too_much(f"Insufficient {GPU}")),
    "extended resource unheard of": (make_pod("p").req({"x.io/y": 1}), hopeless("Insufficient x.io/y")),
    "zero of something unheard of": (make_pod("p").req({"x.io/y": 0}), None),
    "a resource nobody counts": (make_pod("p").req({"unheard-of": 9}), None),
    "huge pages": (make_pod("p").req({"hugepages-2Mi": "2Mi"}), hopeless("Insufficient hugepages-2Mi")),
    "init containers count by their peak": (make_pod("p").req(cpu=1).init(cpu=3), too_much("Insufficient cpu")),
    "sidecars count beside": (make_pod("p").req(cpu=1).init(sidecar=True, cpu="1500m"), too_much("Insufficient cpu")),
    "overhead counts": (make_pod("p").req(cpu=2).overhead(cpu="1m"), too_much("Insufficient cpu")),
    "a request of the whole pod takes the place": (
        make_pod("p").req(cpu=1).pod_req(cpu=3),
        too_much("Insufficient cpu"),
    ),
    "fractions are rounded up": (make_pod("p").req(cpu="2000.1m"), too_much("Insufficient cpu")),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", FILTER_CASES)
def test_filter(case: str, form: Any) -> None:
    """A node with half of everything in use."""
    pod, expected = FILTER_CASES[case]
    result = run_plugin(NodeResourcesFit, pod.obj(), nodes=[NODE.obj()], pods=[BUSY], form=form)
    assert result.filter["n"] == (expected or Status())


@pytest.mark.parametrize("form", FORMS)
def test_too_many_pods_is_never_beyond_help(form: Any) -> None:
    """The number of pods is checked for every pod, and comes first among the reasons."""
    full = NODE.allocatable(cpu=4, pods=1).obj()
    result = run_plugin(NodeResourcesFit, make_pod("p").req(cpu=3).obj(), nodes=[full], pods=[BUSY], form=form)
    assert result.filter["n"] == too_much("Too many pods", "Insufficient cpu")
    none = NODE.allocatable(cpu=4).obj()
    assert run_plugin(NodeResourcesFit, make_pod("p").obj(), nodes=[none], form=form).filter["n"] == too_much(
        "Too many pods"
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("args", "reasons"),
    [
        ({}, ("Insufficient a.io/x", "Insufficient b.io/y", "Insufficient hugepages-2Mi")),
        ({"ignoredResources": ["a.io/x"]}, ("Insufficient b.io/y", "Insufficient hugepages-2Mi")),
        ({"ignoredResourceGroups": ["b.io"]}, ("Insufficient a.io/x", "Insufficient hugepages-2Mi")),
        (
            {"ignoredResources": ["hugepages-2Mi"]},
            ("Insufficient a.io/x", "Insufficient b.io/y", "Insufficient hugepages-2Mi"),
        ),
    ],
)
def test_ignored_resources(args: Any, reasons: tuple[str, ...], form: Any) -> None:
    """Extended resources can be left to others, by name or by domain; native ones cannot."""
    pod = make_pod("p").req({"a.io/x": 1, "b.io/y": 1, "hugepages-2Mi": "2Mi"}).obj()
    result = run_plugin(NodeResourcesFit, pod, nodes=[NODE.obj()], args=args, form=form)
    assert result.filter["n"].reasons == reasons


def test_many_resources_have_a_bit_each() -> None:
    """More reasons than a byte has bits."""
    wanted = {f"example.com/r{number}": 1 for number in range(12)}
    result = run_plugin(NodeResourcesFit, make_pod("p").req({**wanted, "cpu": 9}).obj(), nodes=[NODE.obj()])
    assert set(result.filter["n"].reasons) == {"Insufficient cpu", *(f"Insufficient {name}" for name in wanted)}


@pytest.mark.parametrize("offered", [0, 40, 61, 62, 100])
def test_a_hundred_resources(offered: int) -> None:
    """Nodes that lack various of them, for ever or for now: all reasons, in order, and none that does not apply."""
    names = [f"example.com/r{number:03d}" for number in range(100)]
    agreement = Agreement(NodeResourcesFit, Fit)
    for index in range(12):
        amounts = {name: 1 + (place * index) % 3 for place, name in enumerate(names[:offered]) if (place + index) % 4}
        full = dict.fromkeys(names[:offered], 9)
        agreement.put(
            make_node(f"n{index}").allocatable({"pods": 3 * (index != 5), **(amounts if index else full)}).obj()
        )
    busy = make_pod("busy").req({names[0]: 9, names[50]: 8, names[99]: 8}).node("n0").obj()
    agreement.put(busy, make_pod("other").req(dict.fromkeys(names[10:90:7], 1)).node("n3").obj())
    pod = make_pod("p").req(dict.fromkeys(names, 2)).obj()
    agreement.check(pod)
    agreement.check_what_if(pod)
    agreement.remove(busy)  # n0 has room if it offers all of them
    agreement.check(pod)


@pytest.mark.parametrize("form", FORMS)
def test_made_up_resources_do_not_scan_the_pods(form: Any) -> None:
    """The cost of a resource that no node offers does not depend on the number of pods."""
    harness = PluginHarness(NodeResourcesFit, nodes=[NODE.obj()], pods=[BUSY])
    pod = make_pod("p").req({f"example.com/r{number}": 1 for number in range(50)}).obj()
    with patch.object(NodeTable, "requested_by_row", side_effect=AssertionError("a scan")):
        status = harness.run(pod, form=form, names=["n"]).filter["n"]
    assert len(status.reasons) == 50


@pytest.mark.parametrize("form", FORMS)
def test_filter_needs_pre_filter(form: Any) -> None:
    """Where PreFilter is disabled, upstream's Filter misses its state."""
    harness = PluginHarness(NodeResourcesFit, nodes=[NODE.obj()])
    found = harness.filter(CycleState(), make_pod("p").obj(), harness.nodes(), form=form)
    assert found["n"] == Status.error('error reading "PreFilterNodeResourcesFit" from cycleState: not found')


HALF = make_pod("p").req(cpu=1, memory="2Gi")
SHAPE = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
FALLING = {"shape": [{"utilization": 0, "score": 10}, {"utilization": 30, "score": 3}, {"utilization": 70, "score": 0}]}


def strategy(kind: str, *resources: tuple[str, int], ratio: Any = None) -> dict[str, Any]:
    made: dict[str, Any] = {"type": kind, "resources": [{"name": name, "weight": weight} for name, weight in resources]}
    if ratio:
        made["requestedToCapacityRatio"] = ratio
    return {"scoringStrategy": made}


SCORE_CASES = {
    "least: a quarter of both is left": (None, HALF, 25),
    "least: an empty request counts as 100m and 200Mi": (None, make_pod("p").req({}), 47),
    "least: an explicit zero is zero": (None, make_pod("p").req(cpu=0, memory=0), 50),
    "least: no container, nothing asked": (None, make_pod("p"), 50),
    "least: over capacity rates 0": (None, make_pod("p").req(cpu=3, memory="2Gi"), 12),
    "least: weights": (strategy("LeastAllocated", ("cpu", 3), ("memory", 1)), make_pod("p").req(cpu=2, memory=0), 12),
    "least: an extended resource the pod asks for": (
        strategy("LeastAllocated", (GPU, 1)),
        make_pod("p").req({GPU: 1}),
        0,
    ),
    "least: one it does not ask for has no say": (strategy("LeastAllocated", (GPU, 1)), HALF, 0),
    "least: nor one the node has none of": (
        strategy("LeastAllocated", ("x.io/y", 5), ("cpu", 1)),
        HALF.req({"x.io/y": 1}),
        22,
    ),
    "least: nor one nobody counts": (strategy("LeastAllocated", ("pods", 5), ("cpu", 1)), HALF, 25),
    "least: requests of the whole pod are not seen": (None, make_pod("p").req(cpu=0, memory=0).pod_req(cpu=2), 50),
    "most": (strategy("MostAllocated", ("cpu", 1), ("memory", 1)), HALF, 75),
    "most: over capacity rates 100": (strategy("MostAllocated", ("cpu", 1)), make_pod("p").req(cpu=9), 100),
    "ratio": (strategy("RequestedToCapacityRatio", ("cpu", 1), ("memory", 1), ratio=SHAPE), HALF, 75),
    "ratio: over capacity counts as full": (
        strategy("RequestedToCapacityRatio", ("cpu", 1), ratio=SHAPE),
        make_pod("p").req(cpu=9),
        100,
    ),
    "ratio: a rating of 0 is left out of the mean": (
        strategy("RequestedToCapacityRatio", ("cpu", 1), ("memory", 1), ratio=FALLING),
        make_pod("p").req(cpu=1, memory=0),
        15,
    ),
    "ratio: all rated 0": (strategy("RequestedToCapacityRatio", ("cpu", 1), ratio=FALLING), HALF, 0),
    "ratio: half is rounded up": (
        strategy(
            "RequestedToCapacityRatio",
            ("cpu", 1),
            ("memory", 1),
            ratio={"shape": [{"utilization": 0, "score": 0}, {"utilization": 80, "score": 1}]},
        ),
        make_pod("p").req(cpu=0, memory="2Gi"),
        8,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", SCORE_CASES)
def test_score(case: str, form: Any) -> None:
    """A node with half of its cpu and memory in use."""
    args, pod, expected = SCORE_CASES[case]
    harness = PluginHarness(NodeResourcesFit, args=args, nodes=[NODE.obj()], pods=[BUSY])
    _, raw, scores = harness.score(CycleState(), pod.obj(), harness.nodes(), form=form)
    assert (raw, scores) == ({"n": expected}, {"n": expected})


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "Best"},
        {"type": "RequestedToCapacityRatio"},
        {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {}},
    ],
)
def test_bad_strategies_are_refused(bad: Any) -> None:
    """A strategy that does not exist, or has no shape, is an error when the plugin is made."""
    with pytest.raises(ValueError, match="scoring"):
        PluginHarness(NodeResourcesFit, args={"scoringStrategy": bad})


# Hints


def placed(cpu: str) -> Pod:
    return make_pod("other").req(cpu=cpu).node("n").obj()


WAITING = make_pod("waiting").req(cpu=1)
POD_HINTS = {
    "a placed pod went": (WAITING, placed("1"), None, Hint.QUEUE),
    "a nominated pod went": (WAITING, make_pod("other").nominated("n").obj(), None, Hint.QUEUE),
    "a pod without a node went": (WAITING, make_pod("other").obj(), None, Hint.SKIP),
    "a placed pod shrank": (WAITING, placed("2"), placed("1"), Hint.QUEUE),
    "it shrank in something else": (make_pod("waiting").req(memory=1), placed("2"), placed("1"), Hint.SKIP),
    "it shrank, but nothing is wanted": (make_pod("waiting").req(cpu=0), placed("2"), placed("1"), Hint.SKIP),
    "a pod without a node shrank": (WAITING, make_pod("o").req(cpu=2).obj(), make_pod("o").req(cpu=1).obj(), Hint.SKIP),
    "the pod itself shrank": (WAITING, WAITING.obj(), WAITING.obj(), Hint.QUEUE),
}


@pytest.mark.parametrize("case", POD_HINTS)
def test_hints_on_pods(case: str) -> None:
    """Room comes from placed pods that go or shrink."""
    pod, old, new, expected = POD_HINTS[case]
    event = PluginHarness(NodeResourcesFit).plugin.events_to_register()[0]
    assert event.hint(pod.obj(), old, new) is expected


def sized(**amounts: Any) -> Node:
    return make_node("n").allocatable(**amounts).obj()


NODE_HINTS = {
    "a node with room came": (None, sized(cpu=1, pods=1), Hint.QUEUE),
    "a node without room came": (None, sized(cpu="500m", pods=1), Hint.SKIP),
    "a node that takes no pods came": (None, sized(cpu=1), Hint.SKIP),
    "it grew": (sized(cpu=1, pods=1), sized(cpu=2, pods=1), Hint.QUEUE),
    "it grew, but not enough": (sized(cpu="1m", pods=1), sized(cpu="2m", pods=1), Hint.SKIP),
    "it takes more pods": (sized(cpu=1, pods=1), sized(cpu=1, pods=2), Hint.QUEUE),
    "it grew in something else": (sized(cpu=1, memory=1, pods=1), sized(cpu=1, memory=2, pods=1), Hint.SKIP),
    "it shrank": (sized(cpu=2, pods=1), sized(cpu=1, pods=1), Hint.SKIP),
}


@pytest.mark.parametrize("case", NODE_HINTS)
def test_hints_on_nodes(case: str) -> None:
    """Room comes from nodes that come or grow in what the pod asks for."""
    old, new, expected = NODE_HINTS[case]
    event = PluginHarness(NodeResourcesFit).plugin.events_to_register()[1]
    assert event.hint(WAITING.obj(), old, new) is expected


# Agreement


@settings(max_examples=60, deadline=None)
@given(
    happened=events(nodes(), pods()),
    pod=pods(placed=False),
    ignored=st.sampled_from([{}, {"ignoredResources": ["example.com/gpu"]}, {"ignoredResourceGroups": ["other.io"]}]),
    scoring=st.none() | strategies(),
    seed=st.integers(0, 99),
)
def test_agrees_with_the_reference(happened: Any, pod: Pod, ignored: Any, scoring: Any, seed: int) -> None:
    """Columns and the per-node form give what plain whole-number arithmetic gives, as the cluster changes."""
    args = {**ignored, **({"scoringStrategy": scoring} if scoring else {})}
    agreement = Agreement(NodeResourcesFit, Fit, args)
    play(agreement, happened, pod, seed)
    agreement.check_what_if(pod, seed=seed)


@settings(max_examples=30, deadline=None)
@given(
    cluster=st.lists(nodes(sized=True), min_size=8, max_size=9, unique_by=lambda node: node.name),
    running=st.lists(pods(), max_size=10),
    waiting=st.lists(pods(placed=False), min_size=1, max_size=2),
    scoring=st.none() | strategies(),
    seed=st.integers(0, 99),
)
def test_columns_agree_on_whole_clusters(cluster: Any, running: Any, waiting: Any, scoring: Any, seed: int) -> None:
    """The same with enough nodes, all of some size, for the columns to be used throughout, pod by pod."""
    agreement = Agreement(NodeResourcesFit, Fit, {"scoringStrategy": scoring} if scoring else None)
    agreement.put(*cluster)
    with squeezed():
        for pod in waiting:
            play(agreement, [("put", other) for other in running], pod, seed)
