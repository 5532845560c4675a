"""NodeResourceTopologyMatch: the plugin."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Hashable
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.framework import (
    MAX_SCORE,
    ActionType,
    ClusterEvent,
    CycleState,
    Lister,
    Nodes,
    Plugin,
    PodTemplate,
    Status,
    Verdicts,
    depends_on,
)
from mooring.plugins.node_resource_topology.alignment import REASONS, misfit
from mooring.plugins.node_resource_topology.caches import DiscardReserved, Reported, TopologyCache
from mooring.plugins.node_resource_topology.demand import Demand, demand_of
from mooring.plugins.node_resource_topology.over_reserve import CacheArgs, OverReserve
from mooring.plugins.node_resource_topology.strategies import LEAST_NUMA_NODES, score
from mooring.plugins.node_resource_topology.zone_columns import CONTAINER_SCOPE, LOOSE, POD_SCOPE, ZoneColumns
from mooring.plugins.node_resource_topology.zones import NodeResourceTopology, invalid_amount

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_NOBODY: Final[Rows] = np.zeros(0, dtype=np.intp)
_STATUSES: Final = {code: Status.unschedulable(reason) for code, reason in REASONS.items()}


class Weighted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A resource and its weight."""

    name: str
    weight: int = 1


class ScoringStrategy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The scoring strategy of zones."""

    type: str = "LeastAllocated"
    resources: tuple[Weighted, ...] = (Weighted(name="cpu"), Weighted(name="memory"))


class NodeResourceTopologyMatchArgs(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The scoring strategy, and the cache of topologies."""

    scoring_strategy: ScoringStrategy = ScoringStrategy()
    #: Above 0: reserved pods are charged to all zones, and reports are checked at this interval in seconds.
    cache_resync_period_seconds: int = 0
    discard_reserved_nodes: bool = False
    cache: CacheArgs = CacheArgs()
    preemption_mode: str = "Disabled"


class NodeResourceTopologyMatch(Plugin[NodeResourceTopologyMatchArgs]):
    """Rejects nodes whose kubelet would reject the pod for lack of a NUMA zone, and scores the others by zones."""

    topologies = Lister(NodeResourceTopology, events=ActionType.ADD | ActionType.UPDATE)

    def setup(self) -> None:
        """Read the existing reports."""
        strategy = self.args.scoring_strategy
        self._weights = {each.name: max(each.weight, 1) for each in strategy.resources}
        self._cache = self._make_cache()
        self._columns = ZoneColumns(self.handle.table, self._cache.get)
        for item in self.topologies.list():
            self._check(None, item)
        self.topologies.listen(self._check)

    def _check(self, _: NodeResourceTopology | None, item: NodeResourceTopology | None, /) -> None:
        """Report amounts that cannot be parsed."""
        problem = invalid_amount(item) if item is not None else ""
        if item is not None and problem:
            note = f"{problem}; the amount is ignored"
            self.handle.events.record(item, type="Warning", reason="Invalid", action="Scheduling", note=note)

    def _make_cache(self) -> TopologyCache:
        if self.args.discard_reserved_nodes:
            return DiscardReserved(self.topologies, self._changed)
        if self.args.cache_resync_period_seconds <= 0:
            return Reported(self.topologies, self._changed)
        handle = self.handle
        return OverReserve(self.topologies, handle.lister(Pod), handle.profile_name, self.args.cache, self._changed)

    def _changed(self, node_name: str) -> None:
        if hasattr(self, "_columns"):
            self._columns.mark(node_name)
            self.handle.touch(node_name)

    async def run(self) -> None:
        """Resync uncertain nodes periodically."""
        period = self.args.cache_resync_period_seconds
        while period > 0 and not self.args.discard_reserved_nodes:
            self._cache.resync()
            await asyncio.sleep(period)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for deleted pods and changed nodes; the lister registers for topologies."""
        return [
            ClusterEvent("Pod", ActionType.DELETE),
            ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
        ]

    def signature(self, template: PodTemplate) -> Hashable:
        """Return the requests."""
        return template.kept((type(self), "key"), lambda: self._demand(template).key)

    def _demand(self, template: PodTemplate) -> Demand:
        return template.kept(type(self), lambda: demand_of(template.pod))

    # Filter. The verdict also depends on the topology; a changed topology marks its node as changed.

    @depends_on("node")
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Reject nodes without a zone for the pod, or for one of its containers."""
        demand = self._demand(self.handle.template(pod))
        if not demand.matters:
            return None
        columns = self._columns
        columns.refresh()
        rows = _rows(nodes)
        codes = columns.misfits(demand, rows)
        for place in self._unusual(rows, POD_SCOPE, CONTAINER_SCOPE).tolist():
            row = int(rows[place])
            topology = columns.topologies[row]
            if topology is not None:
                codes[place] = misfit(topology, demand, functools.partial(columns.offers, row))
        rejected = np.flatnonzero(codes)
        if not len(rejected):
            return None
        if self.args.cache_resync_period_seconds > 0:
            for row in rows[rejected].tolist():
                if columns.topologies[row] is not None:
                    self._cache.rejected(self.handle.table.nodes[row].name)
        return Verdicts(codes, _STATUSES.__getitem__)

    def _unusual(self, rows: Rows, *kinds: int) -> Rows:
        """Return the positions of the rows that must be evaluated one by one."""
        columns = self._columns
        if not columns.odd:
            return _NOBODY
        return np.flatnonzero(~columns.usual[rows] & np.isin(columns.kinds[rows], kinds))

    # Score

    @depends_on("node")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Score how well the pod fits into zones; equal for all nodes if its resources are not exclusive."""
        demand = self._demand(self.handle.template(pod))
        if not demand.guaranteed:
            return MAX_SCORE
        columns = self._columns
        columns.refresh()
        rows = _rows(nodes)
        strategy = self.args.scoring_strategy.type
        if strategy == LEAST_NUMA_NODES:
            kinds = columns.kinds[rows]
            scores = np.zeros(len(rows), dtype=np.int64)
            alone = np.flatnonzero((kinds == LOOSE) | (kinds == POD_SCOPE) | (kinds == CONTAINER_SCOPE))
        else:
            scores = columns.scores(demand, strategy, self._weights, rows)
            alone = self._unusual(rows, POD_SCOPE, CONTAINER_SCOPE)
        if len(alone):
            # Many nodes have equal topologies; evaluate each case once.
            _, firsts, cases = np.unique(columns.contents[rows[alone]], return_index=True, return_inverse=True)
            topologies = (columns.topologies[row] for row in rows[alone[firsts]].tolist())
            found = [score(each, demand, strategy, self._weights) if each is not None else 0 for each in topologies]
            scores[alone] = np.array(found, dtype=np.int64)[cases]
        return scores

    # Reservations

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Reserve the pod in the cache."""
        self._cache.reserve(node_name, pod)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo the reservation."""
        self._cache.unreserve(node_name, pod)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Notify the cache that the pod is bound."""
        self._cache.bound(node_name, pod)


def _rows(nodes: Nodes) -> Rows:
    return np.arange(len(nodes)) if nodes.rows is None else nodes.rows
