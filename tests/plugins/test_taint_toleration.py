"""TaintToleration: which taints keep a pod off, which make a node less liked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import CycleState, Hint, MissingStateError, Status
from mooring.plugins.taint_toleration import TaintToleration
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.agreement import FORMS, Agreement, events, play
from tests.plugins.reference.taint_toleration import TaintTolerationReference

REJECTED = Status.unresolvable("node(s) had untolerated taint(s)")
GPU = make_node("n").taint("gpu", "yes")

FILTER_CASES = {
    "no taint": (make_node("n"), make_pod("p"), True),
    "untolerated": (GPU, make_pod("p"), False),
    "tolerated by value": (GPU, make_pod("p").toleration("gpu", "yes"), True),
    "another value": (GPU, make_pod("p").toleration("gpu", "no"), False),
    "tolerated whatever the value": (GPU, make_pod("p").toleration("gpu"), True),
    "everything tolerated": (GPU, make_pod("p").toleration(), True),
    "another effect": (GPU, make_pod("p").toleration("gpu", None, "NoExecute"), False),
    "the right effect": (GPU, make_pod("p").toleration("gpu", None, "NoSchedule"), True),
    "one of two": (GPU.taint("old", "", "NoExecute"), make_pod("p").toleration("gpu"), False),
    "both": (GPU.taint("old", "", "NoExecute"), make_pod("p").toleration("gpu").toleration("old"), True),
    "only disliked": (make_node("n").taint("soft", "", "PreferNoSchedule"), make_pod("p"), True),
    "comparison operators never match": (
        make_node("n").taint("level", "3"),
        make_pod("p").toleration("level", "1", operator="Gt"),
        False,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", FILTER_CASES)
def test_filter(case: str, form: Any) -> None:
    """Every NoSchedule and NoExecute taint must be tolerated."""
    node, pod, fine = FILTER_CASES[case]
    result = run_plugin(TaintToleration, pod.obj(), nodes=[node.obj()], form=form)
    assert result.filter["n"] == (Status() if fine else REJECTED)


def disliked(name: str, *keys: str) -> Node:
    node = make_node(name)
    for key in keys:
        node = node.taint(key, "", "PreferNoSchedule")
    return node.obj()


NODES = [disliked("none"), disliked("one", "a"), disliked("three", "a", "b", "c")]
SCORE_CASES = {
    "the more, the worse": (make_pod("p"), {"none": 0, "one": 1, "three": 3}, {"none": 100, "one": 67, "three": 0}),
    "tolerated ones do not count": (
        make_pod("p").toleration("a").toleration("b", None, "PreferNoSchedule"),
        {"none": 0, "one": 0, "three": 1},
        {"none": 100, "one": 100, "three": 0},
    ),
    "tolerations of other effects do not help": (
        make_pod("p").toleration("a", None, "NoSchedule"),
        {"none": 0, "one": 1, "three": 3},
        {"none": 100, "one": 67, "three": 0},
    ),
    "all tolerated": (
        make_pod("p").toleration(),
        {"none": 0, "one": 0, "three": 0},
        {"none": 100, "one": 100, "three": 100},
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", SCORE_CASES)
def test_score(case: str, form: Any) -> None:
    """PreferNoSchedule taints are counted, and the count is turned round."""
    pod, raw, scores = SCORE_CASES[case]
    result = run_plugin(TaintToleration, pod.obj(), nodes=NODES, form=form)
    assert (result.raw_scores, result.scores) == (raw, scores)


def test_uniform_scores_are_one_number() -> None:
    """No taint that matters: no column is made."""
    harness = PluginHarness(TaintToleration, nodes=[make_node("a").obj(), GPU.obj()])
    state, pod = CycleState(), make_pod("p").obj()
    harness.plugin.pre_score(state, pod, harness.nodes())
    assert harness.plugin.score_nodes(state, pod, harness.nodes()) == 0


@pytest.mark.parametrize("method", ["score_nodes", "score"])
def test_score_needs_pre_score(method: str) -> None:
    """Where PreScore is disabled, upstream's Score is an error."""
    harness = PluginHarness(TaintToleration, nodes=[GPU.obj()])
    view = harness.nodes() if method == "score_nodes" else harness.info("n")
    with pytest.raises(MissingStateError, match="PreScoreTaintToleration"):
        getattr(harness.plugin, method)(CycleState(), make_pod("p").obj(), view)


NODE_HINTS = {
    "a tolerated node came": (None, make_node("n").obj(), Hint.QUEUE),
    "an untolerated node came": (None, GPU.obj(), Hint.SKIP),
    "the taint went": (GPU.obj(), make_node("n").obj(), Hint.QUEUE),
    "the taint stayed": (GPU.obj(), GPU.taint("more").obj(), Hint.SKIP),
    "there was none": (make_node("n").obj(), make_node("n").obj(), Hint.SKIP),
    "a disliked one went": (disliked("n", "a"), make_node("n").obj(), Hint.SKIP),
}


@pytest.mark.parametrize("case", NODE_HINTS)
def test_hints_on_nodes(case: str) -> None:
    """Worth an attempt when a node turns from untolerated to tolerated."""
    old, new, expected = NODE_HINTS[case]
    event = PluginHarness(TaintToleration).plugin.events_to_register()[0]
    assert event.hint(make_pod("p").obj(), old, new) is expected


def test_hints_on_pods() -> None:
    """The pod's own tolerations matter, not another's."""
    event = PluginHarness(TaintToleration).plugin.events_to_register()[1]
    pod = make_pod("p").obj()
    assert event.hint(pod, pod, make_pod("p").toleration("x").obj()) is Hint.QUEUE
    assert event.hint(pod, pod, make_pod("q").toleration("x").obj()) is Hint.SKIP


KEYS, VALUES = st.sampled_from(["a", "b", ""]), st.sampled_from(["", "x", "y"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])


@st.composite
def tainted(draw: st.DrawFn) -> Node:
    node = make_node(draw(st.sampled_from([f"n{number}" for number in range(6)])))
    for key, value, effect in draw(st.lists(st.tuples(KEYS, VALUES, EFFECTS), max_size=3)):
        node = node.taint(key, value, effect)
    return node.obj()


@st.composite
def tolerant(draw: st.DrawFn) -> Pod:
    pod = make_pod("p")
    operators = st.sampled_from(["", "Equal", "Exists", "Gt", "Lt"])
    for key, value, effect, operator in draw(
        st.lists(st.tuples(KEYS, VALUES, EFFECTS | st.just(""), operators), max_size=3)
    ):
        pod = pod.toleration(key, value, effect, operator=operator or "Equal")
    return pod.obj()


@settings(max_examples=80, deadline=None)
@given(happened=events(tainted(), tolerant()), pod=tolerant(), seed=st.integers(0, 99))
def test_agrees_with_the_reference(happened: Any, pod: Pod, seed: int) -> None:
    """Judging sets of taints is the same as judging every node, as taints come and go."""
    agreement = Agreement(TaintToleration, TaintTolerationReference)
    play(agreement, happened, pod, seed)
    agreement.check_what_if(pod, seed=seed)
