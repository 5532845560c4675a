"""NodeAffinity: node selectors, required and preferred terms, the profile's own, narrowing by name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import Hint, Status
from mooring.framework.status import Code
from mooring.plugins.node_affinity import NodeAffinity
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.agreement import FORMS, Agreement, events, play
from tests.plugins.reference.node_affinity import NodeAffinityReference

REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
NODES = [
    make_node("a").label(zone="east", size="3").obj(),
    make_node("b").label(zone="west", size="10", disk="ssd").obj(),
    make_node("c").obj(),
]


def only(*names: str) -> set[str]:
    return set(names)


def added(pod: Any) -> dict[str, Any]:
    """What a pod wants, as arguments of the plugin."""
    return {"addedAffinity": msgspec.to_builtins(pod.obj().spec.affinity.node_affinity)}


FILTER_CASES = {
    "node selector": (make_pod("p").node_selector(zone="east"), only("a")),
    "node selector, two labels": (make_pod("p").node_selector(zone="west", disk="ssd"), only("b")),
    "node selector, one label wrong": (make_pod("p").node_selector(zone="east", disk="ssd"), only()),
    "in": (make_pod("p").node_affinity_in("zone", ["east", "north"]), only("a")),
    "not in, absent counts": (make_pod("p").node_affinity_not_in("zone", ["east"]), only("b", "c")),
    "exists": (make_pod("p").node_affinity(("disk", "Exists")), only("b")),
    "does not exist": (make_pod("p").node_affinity(("disk", "DoesNotExist")), only("a", "c")),
    "greater": (make_pod("p").node_affinity(("size", "Gt", "3")), only("b")),
    "less": (make_pod("p").node_affinity(("size", "Lt", "10")), only("a")),
    "not a number": (make_pod("p").node_affinity(("zone", "Gt", "3")), only()),
    "terms are ORed": (
        make_pod("p").node_affinity_in("zone", ["east"]).node_affinity_in("zone", ["west"]),
        only("a", "b"),
    ),
    "expressions are ANDed": (make_pod("p").node_affinity(("zone", "Exists"), ("disk", "DoesNotExist")), only("a")),
    "selector and affinity": (make_pod("p").node_selector(zone="west").node_affinity(("disk", "DoesNotExist")), only()),
    "an empty term matches nothing": (make_pod("p").node_affinity(), only()),
    "an unreadable term matches nothing": (make_pod("p").node_affinity(("zone", "Likes", "x")), only()),
    "another term may still match": (
        make_pod("p").node_affinity(("zone", "Likes")).node_affinity_in("zone", ["east"]),
        only("a"),
    ),
    "an empty selector is fine": (make_pod("p").node_selector(), only("a", "b", "c")),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", FILTER_CASES)
def test_filter(case: str, form: Any) -> None:
    """Three nodes, of which these are left."""
    pod, left = FILTER_CASES[case]
    result = run_plugin(NodeAffinity, pod.obj(), nodes=NODES, form=form)
    assert result.pre_filter == Status()
    assert set(result.feasible) == left
    assert set(result.rejected.values()) <= {(REASON,)}


def by_name(*names: str) -> Any:
    return make_pod("p").node_names(*names)


PRE_FILTER_CASES = {
    "nothing wanted": (make_pod("p"), Status.skip(template=True), None),
    "preferences do not matter": (
        make_pod("p").preferred_node_affinity_in(1, "zone", ["x"]),
        Status.skip(template=True),
        None,
    ),
    "an empty selector is not nothing": (make_pod("p").node_selector(), Status(), None),
    "one name": (by_name("a"), Status(), {"a"}),
    "names of several terms are united": (by_name("a", "x"), Status(), {"a", "x"}),
    "names within a term are intersected": (
        make_pod("p").node_affinity(fields=[("metadata.name", "In", "a"), ("metadata.name", "In", "a")]),
        Status(),
        {"a"},
    ),
    "to nothing": (
        make_pod("p").node_affinity(fields=[("metadata.name", "In", "a"), ("metadata.name", "In", "b")]),
        Status.unresolvable("pod affinity terms conflict"),
        None,
    ),
    "one term without a name": (by_name("a").node_affinity(("zone", "Exists")), Status(), None),
    "not that name": (make_pod("p").node_affinity(fields=[("metadata.name", "NotIn", "a")]), Status(), None),
}


@pytest.mark.parametrize("case", PRE_FILTER_CASES)
def test_pre_filter(case: str) -> None:
    """Pods that accept any node are skipped, those that name nodes narrow the search."""
    pod, status, narrowed = PRE_FILTER_CASES[case]
    result = run_plugin(NodeAffinity, pod.obj(), nodes=NODES)
    assert (result.pre_filter, result.pre_filter_nodes) == (status, narrowed)


@pytest.mark.parametrize("form", FORMS)
def test_added_affinity_comes_first(form: Any) -> None:
    """What the profile adds is asked before what the pod wants, even of pods that want nothing."""
    args = added(make_pod("x").node_affinity_in("zone", ["east", "west"]))
    result = run_plugin(NodeAffinity, make_pod("p").obj(), nodes=NODES, args=args, form=form)
    assert result.rejected == {"c": (ENFORCED,)}
    result = run_plugin(NodeAffinity, make_pod("p").node_selector(disk="ssd").obj(), nodes=NODES, args=args, form=form)
    assert result.rejected == {"a": (REASON,), "c": (ENFORCED,)}


SCORE_CASES = {
    "weights are added": (
        make_pod("p")
        .preferred_node_affinity_in(5, "zone", ["east", "west"])
        .preferred_node_affinity(3, ("disk", "Exists")),
        {"a": 5, "b": 8, "c": 0},
        {"a": 62, "b": 100, "c": 0},
    ),
    "weight 0 and empty terms count for nothing": (
        make_pod("p").preferred_node_affinity_in(0, "zone", ["east"]).preferred_node_affinity(9),
        {"a": 0, "b": 0, "c": 0},
        {"a": 0, "b": 0, "c": 0},
    ),
    "by name": (
        make_pod("p").preferred_node_affinity(7, fields=[("metadata.name", "In", "c")]),
        {"a": 0, "b": 0, "c": 7},
        {"a": 0, "b": 0, "c": 100},
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", SCORE_CASES)
def test_score(case: str, form: Any) -> None:
    """The weights of matching terms, scaled so that the best node gets 100."""
    pod, raw, scores = SCORE_CASES[case]
    result = run_plugin(NodeAffinity, pod.obj(), nodes=NODES, form=form)
    assert (result.raw_scores, result.scores) == (raw, scores)


@pytest.mark.parametrize("form", FORMS)
def test_added_preferences_are_added(form: Any) -> None:
    """The profile's preferences count for every pod."""
    args = added(make_pod("x").preferred_node_affinity_in(5, "zone", ["east"]))
    pod = make_pod("p").preferred_node_affinity_in(5, "zone", ["east", "west"])
    result = run_plugin(NodeAffinity, pod.obj(), nodes=NODES, args=args, form=form)
    assert result.raw_scores == {"a": 10, "b": 5, "c": 0}
    assert run_plugin(NodeAffinity, make_pod("p").obj(), nodes=NODES, args=args).raw_scores == {"a": 5, "b": 0, "c": 0}


def test_pre_score() -> None:
    """Pods without preferences are skipped; unreadable preferences are an error."""
    assert run_plugin(NodeAffinity, make_pod("p").obj(), nodes=NODES).pre_score.code is Code.SKIP
    broken = make_pod("p").preferred_node_affinity(1, ("zone", "Likes", "x")).obj()
    status = run_plugin(NodeAffinity, broken, nodes=NODES).pre_score
    assert status.code is Code.ERROR
    assert 'Unsupported value: "Likes"' in status.message


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (make_pod("x").node_affinity(("zone", "Likes", "x")), "parsing addedAffinity.required"),
        (make_pod("x").preferred_node_affinity(1, ("zone", "In")), "parsing addedAffinity.preferred"),
    ],
)
def test_unreadable_added_affinity_is_refused(wanted: Any, message: str) -> None:
    """A profile that cannot be read is an error when the plugin is made."""
    with pytest.raises(ValueError, match=message):
        PluginHarness(NodeAffinity, args=added(wanted))


EAST, WEST = make_node("n").label(zone="east").obj(), make_node("n").label(zone="west").obj()
WANTS_EAST = make_pod("p").node_affinity_in("zone", ["east"])
HINTS = {
    "a node that matches came": (None, WANTS_EAST, None, EAST, Hint.QUEUE),
    "one that does not came": (None, WANTS_EAST, None, WEST, Hint.SKIP),
    "it matches now": (None, WANTS_EAST, WEST, EAST, Hint.QUEUE),
    "it matched before": (None, WANTS_EAST, EAST, EAST, Hint.SKIP),
    "the profile does not want it": (
        make_pod("x").node_affinity_in("zone", ["west"]),
        WANTS_EAST,
        None,
        EAST,
        Hint.SKIP,
    ),
    "terms that cannot be read": (None, make_pod("p").node_affinity(("zone", "Likes")), None, EAST, Hint.QUEUE),
    "but the selector says no": (
        None,
        make_pod("p").node_affinity(("zone", "Likes")).node_selector(x="y"),
        None,
        EAST,
        Hint.SKIP,
    ),
}


@pytest.mark.parametrize("case", HINTS)
def test_hints(case: str) -> None:
    """Worth an attempt when a node comes to match."""
    args, pod, old, new, expected = HINTS[case]
    event = PluginHarness(NodeAffinity, args=added(args) if args else None).plugin.events_to_register()[0]
    assert event.hint(pod.obj(), old, new) is expected


def test_pods_that_want_the_same_share_a_signature() -> None:
    """Only the selector and the node affinity tell pods apart, and an empty selector is no trouble."""
    harness = PluginHarness(NodeAffinity)
    wanted = [
        make_pod("p"),
        make_pod("p").node_selector(),
        make_pod("p").node_selector(zone="east"),
        WANTS_EAST,
        WANTS_EAST.preferred_node_affinity_in(1, "zone", ["east"]),
    ]
    templates = [[harness.handle.template(pod.label(app=app).obj()) for pod in wanted] for app in ("a", "b")]
    first, second = ([harness.plugin.signature(template) for template in each] for each in templates)
    assert first == second
    assert len(set(first)) == len(wanted)


KEYS, VALUES = st.sampled_from(["zone", "size", "disk"]), st.sampled_from(["a", "b", "1", "2", "3"])
NAMES = st.sampled_from([f"n{number}" for number in range(6)])


@st.composite
def expressions(draw: st.DrawFn) -> tuple[str, ...]:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    if operator in ("In", "NotIn"):
        return (draw(KEYS), operator, *draw(st.lists(VALUES, min_size=1, max_size=2)))
    if operator in ("Gt", "Lt"):
        return (draw(KEYS), operator, draw(st.sampled_from(["1", "2", "3"])))
    return (draw(KEYS), operator)


FIELDS = st.tuples(
    st.sampled_from(["metadata.name", "metadata.name", "spec.x"]), st.sampled_from(["In", "NotIn"]), NAMES
)
TERMS = st.tuples(st.lists(expressions(), max_size=2), st.lists(FIELDS, max_size=2))


@st.composite
def choosy(draw: st.DrawFn, *, selector: bool = True) -> Any:
    pod = make_pod("p")
    if selector and draw(st.booleans()):
        pod = pod.node_selector(draw(st.dictionaries(KEYS, VALUES, max_size=2)))
    for requirements, fields in draw(st.lists(TERMS, max_size=3)):
        pod = pod.node_affinity(*requirements, fields=fields)
    for weight, (requirements, fields) in draw(st.lists(st.tuples(st.integers(-5, 100), TERMS), max_size=3)):
        pod = pod.preferred_node_affinity(weight, *requirements, fields=fields)
    return pod


@st.composite
def labelled(draw: st.DrawFn) -> Node:
    return make_node(draw(NAMES)).label(draw(st.dictionaries(KEYS, VALUES, max_size=3))).obj()


PODS = choosy().map(lambda pod: pod.obj())


@settings(max_examples=80, deadline=None)
@given(happened=events(labelled(), PODS), pod=PODS, extra=st.none() | choosy(selector=False), seed=st.integers(0, 99))
def test_agrees_with_the_reference(happened: Any, pod: Pod, extra: Any, seed: int) -> None:
    """Looking labels up in columns is the same as matching every node's labels, as labels change."""
    affinity = extra.obj().spec.affinity if extra else None
    args = {"addedAffinity": affinity.node_affinity} if affinity else None
    agreement = Agreement(NodeAffinity, NodeAffinityReference, args)
    play(agreement, happened, pod, seed)
    agreement.check_what_if(pod, seed=seed)
