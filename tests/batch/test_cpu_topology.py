"""CPU topologies: reserved CPUs, the CPUs that are taken first, and invalid reports."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.numa_topology import CpuInfo, NumatopologySpec
from mooring.batch.cpu_sets import format_cpus, parse_cpus
from mooring.batch.cpu_topology import CpuTopology, TopologyCache

POLICIES = {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"}


def spec(sockets: int = 2, cores: int = 4, reserved: dict[str, str] | None = None) -> NumatopologySpec:
    """Sockets that are a NUMA node each; the second thread of core N is CPU N plus the number of cores."""
    detail: dict[str, Any] = {}
    for core in range(sockets * cores):
        for thread in range(2):
            info = CpuInfo(numa=core // cores, socket=core // cores, core=core)
            detail[str(core + thread * sockets * cores)] = info
    return NumatopologySpec(policies=POLICIES, res_reserved=reserved or {}, cpu_detail=detail)


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        ("0-15", 0, ""),
        ("0-15", 8, "0-3,8-11"),  # a whole socket
        ("0-15", 4, "0-1,8-9"),  # whole cores
        ("0-15", 3, "0-1,8"),  # then a single CPU on the same socket
        ("1-15", 8, "4-7,12-15"),  # socket 0 counts as used, since CPU 0 is
        ("1-15", 2, "1,9"),
        ("9-15", 2, "9-10"),  # no core counts as free
        ("0-1,9", 1, "0"),  # a core that is partly used
        ("0-2", 4, None),
        ("40-50", 1, None),
    ],
)
def test_take(free: str, count: int, taken: str | None) -> None:
    found = CpuTopology(spec()).take(parse_cpus(free), count)
    assert (None if found is None else format_cpus(found)) == taken


@pytest.mark.parametrize(
    ("reserved", "cpus"),
    [
        ({}, ""),
        ({"cpu": "1500m"}, "0,8"),
        ({"cpu": "1", "memory": "1Gi"}, "0"),
        ({"cpu": "1", "pods": "3"}, ""),  # Volcano drops all amounts if one cannot be reserved
        ({"cpu": "one"}, ""),
        ({"cpu": "-1"}, ""),
        ({"cpu": "100"}, ""),
    ],
)
def test_reserved_cpus(reserved: dict[str, str], cpus: str) -> None:
    assert format_cpus(CpuTopology(spec(reserved=reserved)).reserved) == cpus


def test_an_empty_report() -> None:
    topology = CpuTopology(NumatopologySpec())
    assert topology.policy == ""
    assert not topology.is_static
    assert topology.take(0b1111, 1) is None
    assert topology.numa_count(0b1111) == 0
    assert topology.unknown_numa is None


def test_hostile_numbers() -> None:
    detail = {
        "x": CpuInfo(numa=-3, socket=-1, core=-9),
        "1": CpuInfo(numa=2**62, socket=2**62, core=2**62),
        "99999999999": CpuInfo(),
    }
    topology = CpuTopology(NumatopologySpec(cpu_detail=detail))
    assert topology.take(0b11, 2) == 0b11
    assert topology.numa_count(0b10) == 1


def test_equal_reports_share_a_topology() -> None:
    cache = TopologyCache()
    assert cache.of(spec()) is cache.of(spec())
    assert cache.of(spec()) is not cache.of(spec(cores=8))
