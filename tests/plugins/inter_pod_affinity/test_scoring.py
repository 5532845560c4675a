"""Preferred pod affinity: weights, symmetric terms, normalization."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.framework.status import SUCCESS, Code
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.plugins.inter_pod_affinity.scoring import normalize
from mooring.testing import (
    make_namespace,
    make_node,
    make_pod,
    run_plugin,
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


# Scores


PREFERRED_CASES = {
    "liked pods": (pod.preferred_pod_affinity(5, ZONE, WEB), on("a1", web, web.named("w2")), [10, 10, 0, 0]),
    "disliked pods": (pod.preferred_pod_anti_affinity(5, HOST, WEB), on("a1", web), [-5, 0, 0, 0]),
    "several terms add up": (
        pod.preferred_pod_affinity(5, ZONE, WEB).preferred_pod_anti_affinity(3, HOST, WEB),
        on("a1", web),
        [2, 5, 0, 0],
    ),
    "a placed pod's required affinity counts 1": (web, on("a1", db.pod_affinity(ZONE, WEB)), [1, 1, 0, 0]),
    "a placed pod's preferences": (
        web,
        [
            *on("a1", db.preferred_pod_affinity(7, ZONE, WEB)),
            *on("b1", db.named("d2").preferred_pod_anti_affinity(2, HOST, WEB)),
        ],
        [7, 7, -2, 0],
    ),
    "both ways": (
        web.preferred_pod_affinity(10, HOST, DB),
        on("a1", db.preferred_pod_affinity(1, ZONE, WEB)),
        [11, 1, 0, 0],
    ),
}


@pytest.mark.parametrize(("incoming", "pods", "expected"), PREFERRED_CASES.values(), ids=PREFERRED_CASES)
def test_preferred_terms(incoming, pods, expected):
    assert list(cycle(incoming, pods).raw_scores.values()) == expected


NOT_SCORED = {
    "nobody cares": (web, on("a1", db), None),
    "nobody there": (pod.preferred_pod_affinity(5, ZONE, WEB), on("a1", db), None),
    "only on a node without the key": (pod.preferred_pod_affinity(5, ZONE, WEB), on("lost", web), None),
    "anti-affinity of placed pods is no preference": (db, on("a1", web.pod_anti_affinity(HOST, {"x": "y"})), None),
    "required affinity worth nothing": (web, on("a1", db.pod_affinity(ZONE, WEB)), {"hardPodAffinityWeight": 0}),
    "preferences of placed pods are to be ignored": (
        web,
        on("a1", db.preferred_pod_affinity(7, ZONE, WEB)),
        {"ignorePreferredTermsOfExistingPods": True},
    ),
}


@pytest.mark.parametrize(("incoming", "pods", "args"), NOT_SCORED.values(), ids=NOT_SCORED)
def test_scoring_is_skipped(incoming, pods, args):
    assert cycle(incoming, pods, args).pre_score.code is Code.SKIP


def test_scores_that_cancel_out_are_still_scores():
    run = cycle(pod.preferred_pod_affinity(5, HOST, WEB).preferred_pod_anti_affinity(5, HOST, WEB), on("a1", web))
    assert run.pre_score == SUCCESS
    assert run.scores == {"a1": 0, "a2": 0, "b1": 0, "lost": 0}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([3, 3], [0, 0]), ([0, 29, 100], [0, 28, 100]), ([-5, 0, 5], [0, 50, 100]), ([7], [0])],
)
def test_normalizing_divides_before_it_multiplies(scores, expected):
    assert normalize(np.array(scores, dtype=np.int64)).tolist() == expected


node = make_node("n")
