"""Required pod affinity and anti-affinity, and hypothetical changes."""

from __future__ import annotations

import pytest

from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Code, Status
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.testing import (
    PluginHarness,
    check_what_if,
    make_namespace,
    make_node,
    make_pod,
    run_plugin,
    selector,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
LONELY = Status.unresolvable("node(s) didn't match pod affinity rules")
UNWILLING = Status.unschedulable("node(s) didn't match pod anti-affinity rules")
UNWANTED = Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
WEB, DB = {"app": "web"}, {"app": "db"}
#: Two nodes in zone a, one in zone b, one in no zone.
NODES = [make_node("a1").zone("a"), make_node("a2").zone("a"), make_node("b1").zone("b"), make_node("lost")]
NAMESPACES = [make_namespace("red").label(team="red").obj(), make_namespace("blue").label(team="blue").obj()]
pod, web, db = make_pod("p"), make_pod("web").label(WEB), make_pod("db").label(DB)
NOT_RED = selector({}, ("team", "NotIn", "red"))


def on(node, *builders):
    """Pods on a node."""
    return [builder.node(node).obj() for builder in builders]


def cycle(incoming, pods, args=None):
    return run_plugin(
        InterPodAffinity,
        incoming.obj(),
        nodes=[node.obj() for node in NODES],
        pods=pods,
        objects=NAMESPACES,
        args=args,
    )


def everywhere(status, *but):
    return {name: status for name in ("a1", "a2", "b1", "lost") if name not in but}


def elsewhere(namespace, labels=WEB):
    return make_pod(f"in-{namespace}", namespace).label(labels)


def test_a_node_gets_a_topology_key_that_no_node_had() -> None:
    """The terms of placed pods, and of the pod, take effect with the key, and no more without it."""
    alone = make_pod("alone").label(WEB).pod_anti_affinity("rack", WEB)
    plain = [make_node(name) for name in ("n1", "n2", "n3")]
    harness = PluginHarness(InterPodAffinity, nodes=[node.obj() for node in plain], pods=on("n1", alone))

    def rejected(incoming):
        found = harness.run(incoming.obj()).filter
        return {name: status for name, status in found.items() if status != SUCCESS}

    second = make_pod("second").label(WEB)
    assert rejected(second) == rejected(second.pod_anti_affinity("rack", WEB)) == {}
    for node in plain[:2]:
        harness.add(node.label(rack="r").obj())
    assert rejected(second) == {"n1": UNWANTED, "n2": UNWANTED}
    assert rejected(second.label(app="other").pod_anti_affinity("rack", WEB)) == {"n1": UNWILLING, "n2": UNWILLING}
    assert harness.table.check() == []
    for node in plain[:2]:
        harness.add(node.obj())
    assert rejected(second) == rejected(second.pod_anti_affinity("rack", WEB)) == {}
    assert harness.table.check() == []


REQUIRED_CASES = {
    "near a pod: its zone": (pod.pod_affinity(ZONE, WEB), on("a1", web), everywhere(LONELY, "a1", "a2")),
    "near a pod: its node": (pod.pod_affinity(HOST, WEB), on("a1", web), everywhere(LONELY, "a1")),
    "near a pod that is nowhere": (pod.pod_affinity(ZONE, WEB), on("a1", db), everywhere(LONELY)),
    "near a pod on a node without the key": (pod.pod_affinity(ZONE, WEB), on("lost", web), everywhere(LONELY)),
    "one pod must match all terms": (
        pod.pod_affinity(ZONE, WEB).pod_affinity(HOST, {"tier": "1"}),
        on("a1", web, make_pod("one").label(tier="1")),
        everywhere(LONELY),
    ),
    "one pod that matches all terms": (
        pod.pod_affinity(ZONE, WEB).pod_affinity(HOST, {"tier": "1"}),
        on("a1", web.label(tier="1")),
        everywhere(LONELY, "a1"),
    ),
    "the first of a group may go where the keys are": (
        web.pod_affinity(ZONE, WEB),
        on("a1", db),
        {"lost": LONELY},
    ),
    "the second of a group must follow": (
        web.named("second").pod_affinity(ZONE, WEB),
        on("b1", web),
        everywhere(LONELY, "b1"),
    ),
    "a group begun on a node without the key can begin anew": (
        web.named("second").pod_affinity(ZONE, WEB),
        on("lost", web),
        {"lost": LONELY},
    ),
    "a group begun on a node with one of two keys cannot": (
        web.named("second").pod_affinity(ZONE, WEB).pod_affinity(HOST, WEB),
        on("lost", web),
        everywhere(LONELY),
    ),
    "away from a pod: its zone": (
        pod.pod_anti_affinity(ZONE, WEB),
        on("a1", web),
        {"a1": UNWILLING, "a2": UNWILLING},
    ),
    "away from a pod on a node without the key": (pod.pod_anti_affinity(ZONE, WEB), on("lost", web), {}),
    "away from itself: no matter yet": (web.pod_anti_affinity(ZONE, WEB), [], {}),
    "each term on its own": (
        pod.pod_anti_affinity(ZONE, WEB).pod_anti_affinity(HOST, DB),
        [*on("b1", web), *on("a1", db)],
        {"b1": UNWILLING, "a1": UNWILLING},
    ),
    "a placed pod keeps it away": (
        web,
        on("a1", db.pod_anti_affinity(ZONE, WEB)),
        {"a1": UNWANTED, "a2": UNWANTED},
    ),
    "a placed pod keeps others away": (db, on("a1", web.pod_anti_affinity(ZONE, WEB)), {}),
    "affinity speaks first, then the pod, then placed pods": (
        web.pod_affinity(ZONE, DB).pod_anti_affinity(HOST, DB),
        [*on("a1", db.pod_anti_affinity(ZONE, WEB))],
        {"a1": UNWILLING, "a2": UNWANTED, "b1": LONELY, "lost": LONELY},
    ),
    "pods that are being deleted count": (
        pod.pod_anti_affinity(HOST, WEB),
        on("a1", web.terminating()),
        {"a1": UNWILLING},
    ),
    "an absent selector means no pod": (pod.pod_anti_affinity(HOST, None), on("a1", web), {}),
    "an empty selector means every pod": (pod.pod_anti_affinity(HOST, {}), on("a1", db), {"a1": UNWILLING}),
    "its own namespace only": (pod.pod_anti_affinity(HOST, WEB), on("a1", elsewhere("red")), {}),
    "listed namespaces instead": (
        pod.pod_anti_affinity(HOST, WEB, namespaces=["red"]),
        [*on("a1", elsewhere("red")), *on("a2", web)],
        {"a1": UNWILLING},
    ),
    "namespaces by label": (
        pod.pod_anti_affinity(HOST, WEB, namespace_selector={"team": "red"}),
        [*on("a1", elsewhere("red")), *on("a2", elsewhere("blue")), *on("b1", web)],
        {"a1": UNWILLING},
    ),
    "namespaces by name or label": (
        pod.pod_anti_affinity(HOST, WEB, namespaces=["blue"], namespace_selector={"team": "red"}),
        [*on("a1", elsewhere("red")), *on("a2", elsewhere("blue")), *on("b1", web)],
        {"a1": UNWILLING, "a2": UNWILLING},
    ),
    "all namespaces": (
        pod.pod_anti_affinity(HOST, WEB, namespace_selector={}),
        [*on("a1", elsewhere("red")), *on("a2", elsewhere("unheard-of"))],
        {"a1": UNWILLING, "a2": UNWILLING},
    ),
    "its own selector that minds no labels means the namespaces that match it": (
        pod.pod_anti_affinity(HOST, WEB, namespace_selector=NOT_RED),
        [*on("a1", elsewhere("red")), *on("a2", elsewhere("unheard-of")), *on("b1", elsewhere("blue"))],
        {"b1": UNWILLING},
    ),
    "a placed pod's selector is asked about the namespace": (
        elsewhere("red"),
        on("a1", db.pod_anti_affinity(HOST, WEB, namespace_selector=NOT_RED)),
        {},
    ),
    "a placed pod's selector and a namespace that is not known": (
        elsewhere("unheard-of"),
        on("a1", db.pod_anti_affinity(HOST, WEB, namespace_selector=NOT_RED)),
        {"a1": UNWANTED},
    ),
}


@pytest.mark.parametrize(("incoming", "pods", "expected"), REQUIRED_CASES.values(), ids=REQUIRED_CASES)
def test_required_terms(incoming, pods, expected):
    run = cycle(incoming, pods)
    assert {name: status for name, status in run.filter.items() if status != SUCCESS} == expected


SKIPPED = {
    "no terms anywhere": (web, on("a1", db)),
    "terms that mean others": (web, on("a1", db.pod_anti_affinity(ZONE, DB))),
    "terms of a pod on a node without the key": (web, on("lost", db.pod_anti_affinity(ZONE, WEB))),
    "preferences": (web.preferred_pod_affinity(1, ZONE, DB), on("a1", db)),
    "affinity of placed pods": (web, on("a1", db.pod_affinity(ZONE, WEB))),
}


@pytest.mark.parametrize(("incoming", "pods"), SKIPPED.values(), ids=SKIPPED)
def test_filter_is_skipped(incoming, pods):
    assert cycle(incoming, pods).pre_filter.code is Code.SKIP


def test_an_invalid_selector_rejects_the_pod():
    wrong = selector({}, ("app", "Like", "web"))
    operator = '"Like" is not a valid label selector operator'
    one = pod.pod_affinity(ZONE, wrong)
    assert cycle(one, []).pre_filter == Status.unresolvable(f"parsing pod: requiredAffinityTerms: {operator}")
    two = one.preferred_pod_anti_affinity(1, ZONE, wrong)
    assert cycle(two, []).pre_filter == Status.unresolvable(
        f"parsing pod: [requiredAffinityTerms: {operator}, preferredAntiAffinityTerms: {operator}]"
    )
    harness = PluginHarness(InterPodAffinity, nodes=[NODES[0].obj()])
    status, _, _ = harness.score(CycleState(), one.obj(), harness.nodes())
    assert status == Status.error(f"failed to parse pod: requiredAffinityTerms: {operator}")


# Hypothetical pods


def affinity_harness(*pods):
    return PluginHarness(InterPodAffinity, nodes=[node.obj() for node in NODES], pods=pods, objects=NAMESPACES)


def ready(harness, incoming):
    state = CycleState()
    assert harness.pre_filter(state, incoming)[0] == SUCCESS
    return state


def test_removing_pods_can_help():
    placed = on("a1", db.pod_anti_affinity(ZONE, WEB), db.named("db2"))
    harness, incoming = affinity_harness(*placed), web.pod_anti_affinity(HOST, DB).obj()
    state = ready(harness, incoming)
    assert harness.filter_what_if(state, incoming, "a1", without=[placed[0].uid]) == UNWILLING
    assert harness.filter_what_if(state, incoming, "a1", without=[placed[1].uid]) == UNWILLING
    assert harness.filter_what_if(state, incoming, "a1", without=[each.uid for each in placed]) == SUCCESS
    assert harness.filter(state, incoming, harness.nodes(["a1", "a2"])) == {"a1": UNWILLING, "a2": UNWANTED}


def test_removing_the_last_friend_makes_the_pod_the_first_of_its_group():
    placed = on("a1", web)
    harness, incoming = affinity_harness(*placed), web.named("second").pod_affinity(ZONE, WEB).obj()
    state = ready(harness, incoming)
    assert harness.filter_what_if(state, incoming, "a1", without=[placed[0].uid]) == SUCCESS
    assert harness.filter_what_if(state, incoming, "lost", without=[]) == LONELY
    stranger = pod.pod_affinity(ZONE, WEB).obj()
    assert harness.filter_what_if(ready(harness, stranger), stranger, "a1", without=[placed[0].uid]) == LONELY


def test_added_pods_bring_terms_of_keys_not_seen_before():
    harness, incoming = affinity_harness(), web.pod_affinity(ZONE, DB).obj()
    state = ready(harness, incoming)
    assert harness.filter_what_if(state, incoming, "b1", with_pods=on("b1", db)) == SUCCESS
    hostile = on("b1", db.pod_anti_affinity(HOST, WEB))
    assert harness.filter_what_if(state, incoming, "b1", with_pods=hostile) == UNWANTED
    assert harness.filter_what_if(state, incoming, "b1") == LONELY


def test_what_if_agrees_with_one_by_one():
    placed = [
        *on("a1", web, db, web.named("w2").pod_anti_affinity(ZONE, {}), db.named("d2").pod_anti_affinity(HOST, WEB)),
        *on("a2", web.named("w3")),
        *on("lost", web.named("w4"), db.named("d3")),
    ]
    harness = affinity_harness(*placed)
    victims = {name: [each.uid for each in placed if each.node_name == name] for name in ("a1", "a2", "b1", "lost")}
    for incoming in (
        web.named("new").pod_affinity(ZONE, WEB),
        web.named("new").pod_affinity(ZONE, WEB).pod_affinity(HOST, WEB),
        web.named("new").pod_anti_affinity(ZONE, DB).pod_anti_affinity(ZONE, WEB),
        pod.pod_affinity(HOST, DB).pod_anti_affinity(ZONE, WEB),
        web.named("new"),
    ):
        check_what_if(harness, incoming.obj(), victims)


node = make_node("n")
