"""Default spread constraints."""

from __future__ import annotations

from mooring.framework.status import SUCCESS, Code, Status
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.testing import (
    PluginHarness,
    make_node,
    make_pod,
    make_replica_set,
    make_service,
    run_plugin,
)

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


# Default constraints

SERVICE = make_service("web", WEB).obj()
LIST = {
    "defaultingType": "List",
    "defaultConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}],
}


def test_pods_that_belong_together_are_spread_by_default():
    # max(0, 3 - 1) for the host and 5 - 1 for the zone; ln(4 + 2) and ln(2 + 2) a pod.
    raw, _ = scored(web, on("a1"), objects=[SERVICE])
    assert raw == {"a1": 9, "a2": 7, "b1": 6, "b2": 6}


def test_the_systems_defaults_make_do_without_the_zone():
    nodes = [*NODES, make_node("lost")]
    raw, _ = scored(web, on("a1", "lost"), nodes, objects=[SERVICE])
    # Nodes without a zone are one domain more: ln(3 + 2) a pod in the zone, ln(5 + 2) on the node.
    assert raw == {"a1": 10, "a2": 8, "b1": 6, "b2": 6, "lost": 4}


def test_pods_without_services_and_controllers_are_not_spread():
    assert scored(web, on("a1")) == ({}, {})
    assert scored(web.spread(HOST, WEB), on("a1"), objects=[SERVICE]) == ({}, {})


def test_listed_defaults_filter_and_need_all_keys():
    nodes = [*NODES, make_node("lost")]
    expected = {"a1": UNEVEN, "a2": UNEVEN, "lost": UNLABELLED}
    assert rejected(web, on("a1"), nodes, [SERVICE], LIST) == expected
    assert rejected(web, on("a1"), nodes, [], LIST) == {}
    assert rejected(web.spread(HOST, None, when=SOFT), on("a1"), nodes, [SERVICE], LIST) == {}


def test_a_new_owner_changes_the_selector():
    harness = spread_harness(*on("a1"))
    pod = web.owner("ReplicaSet", "web").obj()
    assert harness.run(pod).pre_score.code is Code.SKIP
    harness.add(make_replica_set("web", WEB).obj())
    assert harness.run(pod).raw_scores == {"a1": 9, "a2": 7, "b1": 6, "b2": 6}
