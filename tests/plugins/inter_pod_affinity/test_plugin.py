"""Arguments and events of InterPodAffinity."""

from __future__ import annotations

import pytest

from mooring.framework.events import ActionType, Hint
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.testing import (
    PluginHarness,
    make_namespace,
    make_node,
    make_pod,
    run_plugin,
    selector,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB, DB = {"app": "web"}, {"app": "db"}
#: Two nodes in zone a, one in zone b, one in no zone.
NODES = [make_node("a1").zone("a"), make_node("a2").zone("a"), make_node("b1").zone("b"), make_node("lost")]
NAMESPACES = [make_namespace("red").label(team="red").obj(), make_namespace("blue").label(team="blue").obj()]
pod, web, db = make_pod("p"), make_pod("web").label(WEB), make_pod("db").label(DB)


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


def elsewhere(namespace, labels=WEB):
    return make_pod(f"in-{namespace}", namespace).label(labels)


def test_arguments():
    liked = db.preferred_pod_affinity(7, ZONE, WEB)
    args = {"hardPodAffinityWeight": 50, "ignorePreferredTermsOfExistingPods": True}
    run = cycle(web.preferred_pod_affinity(1, HOST, DB), on("a1", liked, db.named("d2").pod_affinity(ZONE, WEB)), args)
    # With preferences of its own the pod hears those of others, too.
    assert run.raw_scores == {"a1": 59, "a2": 57, "b1": 0, "lost": 0}


# Events

waiting = pod.named("waiting").label(WEB).pod_affinity(ZONE, DB).pod_anti_affinity("rack", {"app": "foe"})
friend, foe = db.named("other").node("a1"), make_pod("other").label(app="foe").node("a1")
hater = make_pod("other").node("a1").pod_anti_affinity(HOST, WEB)
plain = make_pod("other").node("a1")

POD_HINTS = {
    "a friend came": (None, friend, Hint.QUEUE),
    "a friend without a node": (None, db.named("other"), Hint.SKIP),
    "a friend that was promised a node": (None, db.named("other").nominated("a1"), Hint.QUEUE),
    "a foe came": (None, foe, Hint.SKIP),
    "a foe went": (foe, None, Hint.QUEUE),
    "a friend went": (friend, None, Hint.SKIP),
    "a pod that hates it went": (hater, None, Hint.QUEUE),
    "a pod that hates others went": (plain.pod_anti_affinity(HOST, DB), None, Hint.SKIP),
    "one of two hates is enough": (hater.pod_anti_affinity(HOST, DB), None, Hint.QUEUE),
    "a pod became a friend": (plain, friend, Hint.QUEUE),
    "a pod is no longer a friend": (friend, plain, Hint.SKIP),
    "a pod is no longer a foe": (foe, plain, Hint.QUEUE),
    "a pod became a foe": (plain, foe, Hint.SKIP),
    "its own labels changed": (waiting.label(app="x"), waiting, Hint.QUEUE),
    "a friend of another namespace came": (None, elsewhere("red", DB).node("a1"), Hint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "expected"), POD_HINTS.values(), ids=POD_HINTS)
def test_pod_events(old, new, expected):
    pods, _ = PluginHarness(InterPodAffinity).plugin.events_to_register()
    assert pods.resource == "Pod"
    assert pods.actions == ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
    assert pods.hint(waiting.obj(), old and old.obj(), new and new.obj()) is expected


near_only, far_only = pod.pod_affinity(ZONE, DB), pod.pod_anti_affinity("rack", DB)
node = make_node("n")
NODE_HINTS = {
    "a node with the key came": (near_only, None, node.zone("a"), Hint.QUEUE),
    "a node without the key came": (near_only, None, node, Hint.SKIP),
    "a node got the key": (near_only, node, node.zone("a"), Hint.QUEUE),
    "a node moved": (near_only, node.zone("a"), node.zone("b"), Hint.QUEUE),
    "a node lost the key": (near_only, node.zone("a"), node, Hint.SKIP),
    "other labels": (near_only, node.zone("a"), node.zone("a").label(x="1"), Hint.SKIP),
    "any new node, for anti-affinity": (far_only, None, node, Hint.QUEUE),
    "a node got the key, for anti-affinity": (far_only, node, node.label(rack="1"), Hint.SKIP),
    "a node lost the key, for anti-affinity": (far_only, node.label(rack="1"), node, Hint.QUEUE),
    "a node moved, for anti-affinity": (far_only, node.label(rack="1"), node.label(rack="2"), Hint.QUEUE),
    "no terms": (pod, None, node, Hint.SKIP),
}


@pytest.mark.parametrize(("incoming", "old", "new", "expected"), NODE_HINTS.values(), ids=NODE_HINTS)
def test_node_events(incoming, old, new, expected):
    _, nodes = PluginHarness(InterPodAffinity).plugin.events_to_register()
    assert nodes.resource == "Node"
    assert nodes.actions == ActionType.ADD | ActionType.UPDATE_NODE_LABEL
    assert nodes.hint(incoming.obj(), old and old.obj(), new and new.obj()) is expected


def test_invalid_terms_requeue_the_pod():
    wrong = pod.pod_affinity(ZONE, selector({}, ("app", "Like", "web"))).obj()
    for event in PluginHarness(InterPodAffinity).plugin.events_to_register():
        with pytest.raises(ValueError, match="requiredAffinityTerms"):  # which the queue takes for Hint.QUEUE
            event.hint(wrong, None, plain.obj())
