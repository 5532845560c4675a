"""What test/e2e/hypernode of Volcano 1.15.1 checks: the names of the tests are the numbers of upstream's 28 cases.

Upstream's nodes have 8 cores, of which pods of its own cluster take some: cases 1.2, 2.1 and 3.1 depend on that, so
their nodes are smaller here. Cases about pods that stay pending (1.3, 2.2, 4.3, 5.6, 6.3, 7.2) and 6.2 have other
sizes: upstream's pods only have to be pending for a moment, here they must not fit. The controllers' part (discovery,
status) is tested in tests/controllers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.batch.suites.suite_world import (
    Case,
    Step,
    SuiteWorld,
    hard,
    hyper_nodes,
    job,
    kill,
    on_nodes,
    partitions,
    play,
    pod,
    runs,
    within,
)

#: Eight nodes, four switches (s0 to s3), two of the second tier (s4, s5) and one of the third.
SWITCHES: Final = {f"s{number}": (f"n{2 * number}", f"n{2 * number + 1}") for number in range(4)}
TREE: Final = hyper_nodes(SWITCHES, {"s4": ("s0", "s1"), "s5": ("s2", "s3")}, {"s6": ("s4", "s5")})
SOFT: Final = {"mode": "soft"}


def used(**cores: int) -> list[Step]:
    """Pods of another scheduler that take cores of nodes."""
    return [pod(f"other-{node}", node, str(each)) for node, each in cores.items()]


def everywhere(cores: int) -> list[Step]:
    return used(**{f"n{number}": cores for number in range(8)})


def case(before: list[Step], *steps: Step, cores: str = "8") -> Case:
    return Case([*before, *steps], nodes=8, cores=cores, objects=TREE)


def near(
    pods: int, cpu: str, topology: Mapping[str, Any] | None, of_task: Any = None, least: int | None = None
) -> Step:
    return job("j", pods, cpu, topology=topology, of_task=of_task, least=least)


def pairs_by_switch(*wanted: str) -> Step:
    """The pods of each partition of two share a switch, and the job uses these switches."""

    def step(world: SuiteWorld) -> None:
        found: dict[str, set[str]] = {}
        switch_of = {node: switch for switch, nodes in SWITCHES.items() for node in nodes}
        for name, node in world.running("j").items():
            found.setdefault(world.pods[name].labels["volcano.sh/partition-id"], set()).add(switch_of[node])
        assert all(len(each) == 1 for each in found.values()), found
        assert set().union(*found.values()) == set(wanted), found

    return step


PAIRS: Final = partitions(2, 2, hard(1))
LOW_S1: Final = used(n2=1, n3=1)
LOW_S3: Final = used(n6=1, n7=1)

CASES: Final = {
    "1.1": case(LOW_S1, near(2, "2", hard(1)), runs(j=2), on_nodes("j", "n2", "n3")),
    "1.2": case(
        used(n2=4, n3=4, n4=1), near(2, "4", hard(1)), runs(j=2), on_nodes("j", "n4", "n5"), cores="7900m"
    ),
    "1.3": case(used(n0=7, n1=7, n2=7, n3=7, n4=7, n5=7, n6=7, n7=7), near(2, "2", hard(1)), runs(j=0)),
    "2.1": case(
        used(n0=4, n2=4, n4=4, n6=4, n5=1), near(2, "2", hard(2)), runs(j=2), on_nodes("j", "n5", "n7"), cores="3900m"
    ),
    "2.2": case(
        used(n0=4, n1=4, n2=4, n4=4, n5=2, n6=2), near(2, "4", hard(2)), runs(j=0), cores="4"
    ),
    "2.3": case(
        used(n0=1), near(2, "2", hard(1)), runs(j=2), within("j", "n0", "n1"), kill("j-t-0"), runs(j=2),
        within("j", "n0", "n1"),
    ),
    "3.1": case(
        used(n0=6, n2=6, n4=6, n6=6, n1=4, n3=4, n5=5, n7=4), near(2, "2", SOFT), runs(j=2),
        on_nodes("j", "n5", "n7"), cores="7900m",
    ),
    "4.1": case(LOW_S1, near(4, "2", hard(1), PAIRS), runs(j=4), on_nodes("j", "n2", "n3")),
    "4.2": case(everywhere(6), near(2, "4", hard(1), partitions(2, 1, hard(1))), runs(j=0)),
    "4.3": case(
        used(n0=6, n1=2, n2=6, n3=2, n4=6, n5=2, n6=6, n7=2), near(2, "6", hard(1), partitions(2, 1, hard(1))),
        runs(j=0),
    ),
    "5.1": case(LOW_S1, near(4, "2", hard(2), PAIRS), runs(j=4), on_nodes("j", "n2", "n3")),
    "5.2": case(
        used(n0=3, n2=3, n4=6, n5=6, n6=6, n7=6), near(4, "3", hard(2), PAIRS), runs(j=4), pairs_by_switch("s0", "s1")
    ),
    "5.3": case(
        LOW_S3, near(4, "2", hard(2), PAIRS), runs(j=4), on_nodes("j", "n6", "n7"), kill("j-t-0"), runs(j=4),
        on_nodes("j", "n6", "n7"),
    ),
    "5.4": case(
        used(n0=6, n1=6, n2=1, n3=1), near(4, "2", hard(2), PAIRS), runs(j=4), on_nodes("j", "n2", "n3")
    ),
    "5.5": case(everywhere(6), near(2, "4", hard(2), partitions(2, 1, hard(1))), runs(j=0)),
    "5.6": case(everywhere(4), near(4, "4", hard(2), partitions(1, 4, hard(1))), runs(j=0)),
    "6.1": case(LOW_S1, near(4, "2", hard(2), partitions(2, 2, SOFT)), runs(j=4), on_nodes("j", "n2", "n3")),
    "6.2": case(
        used(n0=5, n1=5, n2=5, n3=5, n4=2, n6=2), near(4, "4", hard(2), partitions(2, 2, SOFT)), runs(j=4),
        within("j", "n4", "n5", "n6", "n7"),
    ),
    "6.3": case(
        used(n0=6, n1=2, n2=2, n3=2, n4=6, n5=2, n6=2, n7=2), near(4, "5", hard(2), partitions(2, 2, SOFT)), runs(j=0)
    ),
    "7.1": case(
        used(n0=4, n4=4, n2=6, n3=6, n6=6, n7=6), near(4, "3", SOFT, PAIRS), runs(j=4), pairs_by_switch("s0", "s2")
    ),
    "7.2": case(everywhere(2), near(6, "5", SOFT, partitions(2, 3, hard(1))), runs(j=0)),
    "8.1": case(
        used(n0=4, n4=4, n2=6, n3=6, n6=6, n7=6), near(4, "3", None, PAIRS), runs(j=4), pairs_by_switch("s0", "s2")
    ),
    "9.1": case(
        LOW_S1, near(4, "3", hard(1), partitions(2, 2, hard(1), least=2), least=4), runs(j=4),
        on_nodes("j", "n2", "n3"),
    ),
    "9.2": case(
        LOW_S1, near(8, "3", hard(2), partitions(4, 2, hard(1), least=4), least=4), runs(j=8),
        pairs_by_switch("s0", "s1"),
    ),
    "9.3": case([], near(12, "3", hard(1), partitions(6, 2, hard(1), least=2), least=6), runs(j=0)),
    "9.4": case([], near(12, "3", hard(1), partitions(6, 2, hard(1), least=4), least=4), runs(j=0)),
    "9.5": case(
        LOW_S3, near(4, "3", hard(2), partitions(2, 2, hard(1), least=2)), runs(j=4), on_nodes("j", "n6", "n7"),
        kill("j-t-0"), runs(j=4), on_nodes("j", "n6", "n7"),
    ),
    "9.6": case(
        LOW_S3, near(8, "3", hard(1), partitions(4, 2, hard(1), least=2), least=4), runs(j=4),
        pairs_by_switch("s3"), kill("j-t-0"), kill("j-t-1"), runs(j=4), pairs_by_switch("s3"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_hypernode(name: str) -> None:
    play(CASES[name])
