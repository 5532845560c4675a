"""Preemption for a PodGroup of scheduling.k8s.io, and groups as victims."""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.api.scheduling import DisruptAll, DisruptionMode
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.testing import make_pdb, make_pod
from tests.scheduler.test_pod_group_cycle import TOPOLOGY, World, group, grouped, in_rack, member, racks

WHOLE = DisruptionMode(all=DisruptAll())


def low(name: str, node: str, *, cpu: str = "1", priority: int = -1, **labels: str) -> Pod:
    return make_pod(name).req(cpu=cpu).node(node).priority(priority).label(**labels).obj()


def running(of: str, *nodes: str) -> list[Pod]:
    """Return pods v0, v1 and so on of a group with the priority -1."""
    return [grouped(make_pod(f"v{index}").req(cpu="1").node(node).priority(-1), of) for index, node in enumerate(nodes)]


def attempts(world: World) -> list[AssumedPod | FailedAttempt]:
    found = []
    while world.engine.ready:
        outcome = world.engine.schedule_one()
        if isinstance(outcome, (AssumedPod, FailedAttempt)):
            found.append(outcome)
    return found


def names(world: World, outcomes: list[AssumedPod | FailedAttempt]) -> list[str]:
    """Return the names of all victims."""
    pods = world.engine.cache.table.pods
    return [pods[uid].pod.name for each in outcomes if isinstance(each, FailedAttempt) for uid in each.victims]


def test_as_few_pods_as_possible_are_evicted_for_a_group() -> None:
    world = World("2", "2")
    world.add(low("a", "n0"), low("b", "n0", priority=-2), low("c", "n1", priority=-3), low("d", "n1", priority=-3))
    world.add(group(3), *(member(f"p{index}") for index in range(3)))
    outcomes = attempts(world)
    assert sorted(names(world, outcomes)) == ["b", "c", "d"]
    first = outcomes[0]
    assert isinstance(first, FailedAttempt)
    assert first.group is not None
    assert first.group.name == "g"
    assert all(isinstance(each, FailedAttempt) and not each.victims for each in outcomes[1:])
    nominated = sorted(each.nominated_node or "" for each in outcomes if isinstance(each, FailedAttempt))
    assert nominated == ["n0", "n1", "n1"]
    text = "pod group preemption: found a placement for podgroup, preempting 3 victims"
    assert world.conditions == [
        ("g", "Unschedulable", f"minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, {text}")
    ]
    assert world.engine.cache.table.check() == []


def test_the_group_is_scheduled_when_its_victims_are_gone() -> None:
    world = World("2")
    victims = [low("a", "n0"), low("b", "n0")]
    world.add(*victims, group(2), member("p"), member("q"))
    assert sorted(names(world, attempts(world))) == ["a", "b"]
    for victim in victims:
        world.engine.remove(victim)
    world.now += 30
    world.engine.tick()
    assert sorted(each.pod.name for each in attempts(world) if isinstance(each, AssumedPod)) == ["p", "q"]


def test_pods_that_a_budget_protects_are_evicted_last() -> None:
    world = World("2")
    world.add(make_pdb("budget", {"app": "x"}, allowed=0).obj())
    world.add(low("protected", "n0", priority=-5, app="x"), low("free", "n0"))
    world.add(group(1), member("p"))
    assert names(world, attempts(world)) == ["free"]


def test_a_group_that_may_not_preempt() -> None:
    world = World("1")
    pod = make_pod("p").req(cpu="1").preemption_policy("Never")
    world.add(low("a", "n0"), group(1), grouped(pod))
    assert names(world, attempts(world)) == []
    assert world.conditions[0][2].endswith("pod group preemption: not eligible due to preemptionPolicy=Never.")


def test_preemption_that_does_not_help() -> None:
    world = World("1")
    world.add(low("a", "n0"), group(2), member("p"), member("q"))
    assert names(world, attempts(world)) == []
    text = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    assert world.conditions[0][2].endswith(f"pod group preemption: {text}")
    assert world.engine.cache.table.check() == []


def test_a_group_is_a_victim_as_a_whole() -> None:
    world = World("1", "1", "1")
    world.add(group(None, "victims", priority=-1, disruption_mode=WHOLE))
    world.add(
        *(grouped(make_pod(f"v{index}").req(cpu="1").node(f"n{index}").priority(-1), "victims") for index in range(2))
    )
    world.add(low("single", "n2", priority=-1))
    world.add(group(1), member("p"))
    assert names(world, attempts(world)) == ["single"], "a group is more important than a pod"
    world.add(make_pod("q").req(cpu="1").priority(5).obj())
    assert sorted(names(world, attempts(world))) in (["single"], ["v0", "v1"])


def test_a_single_pod_evicts_a_whole_group() -> None:
    world = World("1", "1")
    world.add(group(None, "victims", priority=-1, disruption_mode=WHOLE))
    world.add(
        *(grouped(make_pod(f"v{index}").req(cpu="1").node(f"n{index}").priority(-1), "victims") for index in range(2))
    )
    world.add(make_pod("q").req(cpu="1").obj())
    assert sorted(names(world, attempts(world))) == ["v0", "v1"]


def test_the_pods_of_other_groups_are_evicted_one_by_one() -> None:
    world = World("1", "1")
    world.add(group(None, "victims", priority=-1))
    world.add(
        *(grouped(make_pod(f"v{index}").req(cpu="1").node(f"n{index}").priority(-1), "victims") for index in range(2))
    )
    world.add(make_pod("q").req(cpu="1").obj())
    assert len(names(world, attempts(world))) == 1


def test_preemption_in_one_rack() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "1", "1", per_rack=2)
    world.add(
        *(low(f"v{rack}-{node}", f"r{rack}-{node}", priority=-1 - rack) for rack in range(2) for node in range(2))
    )
    world.add(in_rack(2), member("p"), member("q"))
    found = names(world, attempts(world))
    assert len(found) == 2
    assert len({name.split("-")[0] for name in found}) == 1


def test_pods_with_anti_affinity_are_simulated_on_all_nodes() -> None:
    world = World("2", "2")
    pods = [
        grouped(make_pod(f"p{i}").req(cpu="1").label(app="a").pod_anti_affinity("kubernetes.io/hostname", {"app": "a"}))
        for i in range(2)
    ]
    world.add(low("a", "n0", cpu="2"), low("b", "n1"))
    world.add(group(2), *pods)
    assert names(world, attempts(world)) == ["a"]
    assert world.engine.cache.table.check() == []
