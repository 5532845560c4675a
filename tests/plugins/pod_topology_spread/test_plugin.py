"""PodTopologySpread: what wakes a waiting pod."""

from __future__ import annotations

import pytest

from mooring.framework.events import ActionType, Hint
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.testing import PluginHarness, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
WEB = {"app": "web"}

web = make_pod("web").label(WEB)
waiting = web.named("waiting").spread(ZONE, WEB).spread("rack", {"app": "db"})
honoring = web.named("waiting").spread(ZONE, WEB, node_taints_policy="Honor")
placed, unplaced = web.named("other").node("a1"), web.named("other")
db = make_pod("other").label(app="db")

POD_HINTS = {
    "a matching pod was placed": (waiting, None, placed, Hint.QUEUE),
    "a pod that matches the other constraint": (waiting, None, db.node("a1"), Hint.QUEUE),
    "a pod that does not match": (waiting, None, make_pod("other").label(app="x").node("a1"), Hint.SKIP),
    "a pod without a node": (waiting, None, unplaced, Hint.SKIP),
    "a pod that was promised a node": (waiting, None, unplaced.nominated("a1"), Hint.QUEUE),
    "a pod of another namespace": (waiting, None, make_pod("other", "x").label(WEB).node("a1"), Hint.SKIP),
    "a matching pod went": (waiting, placed, None, Hint.QUEUE),
    "a pod that does not match went": (waiting, make_pod("other").node("a1"), None, Hint.SKIP),
    "labels that make it match": (waiting, make_pod("other").node("a1"), placed, Hint.QUEUE),
    "labels that do not matter": (waiting, placed, placed.label(x="1"), Hint.SKIP),
    "from one constraint to the other": (waiting, placed, db.node("a1"), Hint.QUEUE),
    "no labels changed": (waiting, placed, placed.priority(1), Hint.SKIP),
    "its own toleration, honored": (honoring, honoring, honoring.toleration("gpu"), Hint.QUEUE),
    "its own toleration, ignored": (waiting, waiting, waiting.toleration("gpu"), Hint.SKIP),
    "its own labels": (waiting, waiting.label(app="x"), waiting, Hint.QUEUE),
}


@pytest.mark.parametrize(("pod", "old", "new", "expected"), POD_HINTS.values(), ids=POD_HINTS)
def test_pod_events(pod, old, new, expected):
    pods, _ = PluginHarness(PodTopologySpread).plugin.events_to_register()
    assert pods.resource == "Pod"
    assert pods.actions == (
        ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
    )
    assert pods.hint(pod.obj(), old and old.obj(), new and new.obj()) is expected


racked = make_node("n").zone("a").label(rack="1")
NODE_HINTS = {
    "a node of the topology came": (None, racked, Hint.QUEUE),
    "a node without the keys came": (None, make_node("n").zone("a"), Hint.SKIP),
    "a node of the topology went": (racked, None, Hint.QUEUE),
    "a node without the keys went": (make_node("n"), None, Hint.SKIP),
    "a node joined": (make_node("n").zone("a"), racked, Hint.QUEUE),
    "a node left": (racked, make_node("n").zone("a"), Hint.QUEUE),
    "a node moved": (racked, racked.zone("b"), Hint.QUEUE),
    "a node moved outside of the topology": (make_node("n").zone("a"), make_node("n").zone("b"), Hint.SKIP),
    "other labels": (racked, racked.label(x="1"), Hint.SKIP),
    "taints": (racked, racked.taint("gpu"), Hint.QUEUE),
    "taints outside of the topology": (make_node("n"), make_node("n").taint("gpu"), Hint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "expected"), NODE_HINTS.values(), ids=NODE_HINTS)
def test_node_events(old, new, expected):
    _, nodes = PluginHarness(PodTopologySpread).plugin.events_to_register()
    assert nodes.resource == "Node"
    assert nodes.actions == (
        ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    )
    assert nodes.hint(waiting.obj(), old and old.obj(), new and new.obj()) is expected
