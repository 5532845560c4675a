"""Hard spread constraints, and hypothetical changes."""

from __future__ import annotations

import pytest

from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Code, Status
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.testing import (
    PluginHarness,
    check_what_if,
    make_node,
    make_pod,
    make_victims,
    run_plugin,
    selector,
)
from mooring.testing.harness import statuses

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
UNEVEN = Status.unschedulable("node(s) didn't match pod topology spread constraints")
UNLABELLED = Status.unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
WEB = {"app": "web"}
SOFT = "ScheduleAnyway"
#: Two nodes in zone a, two in zone b.
NODES = [make_node(name).zone(zone) for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"))]
web = make_pod("web").label(WEB)


def on(*names: str, pod=web):
    """Pods on nodes, one a name."""
    return [pod.named(f"{pod.obj().name}-{number}").node(name).obj() for number, name in enumerate(names)]


def rejected(pod, pods, nodes=NODES, objects=(), args=None):
    run = run_plugin(
        PodTopologySpread, pod.obj(), nodes=[node.obj() for node in nodes], pods=pods, objects=objects, args=args
    )
    return {name: status for name, status in run.filter.items() if status != SUCCESS}


HARD_CASES = {
    "no pods yet": (web.spread(ZONE, WEB), [], {}),
    "one zone ahead by one": (web.spread(ZONE, WEB), on("a1"), {"a1": UNEVEN, "a2": UNEVEN}),
    "a wider skew": (web.spread(ZONE, WEB, max_skew=2), on("a1"), {}),
    "both zones alike": (web.spread(ZONE, WEB), on("a1", "b2"), {}),
    "by host": (web.spread(HOST, WEB), on("a1", "b2"), {"a1": UNEVEN, "b2": UNEVEN}),
    "the pod itself does not count": (make_pod("p").spread(ZONE, WEB), on("a1"), {}),
    "pods of other namespaces do not count": (
        web.spread(ZONE, WEB),
        on("a1", pod=make_pod("x", "elsewhere").label(WEB)),
        {},
    ),
    "terminating pods do not count": (web.spread(ZONE, WEB), on("a1", pod=web.terminating()), {}),
    "an absent selector counts nothing": (web.spread(ZONE), on("a1", "a1"), {}),
    "an empty selector counts nothing but the pod itself": (web.spread(ZONE, {}), on("a1", "a1"), {}),
    "two constraints: a zone full, hosts full": (
        web.spread(ZONE, WEB).spread(HOST, WEB),
        on("a1", "a1", "b1"),
        {"a1": UNEVEN, "a2": UNEVEN, "b1": UNEVEN},
    ),
    "too few domains: the minimum is 0": (
        web.spread(ZONE, WEB, min_domains=3),
        on("a1", "b1"),
        dict.fromkeys(("a1", "a2", "b1", "b2"), UNEVEN),
    ),
    "enough domains": (web.spread(ZONE, WEB, min_domains=2), on("a1", "b1"), {}),
    "keys of the pod's own labels": (
        web.label(hash="1").spread(ZONE, WEB, match_label_keys=["hash", "absent"]),
        on("a1", "a1", pod=web.label(hash="2")) + on("b1", pod=web.named("other").label(hash="1")),
        {"b1": UNEVEN, "b2": UNEVEN},
    ),
    "keys of the pod's own labels leave an absent selector alone": (
        web.spread(ZONE, match_label_keys=["app"]),
        on("a1", "a1"),
        {},
    ),
    "pods count only where the pod may go": (
        web.spread(ZONE, WEB).node_affinity((HOST, "NotIn", "b1")),
        on("a1", "b1", "b1", "b1"),
        {"a1": UNEVEN, "a2": UNEVEN},
    ),
    "unless node affinity is to be ignored": (
        web.spread(ZONE, WEB, node_affinity_policy="Ignore").node_affinity((HOST, "NotIn", "b1")),
        on("a1", "b1", "b1", "b1"),
        {"b1": UNEVEN, "b2": UNEVEN},
    ),
    "a domain where the pod may not go is unknown and counts 0": (
        web.spread(ZONE, WEB).node_affinity((ZONE, "In", "a")),
        on("b1", "b1", "b1"),
        {},
    ),
}


@pytest.mark.parametrize(("pod", "pods", "expected"), HARD_CASES.values(), ids=HARD_CASES)
def test_hard_constraints(pod, pods, expected):
    assert rejected(pod, pods) == expected


def test_nodes_without_a_key_do_not_count_and_are_rejected():
    nodes = [*NODES, make_node("lost"), make_node("c1").zone("c").label(rack="1")]
    pods = on("lost", "lost", "a1")
    assert rejected(web.spread(ZONE, WEB), pods, nodes) == {"a1": UNEVEN, "a2": UNEVEN, "lost": UNLABELLED}
    both = web.spread(ZONE, WEB).spread("rack", WEB)
    # Only c1 has both keys, so zone a is unknown and counts 0, but the nodes there lack the second key.
    assert rejected(both, pods, nodes) == dict.fromkeys(("a1", "a2", "b1", "b2", "lost"), UNLABELLED)


def test_the_first_constraint_that_fails_gives_the_reason():
    nodes = [
        make_node("a1").zone("a").label(rack="1"),
        make_node("b1").zone("b").label(rack="1"),
        make_node("a2").zone("a"),
    ]
    pod = web.spread(ZONE, WEB).spread("rack", WEB)
    assert rejected(pod, on("a1"), nodes) == {"a1": UNEVEN, "a2": UNEVEN}
    assert rejected(pod, [], nodes) == {"a2": UNLABELLED}


def test_taints_matter_if_they_are_to_be_honored():
    nodes = [*NODES, make_node("c1").zone("c").taint("gpu")]
    pods = on("a1", "b1")
    full = dict.fromkeys(("a1", "a2", "b1", "b2"), UNEVEN)
    assert rejected(web.spread(ZONE, WEB), pods, nodes) == full
    honor = web.spread(ZONE, WEB, node_taints_policy="Honor")
    assert rejected(honor, pods, nodes) == {}
    assert rejected(honor.toleration("gpu"), pods, nodes) == full


def test_a_pod_without_hard_constraints_is_skipped():
    for pod in (web, web.spread(ZONE, WEB, when=SOFT)):
        assert run_plugin(PodTopologySpread, pod.obj(), nodes=[NODES[0].obj()]).pre_filter.code is Code.SKIP


@pytest.mark.parametrize(
    ("when", "point", "text"),
    [
        ("DoNotSchedule", "pre_filter", "get constraints from pod: obtaining pod's hard"),
        (SOFT, "pre_score", "calculating preScoreState: obtaining pod's soft"),
    ],
)
def test_an_invalid_selector_is_an_error(when, point, text):
    pod = web.spread(ZONE, selector({}, ("app", "Like", "web")), when=when).obj()
    expected = f'{text} topology spread constraints: "Like" is not a valid label selector operator'
    assert getattr(run_plugin(PodTopologySpread, pod, nodes=[NODES[0].obj()]), point) == Status.error(expected)


# Hypothetical pods


def spread_harness(*pods, nodes=NODES):
    return PluginHarness(PodTopologySpread, nodes=[node.obj() for node in nodes], pods=pods)


def ready(harness, pod):
    state = CycleState()
    assert harness.pre_filter(state, pod)[0] == SUCCESS
    return state


def test_removed_and_added_pods_count_on_a_copy_only():
    pods = on("a1", "a2")
    harness, pod = spread_harness(*pods), web.spread(ZONE, WEB).obj()
    state = ready(harness, pod)
    uids = [each.uid for each in pods]
    assert harness.filter_what_if(state, pod, "a1") == UNEVEN
    assert harness.filter_what_if(state, pod, "a1", without=uids[:1]) == UNEVEN
    assert harness.filter_what_if(state, pod, "a1", without=[]) == UNEVEN
    assert harness.filter_what_if(state, pod, "b1", with_pods=on("b1", pod=web.named("new"))) == SUCCESS
    gone = harness.filter(state, pod, harness.nodes())
    assert gone == {"a1": UNEVEN, "a2": UNEVEN, "b1": SUCCESS, "b2": SUCCESS}


def test_removing_a_terminating_pod_takes_away_what_it_never_added():
    leaving = on("a1", pod=web.terminating())
    harness, pod = spread_harness(*leaving, *on("b1", pod=web.named("b"))), web.spread(ZONE, WEB, max_skew=2).obj()
    state = ready(harness, pod)
    assert harness.filter_what_if(state, pod, "b1") == SUCCESS
    assert harness.filter_what_if(state, pod, "a1", without=[leaving[0].uid]) == SUCCESS
    # Zone a is at -1 then, so that zone b (1, and 1 for the pod) is 3 ahead of it.
    below = state.clone()
    harness.plugin.remove_pod(below, pod, harness.table.pods[leaving[0].uid], harness.info("a1"))
    assert harness.filter(below, pod, harness.nodes(["b1"])) == {"b1": UNEVEN}


def test_an_empty_selector_counts_hypothetical_pods():
    harness, pod = spread_harness(), web.spread(ZONE, {}).obj()
    state = ready(harness, pod)
    assert harness.filter_what_if(state, pod, "a1") == SUCCESS
    assert harness.filter_what_if(state, pod, "a1", with_pods=on("a1", pod=web.named("new"))) == UNEVEN


def test_pods_on_nodes_that_do_not_count_change_nothing():
    harness = spread_harness(nodes=[*NODES, make_node("lost")])
    pod = web.spread(ZONE, WEB).node_affinity((HOST, "NotIn", "b1")).obj()
    state = ready(harness, pod)
    for node in ("lost", "b1"):
        before = harness.filter_what_if(state, pod, node)
        assert harness.filter_what_if(state, pod, node, with_pods=on(node, pod=web.named("new"))) == before


def test_what_if_agrees_with_one_by_one():
    pods = on("a1", "a1", "a2", "b1", "b1", "b1")
    harness = spread_harness(*pods, nodes=[*NODES, make_node("lost"), make_node("c1").zone("c")])
    victims = {
        name: [pod.uid for pod in pods if pod.node_name == name] for name in ("a1", "a2", "b1", "b2", "lost", "c1")
    }
    for pod in (
        web.spread(ZONE, WEB),
        web.spread(ZONE, WEB, min_domains=5).spread(HOST, WEB),
        web.spread("rack", WEB),
        web.spread(ZONE, WEB).node_affinity((ZONE, "In", "a", "c")),
    ):
        check_what_if(harness, pod.obj(), victims)


def test_what_if_holds_for_more_pods_than_there_are():
    harness, pod = spread_harness(*on("a1", "b1")), web.spread(ZONE, WEB).obj()
    state = ready(harness, pod)
    model = harness.plugin.what_if(state, pod, make_victims(harness, {"a1": [], "b2": []}))
    assert statuses(model.verdicts(model.values), 2) == [SUCCESS, SUCCESS]
    assert statuses(model.verdicts(model.values + 1), 2) == [UNEVEN, UNEVEN]
    # Without b1's pod zone b has the minimum, which then rises with zone b itself.
    lower = spread_harness(*on("a1"))
    model = lower.plugin.what_if(ready(lower, pod), pod, make_victims(lower, {"b2": []}))
    assert [statuses(model.verdicts(model.values + more), 1)[0] for more in (0, 1, 2)] == [SUCCESS, SUCCESS, UNEVEN]
