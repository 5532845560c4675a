"""Reports about NUMA nodes: how a later one changes what sessions assume."""

from __future__ import annotations

import pytest

from mooring.api.meta import ObjectMeta
from mooring.api.numa_topology import CpuInfo, NumaResource, Numatopology, NumatopologySpec
from mooring.batch.cpu_sets import format_cpus, parse_cpus
from mooring.batch.numa_records import NumaRecords, NumaView
from mooring.framework.listers import Lister


def report(free: str | None, policy: str = "restricted", **others: str) -> Numatopology:
    shown = {**({} if free is None else {"cpu": free}), **others}
    spec = NumatopologySpec(
        policies={"CPUManagerPolicy": "static", "TopologyManagerPolicy": policy},
        numares={name: NumaResource(allocatable=text) for name, text in shown.items()},
        cpu_detail={str(cpu): CpuInfo(numa=cpu // 4, socket=cpu // 4, core=cpu) for cpu in range(8)},
    )
    return Numatopology(metadata=ObjectMeta(name="a"), spec=spec)


def records() -> tuple[Lister[Numatopology], NumaRecords]:
    lister: Lister[Numatopology] = Lister()
    lister.put(report("0-7"))
    return lister, NumaRecords(lister)


def used(found: NumaRecords, cpus: str) -> dict[str, NumaView]:
    """What sessions assume after pods got these CPUs."""
    views = found.views({})
    assert views["a"].free is not None
    return {"a": views["a"]._replace(free=views["a"].free & ~parse_cpus(cpus))}


@pytest.mark.parametrize(
    ("reports", "free", "policy"),
    [
        ([], "2-7", "restricted"),  # no report: the CPUs of bound pods stay taken
        ([report("0-7")], "0-7", "restricted"),  # as many as before: the node is right
        ([report("0-6", "best-effort")], "2-7", "restricted"),  # fewer than before, but more than assumed
        ([report("4-7", "best-effort")], "4-7", "restricted"),  # fewer than assumed; only the free CPUs change
        ([report("0-1"), report("0-2", "best-effort")], "0-2", "best-effort"),  # fewer, then more
        ([report("0-6"), report("0-5")], "0-5", "restricted"),
        ([report("0-1", gpu="0")], "0-1", "restricted"),
        ([report(None)], "2-7", "restricted"),
    ],
)
def test_reports(reports: list[Numatopology], free: str, policy: str) -> None:
    lister, found = records()
    assumed = used(found, "0-1")
    for item in reports:
        lister.put(item)
    view = found.views(assumed)["a"]
    assert view.free is not None
    assert (format_cpus(view.free), view.topology.policy) == (free, policy)
    assert found.views({"a": view}) == {"a": view}, "a report is applied once"


def test_a_node_without_a_report_is_forgotten() -> None:
    lister, found = records()
    assumed = used(found, "0-1")
    lister.remove("a")
    assert found.views(assumed) == {}
    assert list(found) == []
    lister.put(report("0-3"))
    assert format_cpus(found.views({})["a"].free or 0) == "0-3"
    assert found["a"].is_more
    assert len(found) == 1
