"""The reported NUMA topologies of nodes, and the free CPUs that sessions assume until the next report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mooring.api.numa_topology import Numatopology
from mooring.batch.cpu_sets import parse_cpus
from mooring.batch.cpu_topology import CpuTopology, TopologyCache
from mooring.framework.listers import Lister


class NumaRecord(NamedTuple):
    """The last report about a node."""

    item: Numatopology
    #: The number of the change; it differs between two reports.
    change: int
    #: Whether there are as many free CPUs as in the report before, or more; also true for the first one.
    is_more: bool


class NumaView(NamedTuple):
    """What sessions assume about a node: its topology, and its free CPUs (None: not reported)."""

    topology: CpuTopology
    free: int | None
    #: The change of the report that was applied last.
    change: int


class NumaRecords(Mapping[str, NumaRecord]):
    """The reports by node. It listens for changes, because their order decides how a report is applied."""

    def __init__(self, topologies: Lister[Numatopology]) -> None:
        self._records: dict[str, NumaRecord] = {}
        self._changes = 0
        self._cache = TopologyCache()
        for item in topologies.list():
            self._changed(None, item)
        topologies.listen(self._changed)

    def _changed(self, old: Numatopology | None, new: Numatopology | None) -> None:
        if new is None:
            if old is not None:
                self._records.pop(old.name, None)
            return
        self._changes += 1
        known = self._records.get(new.name)
        is_more = known is None or _has_more(known.item, new)
        self._records[new.name] = NumaRecord(new, self._changes, is_more)

    def __getitem__(self, name: str) -> NumaRecord:
        return self._records[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def views(self, before: Mapping[str, NumaView]) -> dict[str, NumaView]:
        """Apply the reports to what sessions assumed before.

        As in Volcano, a report with fewer free CPUs only replaces the free CPUs, and only if more were assumed: it may
        be older than the last session's decisions.
        """
        found: dict[str, NumaView] = {}
        for name, record in self._records.items():
            view = before.get(name)
            if view is None or view.change != record.change:
                view = self._applied(record, view)
            found[name] = view
        return found

    def _applied(self, record: NumaRecord, view: NumaView | None) -> NumaView:
        reported = record.item.spec.numares.get("cpu")
        free = None if reported is None else parse_cpus(reported.allocatable)
        if view is None or record.is_more:
            return NumaView(self._cache.of(record.item.spec), free, record.change)
        if free is not None and (view.free is None or view.free.bit_count() >= free.bit_count()):
            return view._replace(free=free, change=record.change)
        return view._replace(change=record.change)


def _has_more(old: Numatopology, new: Numatopology) -> bool:
    """Return whether any resource has as many free units as before, or more."""
    for name, before in old.spec.numares.items():
        now = new.spec.numares.get(name)
        free = 0 if now is None else parse_cpus(now.allocatable).bit_count()
        if parse_cpus(before.allocatable).bit_count() <= free:
            return True
    return False
