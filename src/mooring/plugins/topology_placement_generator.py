"""TopologyPlacementGenerator: one placement for each value of the label that a PodGroup names as its topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mooring.api.scheduling import NativePodGroup
from mooring.framework import Nodes, Placements, Plugin, Pod, Status

#: How many topology keys are cached: tenants can name any number of them.
_MAX_KEYS: Final = 16


class TopologyPlacementGenerator(Plugin):
    """Restricts a PodGroup with a topology constraint to the nodes of one domain, for example one rack."""

    def setup(self) -> None:
        """Create the cache."""
        #: Topology key -> the version of the nodes, and the domains.
        self._domains: dict[str, tuple[int, Placements]] = {}

    def generate_placements(self, group: NativePodGroup, scheduled: Sequence[Pod], nodes: Nodes) -> Placements | Status:
        """Return the domains of the group's topology key; only that of its scheduled pods, if there are any."""
        table, key = nodes.table, group.topology_key
        if key is None:
            return Placements.whole(table)
        version, domains = self._domains.get(key, (-1, None))
        if domains is None or version != table.nodes_version:
            domains = Placements.by_label(nodes, key)
            if len(self._domains) >= _MAX_KEYS:
                self._domains.pop(next(iter(self._domains)))
            self._domains[key] = table.nodes_version, domains
        if not scheduled:
            return domains
        domain = self._domain_of(key, scheduled)
        return domain if isinstance(domain, Status) else domains.some(np.array([domains.names.index(domain)]))

    def _domain_of(self, key: str, scheduled: Sequence[Pod]) -> str | Status:
        """Return the domain of the pods that have a node."""
        found = ""
        prefix = "cannot determine domain for already scheduled pods"
        nodes, row_of = self.handle.table.nodes, self.handle.table.row_of
        for pod in scheduled:
            row = row_of.get(pod.node_name)
            if row is None:
                text = f'getting node for pod {pod.key}: nodeinfo not found for node name "{pod.node_name}"'
                return Status.error(f"{prefix}: {text}")
            domain = nodes[row].labels.get(key)
            if domain is None:
                return Status.error(f"{prefix}: no topology domain found for pod {pod.key}")
            if found not in ("", domain):
                return Status.error(f"{prefix}: more than 1 domain found for pod group: {found}, {domain}")
            found = domain
        return found
