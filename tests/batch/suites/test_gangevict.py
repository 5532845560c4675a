"""What test/e2e/gangevict of Volcano 1.15.1 checks: the actions gangpreempt and gangreclaim with the plugin capacity.

The names of the tests are the numbers of upstream's cases (GP-1 to GP-8, GP-R1, GP-S1, GP-T1 to GP-T4, GR-1 to GR-7,
GR-R1, GR-S1, GR-T1 to GR-T4): 27 cases. `docs/compatibility.md` says why one of them fails when it cleans up.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.batch.suites.suite_world import (
    PREEMPTABLE,
    Case,
    Step,
    SuiteWorld,
    hard,
    hyper_nodes,
    job,
    partitions,
    play,
    runs,
    task,
)

CONF: Final = """
actions: "allocate, backfill, gangreclaim, gangpreempt"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, enablePreemptable: false}
  - {name: conformance}
  - {name: sla}
  - {name: capacity, enableHierarchy: false}
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: nodeorder}
  - {name: binpack}
  - {name: network-topology-aware}
"""
#: Two racks of two nodes, and the whole cluster.
RACKS: Final = {"s0": ("n0", "n1"), "s1": ("n2", "n3")}
ROLES: Final = [
    task("ps", 1, labels=PREEMPTABLE, of_task={"minAvailable": 1}),
    task("worker", 3, labels=PREEMPTABLE, of_task={"minAvailable": 2}),
]


def case(*steps: Step, cores: str = "1", reclaimable: bool = True, guarantee: str = "", **deserved: str) -> Case:
    """A case on four nodes. ``reclaimable`` and ``guarantee`` are those of the queue q2."""
    queues: dict[str, dict[str, Any]] = {name: {"deserved": {"cpu": cpu}} for name, cpu in deserved.items()}
    if "q2" in queues:
        queues["q2"]["reclaimable"] = reclaimable
        if guarantee:
            queues["q2"]["guarantee"] = {"resource": {"cpu": guarantee}}
    return Case(steps, cores=cores, conf=CONF, queues=queues, objects=hyper_nodes(RACKS, {"s2": tuple(RACKS)}))


def victim(name: str, pods: int, least: int, queue: str = "q", priority: str = "low", **more: Any) -> Step:
    return job(name, pods, least=least, queue=queue, priority=priority, labels=PREEMPTABLE, **more)


def gang(name: str, pods: int, cpu: str = "1", queue: str = "q", priority: str = "high", **more: Any) -> Step:
    return job(name, pods, cpu, queue=queue, priority=priority, **more)


def one_of(*names: str) -> Step:
    """Exactly one of the gangs is whole, and the others are gone."""

    def step(world: SuiteWorld) -> None:
        world.settle()
        assert sorted(len(world.running(name)) for name in names) == [0] * (len(names) - 1) + [2]

    return step


def in_one_rack(name: str) -> Step:
    def step(world: SuiteWorld) -> None:
        used = set(world.running(name).values())
        assert used
        assert any(used <= set(nodes) for nodes in RACKS.values()), f"{name} is on {sorted(used)}"

    return step


TIER_1, TIER_2 = {"topology": hard(1)}, {"topology": hard(2)}
HALVES: Final = {"of_task": partitions(2, 2, least=1), **TIER_2}

PREEMPT: Final = {
    "GP-1": case(victim("low", 4, 2), runs(low=4), gang("high", 2), runs(high=2, low=2), q="4"),
    "GP-2": case(
        victim("a", 2, 1), victim("b", 2, 1), runs(a=2, b=2), gang("high", 2), runs(high=2, a=1, b=1), q="4"
    ),
    "GP-3": case(
        victim("a", 2, 2), victim("b", 2, 2), runs(a=2, b=2), gang("high", 2), runs(high=2), one_of("a", "b"), q="4"
    ),
    "GP-4": case(
        victim("a", 2, 2), victim("b", 2, 2), runs(a=2, b=2), gang("high", 4), runs(high=4, a=0, b=0), q="4"
    ),
    "GP-5": case(victim("low", 4, 4), runs(low=4), gang("high", 2), runs(high=2, low=0), q="4"),
    "GP-6": case(
        victim("low", 4, 4, "q2"), runs(low=4), gang("high", 2, queue="q1"), runs(high=0, low=4),
        q1="2", q2="2", reclaimable=False,
    ),
    "GP-7": case(
        victim("first", 4, 4, priority="middle"), runs(first=4), gang("second", 2, priority="middle"),
        runs(first=4, second=0), q="4",
    ),
    "GP-8": case(
        victim("a", 2, 2, priority="high"), victim("b", 2, 2), runs(a=2, b=2), gang("c", 4, priority="middle"),
        runs(a=2, b=2, c=0), q="4",
    ),
    "GP-R1": case(
        job("low", least=3, queue="q", priority="low", tasks=ROLES), runs(low=4), gang("high", 1),
        runs(high=1, low=3, low_ps=1, low_worker=2), q="4",
    ),
    "GP-S1": case(victim("low", 4, 2, **HALVES), runs(low=4), gang("high", 2, **TIER_2), runs(high=2, low=2), q="4"),
    "GP-T1": case(
        victim("low", 4, 2, **TIER_2), runs(low=4), gang("high", 2, **TIER_1), runs(high=2, low=2),
        in_one_rack("high"), q="4",
    ),
    "GP-T2": case(
        victim("low", 4, 4, **TIER_2), runs(low=4), gang("high", 3, "5", **TIER_1), runs(high=0, low=4),
        cores="8", q="16",
    ),
    "GP-T3": case(victim("low", 4, 2, **TIER_2), runs(low=4), gang("high", 3, **TIER_2), runs(high=3, low=0), q="4"),
    "GP-T4": case(
        victim("low", 4, 2, **TIER_2), runs(low=4), gang("high", 2, **TIER_2), runs(high=2, low=2),
        in_one_rack("high"), q="4",
    ),
}  # fmt: skip


def reclaimer(pods: int, cpu: str = "1", **more: Any) -> Step:
    return gang("mine", pods, cpu, "q1", "low", **more)


RECLAIM: Final = {
    "GR-1": case(victim("other", 4, 2, "q2"), runs(other=4), reclaimer(2), runs(mine=2, other=2), q1="2", q2="2"),
    "GR-2": case(
        victim("a", 2, 2, "q2"), victim("b", 2, 2, "q2"), runs(a=2, b=2), reclaimer(2), runs(mine=2),
        one_of("a", "b"), q1="2", q2="2",
    ),
    "GR-3": case(victim("other", 4, 2, "q2"), runs(other=4), reclaimer(2), runs(mine=2), q1="2", q2="2"),
    "GR-4": case(
        victim("a", 2, 2, "q2"), victim("b", 2, 2, "q3"), runs(a=2, b=2), reclaimer(2), runs(mine=0, a=2, b=2),
        q1="2", q2="2", q3="2",
    ),
    "GR-5": case(
        victim("other", 4, 2, "q2"), runs(other=4), reclaimer(2), runs(mine=0, other=4),
        q1="2", q2="2", reclaimable=False,
    ),
    "GR-6": case(
        victim("other", 4, 2, "q2"), runs(other=4), reclaimer(4), runs(mine=0, other=4),
        q1="4", q2="2", guarantee="2",
    ),
    "GR-7": case(
        victim("a", 2, 2, "q1"), victim("b", 2, 2, "q2"), runs(a=2, b=2), reclaimer(2), runs(mine=0, a=2, b=2),
        q1="1", q2="3",
    ),
    "GR-R1": case(
        job("other", least=3, queue="q2", priority="low", tasks=ROLES), runs(other=4), reclaimer(1),
        runs(mine=1, other=3, other_ps=1, other_worker=2), q1="1", q2="3",
    ),
    "GR-S1": case(
        victim("other", 4, 2, "q2", **HALVES), runs(other=4), reclaimer(2, **TIER_2), runs(mine=2, other=2),
        q1="2", q2="2",
    ),
    "GR-T1": case(
        victim("other", 4, 2, "q2", **TIER_2), runs(other=4), reclaimer(2, **TIER_1), runs(mine=2, other=2),
        in_one_rack("mine"), q1="2", q2="2",
    ),
    "GR-T2": case(
        victim("other", 4, 4, "q2", **TIER_2), runs(other=4), reclaimer(3, "5", **TIER_1), runs(mine=0, other=4),
        cores="8", q1="16", q2="16",
    ),
    "GR-T3": case(
        victim("other", 4, 1, "q2", **TIER_2), runs(other=4), reclaimer(3, **TIER_2), runs(mine=3, other=1),
        q1="3", q2="1",
    ),
    "GR-T4": case(
        victim("other", 4, 2, "q2", **TIER_2), runs(other=4), reclaimer(2, **TIER_2), runs(mine=2, other=2),
        in_one_rack("mine"), q1="2", q2="2",
    ),
}  # fmt: skip
CASES: Final = PREEMPT | RECLAIM


@pytest.mark.parametrize("name", CASES)
def test_gangevict(name: str) -> None:
    play(CASES[name])
