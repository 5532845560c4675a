"""What is believed of nodes' topologies between two reports, while pods are on their way to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mooring.api.pod import Pod
from mooring.framework import Lister
from mooring.plugins.node_resource_topology.zones import NodeResourceTopology, Topology, read

#: Called with the name of a node of which something else is believed now.
Changed = Callable[[str], None]


class TopologyCache(Protocol):
    """Topologies by node, and how reservations change them."""

    def get(self, node_name: str) -> tuple[Topology | None, bool]:
        """A node's topology, if it has one, and whether it can be relied on."""

    def reserve(self, node_name: str, pod: Pod) -> None:
        """A pod is on its way to a node."""

    def unreserve(self, node_name: str, pod: Pod) -> None:
        """It is not any more."""

    def bound(self, node_name: str, pod: Pod) -> None:
        """It has arrived."""

    def rejected(self, node_name: str) -> None:
        """No zone of a node had room for a pod."""

    def resync(self) -> None:
        """Look at the newest reports of nodes that are in doubt."""


class Reported:
    """Believes the reports, whatever was decided since."""

    def __init__(self, reports: Lister[NodeResourceTopology], changed: Changed) -> None:
        self._reports = reports
        self._read: dict[str, Topology] = {}
        self._changed = changed
        reports.listen(self._heard)

    def _heard(self, old: NodeResourceTopology | None, new: NodeResourceTopology | None, /) -> None:
        item = new if new is not None else old
        if item is not None:
            self._read.pop(item.name, None)
            self._changed(item.name)

    def get(self, node_name: str) -> tuple[Topology | None, bool]:
        """The last report."""
        found = self._read.get(node_name)
        if found is None:
            report = self._reports.get(node_name)
            if report is None:
                return None, True
            found = self._read[node_name] = read(report)
        return found, True

    def reserve(self, node_name: str, pod: Pod) -> None:
        """Nothing changes before the next report."""

    def unreserve(self, node_name: str, pod: Pod) -> None:
        """Nothing changes before the next report."""

    def bound(self, node_name: str, pod: Pod) -> None:
        """Nothing changes before the next report."""

    def rejected(self, node_name: str) -> None:
        """Nothing changes before the next report."""

    def resync(self) -> None:
        """Reports are believed as they come."""


class DiscardReserved(Reported):
    """Leaves nodes alone that a pod is on its way to."""

    def __init__(self, reports: Lister[NodeResourceTopology], changed: Changed) -> None:
        super().__init__(reports, changed)
        self._reserved: dict[str, set[str]] = {}

    def get(self, node_name: str) -> tuple[Topology | None, bool]:
        """The last report, unless it is about to be out of date."""
        return (None, False) if self._reserved.get(node_name) else super().get(node_name)

    def reserve(self, node_name: str, pod: Pod) -> None:
        """Leave the node alone from now on."""
        self._reserved.setdefault(node_name, set()).add(pod.uid)
        self._changed(node_name)

    def unreserve(self, node_name: str, pod: Pod) -> None:
        """One reason less to leave the node alone."""
        pods = self._reserved.get(node_name, set())
        pods.discard(pod.uid)
        if not pods:
            self._reserved.pop(node_name, None)
        self._changed(node_name)

    def bound(self, node_name: str, pod: Pod) -> None:
        """As if it had never been reserved: the next report will tell."""
        self.unreserve(node_name, pod)
