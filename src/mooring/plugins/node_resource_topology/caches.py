"""Caches of node topologies: how they change between two reports while pods are being placed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mooring.api.pod import Pod
from mooring.framework import Lister
from mooring.plugins.node_resource_topology.zones import NodeResourceTopology, Topology, read

#: Called with the name of a node whose cached topology changed.
Changed = Callable[[str], None]


class TopologyCache(Protocol):
    """Topologies by node, and how reservations change them."""

    def get(self, node_name: str) -> tuple[Topology | None, bool]:
        """Return a node's topology, if it has one, and whether it is reliable."""

    def reserve(self, node_name: str, pod: Pod) -> None:
        """Reserve a pod on a node."""

    def unreserve(self, node_name: str, pod: Pod) -> None:
        """Undo a reservation."""

    def bound(self, node_name: str, pod: Pod) -> None:
        """Handle a bound pod."""

    def rejected(self, node_name: str) -> None:
        """Handle a pod that fits into no zone of a node."""

    def resync(self) -> None:
        """Check the latest reports of uncertain nodes."""


class Reported:
    """A cache that returns the last reports and ignores reservations."""

    def __init__(self, reports: Lister[NodeResourceTopology], changed: Changed) -> None:
        self._reports = reports
        self._read: dict[str, Topology] = {}
        self._changed = changed
        reports.listen(self._on_change)

    def _on_change(self, old: NodeResourceTopology | None, new: NodeResourceTopology | None, /) -> None:
        item = new if new is not None else old
        if item is not None:
            self._read.pop(item.name, None)
            self._changed(item.name)

    def get(self, node_name: str) -> tuple[Topology | None, bool]:
        """Return the last report."""
        found = self._read.get(node_name)
        if found is None:
            report = self._reports.get(node_name)
            if report is None:
                return None, True
            found = self._read[node_name] = read(report)
        return found, True

    def reserve(self, node_name: str, pod: Pod) -> None:
        """Do nothing until the next report."""

    def unreserve(self, node_name: str, pod: Pod) -> None:
        """Do nothing until the next report."""

    def bound(self, node_name: str, pod: Pod) -> None:
        """Do nothing until the next report."""

    def rejected(self, node_name: str) -> None:
        """Do nothing until the next report."""

    def resync(self) -> None:
        """Do nothing: reports are used as they arrive."""


class DiscardReserved(Reported):
    """A cache that excludes nodes with a reservation."""

    def __init__(self, reports: Lister[NodeResourceTopology], changed: Changed) -> None:
        super().__init__(reports, changed)
        self._reserved: dict[str, set[str]] = {}

    def get(self, node_name: str) -> tuple[Topology | None, bool]:
        """Return the last report, unless the node has a reservation."""
        return (None, False) if self._reserved.get(node_name) else super().get(node_name)

    def reserve(self, node_name: str, pod: Pod) -> None:
        """Exclude the node."""
        self._reserved.setdefault(node_name, set()).add(pod.uid)
        self._changed(node_name)

    def unreserve(self, node_name: str, pod: Pod) -> None:
        """Remove one reservation."""
        pods = self._reserved.get(node_name, set())
        pods.discard(pod.uid)
        if not pods:
            self._reserved.pop(node_name, None)
        self._changed(node_name)

    def bound(self, node_name: str, pod: Pod) -> None:
        """Remove the reservation: the next report includes the pod."""
        self.unreserve(node_name, pod)
