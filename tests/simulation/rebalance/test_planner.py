"""Plans: every one is valid, keeps its limits, and finds what there is to find."""

from __future__ import annotations

import pytest

from mooring.api.meta import KubeObject
from mooring.config import default_config
from mooring.simulation.rebalance import Limits, Plan, Planner
from mooring.testing import make_node, make_pdb, make_pod
from tests.simulation.rebalance.clusters import check_plan, random_cluster, steps_clock

GANG = "scheduling.x-k8s.io/pod-group"


def plan(objects: list[KubeObject], *, consolidate: bool = False, **limits: object) -> Plan:
    chosen = Limits(**{"seconds": 0.5, **limits})  # type: ignore[arg-type]
    planner = Planner(objects, default_config(), limits=chosen, now=2e9, clock=steps_clock())
    found = planner.consolidate() if consolidate else planner.make_room()
    if not consolidate:
        check_plan(objects, found)
    return found


def two_nodes(*more: KubeObject) -> list[KubeObject]:
    """Two nodes with 3 of 4 cores in use, and a pod that needs 2. Only the small pod has a controller."""
    return [
        *(make_node(name).capacity(cpu="4", memory="8Gi", pods=10).obj() for name in "ab"),
        make_pod("small").req(cpu="1").label(app="small").owner("ReplicaSet", "s").node("a").obj(),
        make_pod("large").req(cpu="2").node("a").obj(),
        make_pod("other").req(cpu="3").node("b").obj(),
        make_pod("waiting").req(cpu="2").owner("ReplicaSet", "w").obj(),
        *more,
    ]


def test_one_move_makes_room() -> None:
    found = plan(two_nodes())
    assert [(each.pod, each.source, each.target) for each in found.moves] == [("default/small", "a", "b")]
    assert [(each.pod, each.node) for each in found.placements] == [("default/waiting", "a")]
    assert [goal.result for goal in found.goals] == ["planned"]
    assert found.fragmentation_before > found.fragmentation_after


@pytest.mark.parametrize(
    "change",
    [
        make_pdb("none", {"app": "small"}).obj(),
        make_pod("small").req(cpu="1").label(app="small").node("a").obj(),
        make_pod("small").req(cpu="1").owner("DaemonSet", "d").node("a").obj(),
        make_pod("small").req(cpu="1").owner("Job", "j").node("a").obj(),
        make_pod("small").req(cpu="1").owner("ReplicaSet", "s").priority(5).node("a").obj(),
        make_pod("small")
        .req(cpu="1")
        .owner("ReplicaSet", "s")
        .annotation({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
        .node("a")
        .obj(),
        make_pod("small").req(cpu="1").owner("ReplicaSet", "s").node_selector(nowhere="x").node("a").obj(),
    ],
    ids=["budget", "no controller", "daemon", "job", "higher priority", "safe-to-evict", "fits nowhere else"],
)
def test_pods_that_are_not_moved(change: KubeObject) -> None:
    objects = [each for each in two_nodes() if each.metadata.name != change.metadata.name]
    found = plan([*objects, change])
    assert not found.moves
    assert not found.placements


def test_limits_of_a_plan() -> None:
    assert not plan(two_nodes(), moves=0).moves
    started = [
        make_pod("small").req(cpu="1").owner("ReplicaSet", "s").node("a").started("2033-05-18T03:30:00Z").obj()
        if each.metadata.name == "small"
        else each
        for each in two_nodes()
    ]
    assert plan(started, cool_down=10).moves  # it started 200 s ago
    assert not plan(started, cool_down=600).moves


def full_nodes() -> list[KubeObject]:
    """A pod needs one core of a, whose pod can only change places with that of b."""
    return [
        make_node("a").capacity(cpu="4", memory="8Gi", pods=10).label(disk="ssd").obj(),
        make_node("b").capacity(cpu="5", memory="8Gi", pods=10).obj(),
        make_pod("four").req(cpu="4").owner("ReplicaSet", "four").node("a").obj(),
        make_pod("three").req(cpu="3").owner("ReplicaSet", "three").node("b").obj(),
        make_pod("waiting").req(cpu="1").owner("ReplicaSet", "w").node_selector(disk="ssd").obj(),
    ]


def test_two_pods_that_change_places_are_evicted_together() -> None:
    found = plan(full_nodes())
    assert sorted((each.pod, each.target, each.step) for each in found.moves) == [
        ("default/four", "b", 1),
        ("default/three", "a", 1),
    ]


def test_a_gang_is_placed_completely_or_not_at_all() -> None:
    members = [make_pod(f"m{number}").req(cpu="2").label({GANG: "g"}).owner("Job", "j").obj() for number in range(2)]
    objects = [each for each in two_nodes() if each.metadata.name != "waiting"]
    found = plan([*objects, *members])
    assert [(goal.name, goal.result) for goal in found.goals] == [("default/g", "impossible")]
    assert not found.moves
    third = make_node("c").capacity(cpu="2", memory="8Gi", pods=10).obj()
    found = plan([*objects, *members, third])
    assert [(goal.name, goal.result) for goal in found.goals] == [("default/g", "planned")]
    assert len(found.placements) == 2


def test_pods_that_scheduling_or_preemption_places_need_no_moves() -> None:
    fits = make_pod("fits").req(cpu="1").obj()
    preempts = make_pod("preempts").req(cpu="4").priority(100).obj()
    found = plan([each for each in two_nodes(fits, preempts) if each.metadata.name != "waiting"])
    assert not found.goals


def test_what_the_filters_reject_is_not_planned() -> None:
    """By its requests alone, the small pod could move to b."""
    rival = make_pod("rival").owner("ReplicaSet", "r").label(app="rival").node("b").obj()
    small = make_pod("small").req(cpu="1").owner("ReplicaSet", "s").node("a")
    small = small.pod_anti_affinity("kubernetes.io/hostname", {"app": "rival"})
    objects = [each for each in two_nodes() if each.metadata.name != "small"]
    named = [
        make_node(name).capacity(cpu="4", memory="8Gi", pods=10).label({"kubernetes.io/hostname": name}).obj()
        for name in "ab"
    ]
    found = plan([*named, *objects[2:], rival, small.obj()])
    assert not [each for each in found.moves if each.pod == "default/small" and each.target == "b"]


def test_a_search_leaves_the_problem_complete() -> None:
    """What a search excludes must not make a reference solver find less."""
    planner = Planner(
        full_nodes(), default_config(), limits=Limits(seconds=0.1, together=False), now=2e9, clock=steps_clock()
    )
    before = planner.problem.allowed.copy()
    assert [goal.result for goal in planner.make_room().goals] == ["not found"]
    assert (planner.problem.allowed == before).all()


def test_nodes_are_emptied() -> None:
    objects: list[KubeObject] = [
        make_node(f"n{each}").capacity(cpu="4", memory="8Gi", pods=10).obj() for each in range(4)
    ]
    objects += [
        make_pod(f"p{each}").req(cpu="2", memory="1Gi").owner("ReplicaSet", "p").node(f"n{each}").obj()
        for each in range(4)
    ]
    objects.append(make_pod("wide").req(cpu="4", memory="4Gi").owner("ReplicaSet", "w").obj())
    found = plan(objects, consolidate=True)
    assert len(found.moves) == len(found.emptied) == 2
    assert found.fragmentation_after < found.fragmentation_before
    assert plan(objects, consolidate=True, moves=1).emptied == found.emptied[:1]


@pytest.mark.parametrize("seed", range(60))
def test_plans_are_valid(seed: int) -> None:
    objects = random_cluster(seed, rules=True)
    plan(objects, seconds=0.05)
    chosen = Planner(objects, default_config(), limits=Limits(seconds=0.05), now=2e9, clock=steps_clock())
    consolidated = chosen.consolidate()
    assert consolidated.fragmentation_after <= consolidated.fragmentation_before
