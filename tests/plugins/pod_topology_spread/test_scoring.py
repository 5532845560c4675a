"""Soft spread constraints: raw scores and normalization."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.framework.state import CycleState
from mooring.framework.status import Code
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.plugins.pod_topology_spread.scoring import normalize
from mooring.testing import (
    PluginHarness,
    make_node,
    make_pod,
    run_plugin,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"app": "web"}
SOFT = "ScheduleAnyway"
#: Two nodes in zone a, two in zone b.
NODES = [make_node(name).zone(zone) for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"))]
web = make_pod("web").label(WEB)


def on(*names: str, pod=web):
    """Pods on nodes, one a name."""
    return [pod.named(f"{pod.obj().name}-{number}").node(name).obj() for number, name in enumerate(names)]


# Hypothetical pods


def spread_harness(*pods, nodes=NODES):
    return PluginHarness(PodTopologySpread, nodes=[node.obj() for node in nodes], pods=pods)


# Soft constraints


def scored(pod, pods, nodes=NODES, objects=(), args=None):
    run = run_plugin(
        PodTopologySpread, pod.obj(), nodes=[node.obj() for node in nodes], pods=pods, objects=objects, args=args
    )
    assert run.pre_score.code in (Code.SUCCESS, Code.SKIP)
    return run.raw_scores, run.scores


SOFT_CASES = {
    # ln(2 zones + 2) = 1.386 a pod
    "by zone": (
        web.spread(ZONE, WEB, when=SOFT),
        on("a1", "a2", "b1"),
        {"a1": 3, "a2": 3, "b1": 1, "b2": 1},
        {"a1": 33, "a2": 33, "b1": 100, "b2": 100},
    ),
    # ln(4 nodes + 2) = 1.792 a pod
    "by host": (
        web.spread(HOST, WEB, when=SOFT),
        on("a1", "a1", "b1"),
        {"a1": 4, "a2": 0, "b1": 2, "b2": 0},
        {"a1": 0, "a2": 100, "b1": 50, "b2": 100},
    ),
    "by both, a wide skew evens out": (
        web.spread(ZONE, WEB, when=SOFT, max_skew=3).spread(HOST, WEB, when=SOFT),
        on("a1"),
        {"a1": 5, "a2": 3, "b1": 2, "b2": 2},
        {"a1": 40, "a2": 80, "b1": 100, "b2": 100},
    ),
    "no pods: all alike": (
        web.spread(ZONE, WEB, when=SOFT),
        [],
        {"a1": 0, "a2": 0, "b1": 0, "b2": 0},
        {"a1": 100, "a2": 100, "b1": 100, "b2": 100},
    ),
    "an empty selector counts nothing": (
        web.spread(ZONE, {}, when=SOFT, max_skew=2),
        on("a1"),
        {"a1": 1, "a2": 1, "b1": 1, "b2": 1},
        {"a1": 100, "a2": 100, "b1": 100, "b2": 100},
    ),
    "hard constraints are not scored": (web.spread(ZONE, WEB, max_skew=9), on("a1"), {}, {}),
}


@pytest.mark.parametrize(("pod", "pods", "raw", "final"), SOFT_CASES.values(), ids=SOFT_CASES)
def test_soft_constraints(pod, pods, raw, final):
    assert scored(pod, pods) == (raw, final)


def test_nodes_without_a_key_are_ignored():
    raw, final = scored(web.spread(ZONE, WEB, when=SOFT), on("a1", "lost"), [*NODES[:1], NODES[2], make_node("lost")])
    assert raw == {"a1": 1, "b1": 0, "lost": 0}
    assert final == {"a1": 0, "b1": 100, "lost": 0}


def test_only_feasible_nodes_make_domains_but_all_pods_count():
    harness = spread_harness(*on("a1", "a2", "b1"))
    pod = web.spread(ZONE, WEB, when=SOFT).obj()
    _, raw, _ = harness.score(CycleState(), pod, harness.nodes(["a2"]))
    assert raw == {"a2": 2}  # two pods, ln(1 + 2) = 1.099 each


@pytest.mark.parametrize(
    ("scores", "ignored", "expected"),
    [
        ([0, 0], None, [100, 100]),
        ([1, 3], None, [100, 33]),
        ([5, 0, 7], [False, True, False], [100, 0, 71]),
        ([0, 0], [True, True], [0, 0]),
    ],
)
def test_normalizing(scores, ignored, expected):
    mask = None if ignored is None else np.array(ignored)
    assert normalize(np.array(scores, dtype=np.int64), mask).tolist() == expected
