"""Gangs with a network topology: the domain that they are placed in, by mode, tier, room and parts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.batch.cases import PLUGINS, Object, conf, decide, gang, hyper_node, node, pod, running

CONF = conf(PLUGINS[0], (*PLUGINS[1], "network-topology-aware"))
HARD: dict[str, Any] = {"mode": "hard", "highestTierAllowed": 1}


def cluster(cpus: str = "4", *, racks: int = 4) -> list[Object]:
    """Racks of two nodes (tier 1), two racks in a zone (tier 2)."""
    nodes = [node(f"n{number}", cpus) for number in range(2 * racks)]
    tier1 = [hyper_node(f"r{number}", 1, nodes=[f"n{2 * number}", f"n{2 * number + 1}"]) for number in range(racks)]
    tier2 = [
        hyper_node(f"z{number}", 2, within=[f"r{2 * number}", f"r{2 * number + 1}"], tierName="zone")
        for number in range(racks // 2)
    ]
    return [*nodes, *tier1, *tier2]


def racks_of(answer: dict[str, Any], prefix: str = "g-") -> set[int]:
    placed = {key: place for key, place in answer["bound"].items() if key.startswith(f"default/{prefix}")}
    return {int(place[1:]) // 2 for place in placed.values()}


def test_hard_within_one_rack() -> None:
    answer = decide(CONF, cluster(), gang("g", 8, networkTopology=HARD))
    assert len(answer["bound"]) == 8
    assert len(racks_of(answer)) == 1


def test_hard_does_not_fit_in_a_rack() -> None:
    answer = decide(CONF, cluster(), gang("g", 9, networkTopology=HARD))
    assert answer["bound"] == {}
    (condition,) = answer["podGroups"]["default/g"]["conditions"]
    assert condition["reason"] == "NotEnoughResources"


@pytest.mark.parametrize("limit", [{"highestTierAllowed": 2}, {"highestTierName": "zone"}])
def test_hard_within_a_zone(limit: dict[str, Any]) -> None:
    answer = decide(CONF, cluster(), gang("g", 12, networkTopology={"mode": "hard", **limit}))
    assert len(answer["bound"]) == 12
    assert racks_of(answer) in ({0, 1}, {2, 3})


def test_soft_prefers_a_rack_and_accepts_the_cluster() -> None:
    soft = {"mode": "soft"}
    assert len(racks_of(decide(CONF, cluster(), gang("g", 8, networkTopology=soft)))) == 1
    whole = decide(CONF, cluster(), gang("g", 30, networkTopology=soft))
    assert len(whole["bound"]) == 30


def test_the_fullest_rack_with_room_is_preferred() -> None:
    busy = running("other", ["n2", "n2", "n4"])
    answer = decide(CONF, cluster(), busy, gang("g", 6, networkTopology=HARD))
    assert racks_of(answer) == {1}
    answer = decide(CONF, cluster(), busy, gang("g", 7, networkTopology=HARD))
    assert racks_of(answer) == {2}


def test_a_rack_that_predicates_reject_is_not_chosen() -> None:
    objects = cluster()
    for each in objects[2:4]:
        each["spec"] = {"unschedulable": True}
    answer = decide(CONF, objects, running("other", ["n2", "n2", "n3"]), gang("g", 4, networkTopology=HARD))
    assert len(answer["bound"]) == 4
    assert racks_of(answer)
    assert 1 not in racks_of(answer)


def test_further_pods_join_the_running_ones() -> None:
    objects = running("g", ["n4", "n5"], least=2)
    objects[0]["spec"]["networkTopology"] = HARD
    objects[0]["status"]["phase"] = "Inqueue"
    more = [pod(f"g-more-{number}", "g") for number in range(3)]
    answer = decide(CONF, cluster(), objects, more)
    assert len(answer["bound"]) == 3
    assert racks_of(answer) == {2}


def test_running_pods_in_several_racks_admit_no_others() -> None:
    objects = running("g", ["n0", "n5"], least=3)
    objects[0]["spec"]["networkTopology"] = HARD
    objects[0]["status"]["phase"] = "Inqueue"
    assert decide(CONF, cluster(), objects, [pod("g-more", "g")])["bound"] == {}


def parts(count: int, size: int, topology: dict[str, Any], least: int) -> list[Object]:
    policy = {
        "name": "worker",
        "subGroupSize": size,
        "minSubGroups": least,
        "matchLabelKeys": ["part"],
        "networkTopology": topology,
    }
    made = gang("g", count * size, least * size, subGroupPolicy=[policy])
    for number, each in enumerate(made[1:]):
        each["metadata"]["labels"] = {"part": str(number // size)}
    return made


def test_each_part_is_in_one_rack() -> None:
    answer = decide(CONF, cluster(), parts(3, 5, HARD, 3))
    assert len(answer["bound"]) == 15
    for part in range(3):
        places = {int(answer["bound"][f"default/g-task-{5 * part + number}"][1:]) // 2 for number in range(5)}
        assert len(places) == 1


def test_parts_start_with_their_minimum_or_not_at_all() -> None:
    assert len(decide(CONF, cluster(), parts(6, 5, HARD, 3))["bound"]) == 20  # a part in each rack
    assert decide(CONF, cluster(), parts(6, 5, HARD, 5))["bound"] == {}


def test_parts_without_a_topology_are_gangs() -> None:
    policy = {"name": "worker", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["part"]}
    made = gang("g", 4, 2, cpu="3", subGroupPolicy=[policy])
    for number, each in enumerate(made[1:]):
        each["metadata"]["labels"] = {"part": str(number // 2)}
    answer = decide(conf(), node("a"), node("b"), node("c"), made)
    assert set(answer["bound"]) == {"default/g-task-0", "default/g-task-1"}


def test_pods_without_a_topology_leave_racks_empty() -> None:
    answer = decide(CONF, cluster(), running("other", ["n2"]), gang("plain", 1))
    assert racks_of(answer, "plain") == {1}


def test_large_gangs_use_the_score_cache_within_a_domain() -> None:
    """The same decision with more nodes than are needed for cached scores."""
    answer = decide(CONF, cluster(racks=40), running("other", ["n14"]), gang("g", 7, networkTopology=HARD))
    assert len(answer["bound"]) == 7
    assert racks_of(answer) == {7}
