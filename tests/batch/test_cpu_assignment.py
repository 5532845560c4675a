"""The decisions of the topology manager's policies, and a comparison with all combinations of NUMA nodes."""

from __future__ import annotations

import itertools
import random

import pytest

from mooring.api.numa_topology import CpuInfo, NumatopologySpec
from mooring.batch.cpu_assignment import BEST_EFFORT, RESTRICTED, SINGLE_NODE, _Hint, _hint, assign
from mooring.batch.cpu_sets import format_cpus, parse_cpus
from mooring.batch.cpu_topology import CpuTopology


def topology(policy: str, *sizes: int) -> CpuTopology:
    """NUMA nodes with these numbers of CPUs, each a socket; every CPU is a core."""
    owners = [node for node, size in enumerate(sizes) for _ in range(size)]
    detail = {str(cpu): CpuInfo(numa=node, socket=node, core=cpu) for cpu, node in enumerate(owners)}
    return CpuTopology(NumatopologySpec(policies={"TopologyManagerPolicy": policy}, cpu_detail=detail))


@pytest.mark.parametrize(
    ("policy", "free", "requests", "cpus", "numa_count", "failed"),
    [
        (SINGLE_NODE, "0-7", [4], "0-3", 1, None),
        (SINGLE_NODE, "1-7", [4], "4-7", 1, None),
        (SINGLE_NODE, "0-7", [5], "", 0, 0),
        (SINGLE_NODE, "0-7", [2, 3], "0-1,4-6", 2, None),  # each container has its own NUMA node
        (SINGLE_NODE, "0-7", [3, 3, 3], "", 0, 2),
        (SINGLE_NODE, "0-1,4-5", [3], "", 0, 0),
        (RESTRICTED, "0-7", [5], "0-4", 2, None),  # no NUMA node is that large
        (RESTRICTED, "0-1,4-5", [3], "", 0, 0),  # one NUMA node would do, but not now
        (BEST_EFFORT, "0-1,4-5", [3], "0-1,4", 2, None),
        (BEST_EFFORT, "0-1", [3], "", 0, None),  # admitted without CPUs
        (BEST_EFFORT, "", [1], "", 0, None),
        (SINGLE_NODE, "0-1", [0, 2], "0-1", 1, None),  # a fraction of a CPU is not assigned
        ("other", "1-7", [2], "1-2", 1, None),
    ],
)
def test_policies(policy: str, free: str, requests: list[int], cpus: str, numa_count: int, failed: int | None) -> None:
    found = assign(topology(policy, 4, 4), parse_cpus(free), requests)
    assert (format_cpus(found.cpus), found.numa_count, found.failed) == (cpus, numa_count, failed)


@pytest.mark.parametrize(("requests", "failed"), [([2], None), ([2, 2], 1)])
def test_a_node_that_does_not_report_its_free_cpus(requests: list[int], failed: int | None) -> None:
    assert assign(topology(RESTRICTED, 4, 4), None, requests).failed == failed


def test_without_numa_nodes_no_hint_is_preferred() -> None:
    assert assign(topology(RESTRICTED), 0b1111, [0]).failed == 0
    assert assign(topology(BEST_EFFORT), 0b1111, [1]).failed is None


def test_the_hint_is_the_narrowest_of_all_combinations() -> None:
    rng = random.Random(5)
    for _ in range(400):
        policy = rng.choice([BEST_EFFORT, RESTRICTED, SINGLE_NODE])
        made = topology(policy, *(rng.randint(1, 6) for _ in range(rng.randint(1, 5))))
        free = rng.getrandbits(sum(cpus.bit_count() for cpus in made.numa_nodes.values()) + rng.choice([0, 2]))
        request = rng.randint(1, 14)
        assert _hint(made, free, request) == by_combinations(made, free, request)


def by_combinations(made: CpuTopology, free: int, request: int) -> _Hint:
    """The hint as the kubelet finds it: from all combinations of NUMA nodes, smaller ones first."""
    nodes = list(made.numa_nodes)
    least, hints = len(nodes), []
    extra = made.unknown(free).bit_count()
    for size in range(1, len(nodes) + 1):
        for chosen in itertools.combinations(nodes, size):
            if sum(made.numa_nodes[node].bit_count() for node in chosen) >= request:
                least = min(least, size)
            room = sum((made.numa_nodes[node] & free).bit_count() for node in chosen)
            if room + (extra if 0 in chosen else 0) >= request:
                hints.append(list(chosen))
    if made.policy == SINGLE_NODE:
        hints = [hint for hint in hints if len(hint) == least == 1]
    best = min(
        ((len(hint) != least, len(hint), sum(1 << node for node in hint), hint) for hint in hints),
        default=(True, 0, 0, nodes),
    )
    return _Hint(best[3], preferred=not best[0])
